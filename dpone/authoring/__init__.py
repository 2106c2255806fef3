"""Changes of project files that people also edit."""
