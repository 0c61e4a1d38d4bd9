"""The usual stacks behind nginx, set up as a user would, and what the commands of Sojourn say about each."""
