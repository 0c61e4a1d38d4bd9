"""Slow code, or a queue? Response time behind nginx, split into queueing delay and service time.

>>> import sojourn
>>> result = sojourn.split("access.jsonl")      # doctest: +SKIP
>>> print(result.verdict.sentence)              # doctest: +SKIP
>>> sojourn.blame(result.rows).culprits         # doctest: +SKIP
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from sojourn.explain.compare.compare import compare
    from sojourn.explain.goodput import goodput
    from sojourn.explain.split import SplitResult, split
    from sojourn.explain.visits import visits
    from sojourn.explain.waiting.blame import blame
    from sojourn.explain.waiting.depth import depth
    from sojourn.explain.whatif.whatif import whatif
    from sojourn.explain.wire.wire import wire
    from sojourn.frame import Requests
    from sojourn.readers.requests import read

try:
    __version__ = version("sojourn")
except PackageNotFoundError:  # imported from a checkout that was never installed
    __version__ = "0+unknown"

__all__ = [
    "Requests", "SojournError", "SplitResult", "__version__", "blame", "compare", "depth", "goodput", "read", "split",
    "visits", "whatif", "wire",
]  # fmt: skip


# Loaded on first use: the command line answers --help without starting Polars and DuckDB.
_HOMES = {
    "Requests": "sojourn.frame",
    "SplitResult": "sojourn.explain.split",
    "blame": "sojourn.explain.waiting.blame",
    "compare": "sojourn.explain.compare.compare",
    "depth": "sojourn.explain.waiting.depth",
    "goodput": "sojourn.explain.goodput",
    "read": "sojourn.readers.requests",
    "split": "sojourn.explain.split",
    "visits": "sojourn.explain.visits",
    "whatif": "sojourn.explain.whatif.whatif",
    "wire": "sojourn.explain.wire.wire",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module  # noqa: PLC0415

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sojourn' has no attribute {name!r}")
