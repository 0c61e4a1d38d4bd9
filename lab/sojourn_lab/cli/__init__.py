"""`sojourn lab`: list the scenarios, run one, show and compare runs."""

from importlib.util import find_spec

if find_spec("aiohttp") is None:
    # Only the load generator loads it, in a process of its own: to miss it there would be late.
    raise ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp")

from sojourn_lab.cli.commands import app

__all__ = ["app"]
