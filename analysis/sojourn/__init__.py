"""Slow code, or a queue? Response time behind nginx, split into queueing delay and service time.

>>> import sojourn
>>> result = sojourn.split("docs/examples/shop.jsonl.gz", spans="docs/examples/shop-spans.jsonl.gz")
>>> print(result)
It is a queue, not the code: of 390 ms on average, 76 % went waiting for a worker. Of the slowest 1 % (4.00 s and more), 97 % was queueing.
>>> print(sojourn.blame(result))
/export caused 54 % of all queueing seconds (it is 5.6 % of requests), 81 % of those that somebody is to blame for; another 33 % was imbalance between backends.

In a notebook, ``result`` alone shows its table, and ``sojourn.plots.ccdf(result)`` is a chart.
"""  # noqa: E501 - a doctest prints in one line

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.model.errors import SojournError
from sojourn.model.result import display_with

if TYPE_CHECKING:
    from sojourn import plots
    from sojourn.analyses.split.analysis import SplitResult, split
    from sojourn.api.around import clock, look, tiers, wire
    from sojourn.api.load import capacity, compare, laws, whatif
    from sojourn.api.pages import write_movie, write_report
    from sojourn.api.simulated import simulate
    from sojourn.api.waiting import blame, depth, goodput, visits
    from sojourn.doctor import diagnose
    from sojourn.model.frame import Requests
    from sojourn.sources.requests import read

    __version__: str

__all__ = [
    "Requests", "SojournError", "SplitResult", "__version__", "blame", "capacity", "clock", "compare", "depth",
    "diagnose", "goodput", "laws", "look", "plots", "read", "simulate", "split", "tiers", "visits", "whatif", "wire",
    "write_movie", "write_report",
]  # fmt: skip


def _display() -> Any:
    from sojourn.present import display  # noqa: PLC0415 - only where a result is shown

    return display


display_with(_display)

# Loaded on first use: the command line answers --help without starting Polars and DuckDB.
_HOMES = {
    "Requests": "sojourn.model.frame",
    "SplitResult": "sojourn.analyses.split.analysis",
    "blame": "sojourn.api.waiting",
    "capacity": "sojourn.api.load",
    "clock": "sojourn.api.around",
    "compare": "sojourn.api.load",
    "depth": "sojourn.api.waiting",
    "diagnose": "sojourn.doctor",
    "goodput": "sojourn.api.waiting",
    "laws": "sojourn.api.load",
    "look": "sojourn.api.around",
    "read": "sojourn.sources.requests",
    "simulate": "sojourn.api.simulated",
    "split": "sojourn.analyses.split.analysis",
    "tiers": "sojourn.api.around",
    "visits": "sojourn.api.waiting",
    "whatif": "sojourn.api.load",
    "wire": "sojourn.api.around",
    "write_movie": "sojourn.api.pages",
    "write_report": "sojourn.api.pages",
}
_PACKAGES = ("plots",)


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return import_module(f"sojourn.{name}")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'sojourn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - takes its time to load

    try:
        return version("sojourn")
    except PackageNotFoundError:  # imported from a checkout that was never installed
        return "0+unknown"
