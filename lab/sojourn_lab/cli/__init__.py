"""`sojourn lab`: list the scenarios, run one, show and compare runs."""

from sojourn_lab.cli.commands import app

__all__ = ["app"]
