"""Simulate a queueing system and set theory beside it."""
