"""Infer the queue in front of backends whose apps reported nothing."""
