"""Experiments: the runner of a scenario, playbooks, replays, stacks, endurance, and one folder per kind of case."""
