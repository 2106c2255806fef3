"""Tests of routes, sources and loads, with real files and databases."""
