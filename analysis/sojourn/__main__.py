"""``python -m sojourn``."""

from sojourn.cli import main

main()
