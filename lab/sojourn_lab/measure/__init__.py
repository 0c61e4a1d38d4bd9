"""Samples of the system under test: /proc, accept queues, and disturbance by other programs."""
