"""`python -m sojourn_lab`: the same as `sojourn lab`."""

from sojourn.cli.streams import made_usable

from sojourn_lab.cli import app

made_usable()
app(prog_name="sojourn lab")
