"""``python -m sojourn``."""

from sojourn.cli import program

program()
