"""Readers: convert sources into the canonical frame."""
