"""Shared parts of commands: options, completion, progress, reading the sources, printing the answer."""
