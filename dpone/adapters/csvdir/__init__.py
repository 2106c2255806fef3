"""A plain directory of CSV files that are appended to: a target without a fence."""
