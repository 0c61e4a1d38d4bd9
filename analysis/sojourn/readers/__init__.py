"""Readers: everything that turns a source into the canonical frame."""
