"""Reviewed deletions from a deployment cache: plan, apply, replay."""
