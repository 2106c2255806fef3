"""YAML files."""
