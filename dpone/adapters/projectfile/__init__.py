"""The project file, `dpone.toml`."""
