"""A DuckDB file as a fenced target, and DuckDB's bulk readers."""
