"""Demonstrations on real data."""
