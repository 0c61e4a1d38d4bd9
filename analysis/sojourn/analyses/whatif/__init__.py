"""Replay the recorded requests under a different configuration."""
