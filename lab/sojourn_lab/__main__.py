"""`python -m sojourn_lab`: the same as `sojourn lab`."""

from sojourn_lab.cli import app

app(prog_name="sojourn lab")
