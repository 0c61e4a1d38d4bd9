"""Odd requests through every analysis of a log: each answers in figures, or says in a sentence why it cannot.

A line of spans is recognised by ``resourceSpans``.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import sojourn
from sojourn.model.formatting import rounded

from fuzz.refusals import refusal
from fuzz.targets import split

PACKAGES: tuple[str, ...] = ()
FRESH = 1  # of those a test draws: each takes a while
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
_ANALYSES: dict[str, Callable[[Any], Any]] = {
    "blame": sojourn.blame,
    "depth": sojourn.depth,
    "goodput": sojourn.goodput,
    "laws": sojourn.laws,
    "capacity": partial(sojourn.capacity, slo="p99=0.5"),
    "clock": sojourn.clock,
    "whatif": partial(sojourn.whatif, variants=[{"workers": "+1"}], force=True),
}


def check(data: bytes) -> None:
    """Every one of them."""
    log, reported = Path(_FOLDER.name, "access.jsonl"), Path(_FOLDER.name, "spans.jsonl")
    lines = data.splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if b"resourceSpans" not in line))
    reported.write_bytes(b"".join(line for line in lines if b"resourceSpans" in line))
    result = sojourn.split(log, spans=reported, columns=("request_id",))
    for name, analysis in _ANALYSES.items():
        try:
            refusal(partial(_answer, analysis, result), sojourn.SojournError)
        except Exception as error:
            error.add_note(name)
            raise


def _answer(analysis: Callable[[Any], Any], result: sojourn.SplitResult) -> None:
    json.dumps(rounded(analysis(result).to_dict()), allow_nan=False, default=str)


def generated(rng: Random) -> bytes:
    """As for the split."""
    return split.generated(rng)
