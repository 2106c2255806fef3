"""Benchmarks: every stated figure is measured here, side by side in one run."""
