"""Tests of YAML documents: read, compared and edited in the text that people wrote."""
