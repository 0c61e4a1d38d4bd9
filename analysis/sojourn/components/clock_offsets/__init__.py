"""Estimate the offset between two clocks from what requests allow, and apply it. Knows frames alone."""
