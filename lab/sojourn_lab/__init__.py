"""Run scenarios with a known truth on real servers."""
