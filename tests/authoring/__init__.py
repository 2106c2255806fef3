"""Tests of authoring: files that people also edit."""
