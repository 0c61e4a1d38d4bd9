"""Analyses: pure functions from the canonical frame to results that tables, plots and reports only format."""
