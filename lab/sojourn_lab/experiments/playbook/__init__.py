"""A list of runs of one scenario, each with one thing changed; unattended."""
