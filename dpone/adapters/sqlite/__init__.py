"""Journal and target on SQLite, with the standard library's driver."""
