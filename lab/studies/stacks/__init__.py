"""The usual stacks behind nginx, set up as a user would, with the output of Sojourn's commands for each."""
