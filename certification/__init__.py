"""What an adapter has to prove before anything may be claimed of it, and the proof's keeping."""
