"""The small languages of options: instants, pairs, changes, objectives, processes, addresses of stores and of hosts.

A line is a text; every reader gets every one of them.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable
from functools import partial
from random import Random

import polars as pl
import typer
from sojourn.analyses.capacity.knee import Slo
from sojourn.analyses.simulate.analysis import simulate
from sojourn.analyses.whatif.variants import change_of
from sojourn.host.servers.kinds import KINDS, Server, server_of
from sojourn.invocation.options import column_of, conditions_of, workers_of
from sojourn.invocation.progress import instant, pairs
from sojourn.model.dsn import parse
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.model.frame import SCHEMA, Selection
from sojourn.queueing.system import System
from sojourn_lab.errors import LabError
from sojourn_lab.runtime.target import target_url

from fuzz import nasty
from fuzz.refusals import refusal

PACKAGES: tuple[str, ...] = ("sojourn", "sojourn_lab")
_EMPTY = pl.LazyFrame(schema=SCHEMA)
_UNSEEN = {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}


def check(data: bytes) -> None:
    """Each gives what it promises, or refuses in a sentence."""
    for text in data.decode("utf-8", "replace").split("\n")[:20]:
        for read in _READERS:
            refusal(partial(read, text), SojournError, LabError, typer.BadParameter)
        if not text.startswith("trace"):  # which reads a file
            refusal(partial(_simulated, text, "exponential:0.1"), ValueError, SojournError)
            refusal(partial(_simulated, "poisson:8", text), ValueError, SojournError)
        assert not {unicodedata.category(c) for c in printable(text)} & _UNSEEN


def _selected(text: str) -> None:
    Selection.of(None, None, conditions_of([text])).of_rows(_EMPTY).collect()


def _simulated(arrivals: str, service: str) -> None:
    """Processes that are taken can be simulated, and what comes out is a number."""
    result = simulate(arrivals, service, System((1,)), requests=50, seed=1).to_dict()
    json.dumps(result, allow_nan=False)
    assert math.isfinite(result["wait"]["mean"]), (arrivals, service)


_READERS: tuple[Callable[[str], object], ...] = (
    instant,
    _selected,
    column_of,
    lambda text: workers_of([text]),
    lambda text: change_of(pairs([text], "--set")),
    lambda text: str(Slo.of(text)),
    lambda text: str(parse(text)),
    target_url,
    *(partial(Server, kind) for kind in KINDS),
    server_of,
)


def generated(rng: Random) -> bytes:
    """Something like one of them."""
    number, word = nasty.number(rng), nasty.text(rng)
    begins = rng.choice(tuple(_SHAPES))
    return f"{rng.choice(begins)}{_SHAPES[begins](number, word)}".encode("utf-8", "surrogatepass")


_SHAPES: dict[tuple[str, ...], Callable[[str, str], str]] = {
    ("poisson:", "constant:", "exponential:", "lognormal:0.1:", "pareto:0.1:", "hyperexponential:8:", "pareto:"): (
        lambda number, _: number
    ),
    ("2026-01-31T12:00:00", "2026-01-31", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-W05"): (
        lambda _, word: word
    ),
    ("workers=", "backends=x", "timeout=", "retries=", "load=x", "pool:/a=", "service:/a=", "capacity=+", "backoff="): (
        lambda number, _: number
    ),
    ("p99=", "p99.9=", "mean=", "errors=", *(f"{column}=" for column in SCHEMA)): lambda number, _: number,
    ("chdb://", "clickhouse://h:", "clickhouse://u:p@h:", "clickhouses://[::1]:", "http://h:", "http://[::1]:"): (
        lambda number, word: f"{number}/{word}"
    ),
    ("chdb:///", "clickhouse://", "http://", "http://unix:/s", ""): lambda _, word: word,
    ("", "1", "-"): lambda number, word: f"{number}{word if len(word) < 4 else 'min ago'}",
}
