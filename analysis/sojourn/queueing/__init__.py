"""Queueing systems: theory, staffing, exact replays, a simulator. The input is arrivals and service times, not logs."""
