"""Sources: files and queries, read by the engines' bulk paths."""
