"""What a call tells those who watch it from outside."""
