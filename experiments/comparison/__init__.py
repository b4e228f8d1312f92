"""Runs side by side: what changed, for whom, why, whether it is real, and whether it may pass."""
