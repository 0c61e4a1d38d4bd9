"""Queues by themselves: theory, an exact replay, a simulator. Knows arrivals and service times, nothing of logs."""
