"""Tests of the tree's shape: rules that hold for every file, whoever adds it."""
