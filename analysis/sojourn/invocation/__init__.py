"""Shared parts of commands: options, completion, progress, reading and output."""
