"""Policy of the fenced commit: who may change a target, and what is known of it afterwards."""
