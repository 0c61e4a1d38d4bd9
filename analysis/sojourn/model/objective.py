"""An objective: a share of the requests, and the time that they may take."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sojourn.model.errors import SojournError

MEASURES = ("queueing_delay", "response_time")
DEFAULT = "queueing_delay:p95=0.1"
_SHORT = re.compile(r"(\d+(?:\.\d+)?):0?\.(\d{1,2})(\d*)")
_TEXT = re.compile(r"(?:(\w+):)?p(\d{2}(?:\.(?=\d))?|\d)(\d*)=(\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class Objective:
    """An objective such as ``queueing_delay:p95=0.1``: 95 % of the requests wait at most 0.1 s.

    Attributes:
        text: as it is written.
        measure: one of ``MEASURES``.
        share: of the requests that are to meet it, between 0 and 1.
        seconds: the time that they may take.
    """

    text: str
    measure: str
    share: float
    seconds: float


def objective_of(text: str) -> Objective:
    """Parse ``[MEASURE:]pN=SECONDS``: ``p999`` and ``p99.9`` are 99.9 %; the default measure is ``queueing_delay``.

    ``SECONDS:SHARE`` is short for an objective of the queueing delay: ``0.1:0.95`` is ``queueing_delay:p95=0.1``.

    Raises:
        SojournError: the text is no objective.
    """
    match = _TEXT.fullmatch(_SHORT.sub(_long, text.strip()))
    if not match:
        raise SojournError(f"{text!r}: give [queueing_delay:|response_time:]pN=SECONDS, such as {DEFAULT}")
    measure, percent, more, seconds = match.groups()
    measure = measure or MEASURES[0]
    percent = percent.removesuffix(".")
    share = float(f"{percent}.{more or 0}") / 100
    if measure not in MEASURES:
        raise SojournError(f"{text!r}: {measure} is not one of {', '.join(MEASURES)}")
    if not 0 < share < 1 or not 0 < float(seconds) < math.inf:
        raise SojournError(f"{text!r}: the share must be between p1 and p99.9…, and the time above 0 s")
    written = f"{measure}:p{percent}{more}={float(seconds):g}"
    return Objective(written, measure, share, float(seconds))


def _long(match: re.Match[str]) -> str:
    seconds, percent, more = match.groups()
    return f"p{percent:0<2}{more}={seconds}"
