"""Compare two splits: what changed, which component and group changed it, and whether chance explains it."""
