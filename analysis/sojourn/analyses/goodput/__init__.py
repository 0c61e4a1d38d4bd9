"""Measure work done for clients that had already disconnected."""
