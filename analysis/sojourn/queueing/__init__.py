"""Queueing systems: theory, an exact replay, a simulator. The input is arrivals and service times, not logs."""
