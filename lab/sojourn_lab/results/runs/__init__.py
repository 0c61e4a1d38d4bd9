"""Results over runs: which there are, what is in them, and what changed from one to another."""
