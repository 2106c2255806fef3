"""What policy needs from the world, and what is durable when a call returns."""
