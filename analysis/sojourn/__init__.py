"""Slow code, or a queue? Response time behind nginx, split into queueing delay and service time.

>>> import sojourn
>>> result = sojourn.split("docs/examples/shop.jsonl.gz", spans="docs/examples/shop-spans.jsonl.gz")
>>> print(result)
A queue, caused by /export: 5.6 % of the requests, which hold a worker for 1.1 s each, caused 54 % of the waiting. Make them shorter, or give them workers of their own. Of 390 ms on average, 76 % went waiting for a worker. Of the slowest 1 % (4.00 s and more), 97 % was queueing. In an incident from 00:01:00 to 00:01:25 UTC, when services took 2 times as long, requests waited 1.4 s on average; otherwise 50.0 ms.
>>> print(sojourn.blame(result))
/export caused 54 % of all queueing seconds (it is 5.6 % of requests), 81 % of those charged to requests in service; another 33 % was imbalance between backends.

In a notebook, ``result`` alone shows its table, and ``sojourn.plots.ccdf(result)`` is a chart.
"""  # noqa: E501 - a doctest prints in one line

from __future__ import annotations

from typing import Any

from sojourn.model.result import display_with
from sojourn.model.version import version

# What no question brings. Loaded on first use: the command line answers --help without starting Polars and DuckDB.
_HOMES = {
    "Requests": "sojourn.model.frame",
    "app_log_file": "sojourn.sources.log_files",
    "log_file": "sojourn.sources.log_files",
    "table_file": "sojourn.sources.log_files",
    "diagnose": "sojourn.doctor.doctor",
    "quantile": "sojourn.sources.quantiles",
    "read": "sojourn.sources.requests",
    "visits": "sojourn.timeline.visits_of",
    "write_movie": "sojourn.movie.run",
    "write_report": "sojourn.report.build",
    "write_timeline": "sojourn.perfetto.run",
}
_PACKAGES = ("plots",)


def _display() -> Any:
    from sojourn.present import display  # noqa: PLC0415 - only where a result is shown

    return display


display_with(_display)


def _public_modules() -> dict[str, str]:
    """Return public name -> module that defines it."""
    from sojourn.analyses import questions  # noqa: PLC0415 - only when a name is used

    public = {name: f"{each.package}.{module}" for each in questions() for name, module in each.public.items()}
    return {**public, **_HOMES, "SojournError": "sojourn.model.errors", **dict.fromkeys(_PACKAGES, "sojourn")}


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    if name in _PACKAGES:
        return import_module(f"sojourn.{name}")
    if name == "__version__":
        return version()
    if name == "__all__":
        return __dir__()
    if not name.startswith("_") and (home := _public_modules().get(name)):
        return getattr(import_module(home), name)
    raise AttributeError(f"module 'sojourn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*_public_modules(), "__version__"))
