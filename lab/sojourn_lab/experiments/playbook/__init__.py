"""A list of unattended runs of one scenario, each with one change."""
