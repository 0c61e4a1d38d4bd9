"""Find the load at which an objective breaks, fit the scalability law, size for a target rate."""
