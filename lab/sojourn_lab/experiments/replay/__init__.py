"""A recorded log as a scenario: its arrivals and service times, anonymised."""
