"""Experiments: the runner of a scenario, playbooks, replays, endurance, and one folder per kind of case."""
