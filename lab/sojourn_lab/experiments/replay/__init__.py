"""Somebody's own log as a scenario: its arrivals and service times, anonymised."""
