"""The inferred queue of one backend: what an engine returns. It loads no compiled code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sojourn.estimation.checks import Check
from sojourn.model.arrays import Floats, Ints

INFERRED, LOWER_BOUND, REFUSED = "inferred", "lower_bound", "refused"
STAMP_ERROR = 0.005  # s, of instants in whole milliseconds, which nginx reads once a turn of its event loop


@dataclass(frozen=True)
class Window:
    """A part of the log with a number of workers of its own: first and last arrival (s), and the set of the number.

    ``highest`` is None where no queue was seen.
    """

    begin: float
    end: float
    workers: int
    lowest: int
    highest: int | None


@dataclass(frozen=True, repr=False)
class Inference:
    """The inferred queue of one backend. Times are s; arrays are in the order of the arrivals.

    Attributes:
        order: position of each request in the arrays that were given.
        arrival, departure: s.
        start: begin of each service; NaN where it is refused.
        tried: where it is refused, the service times with the number of workers that fits best, s; otherwise empty.
        verdict: ``INFERRED``, ``LOWER_BOUND`` or ``REFUSED``.
        reason: one sentence.
        workers: the number that fits best; of a lower bound, what overtaking requests show; 0: unknown.
        lowest, highest: of the numbers that are not excluded; None: no upper end, because no queue was seen.
        mean_range, p99_range: of the wait over that set, s; None: unknown.
        excess: mean response time less that of requests at an empty backend, and its standard error, s; None:
            there are too few of them. It needs no model.
        windows: parts with a number of workers of their own, where it changed; otherwise empty.
        checks: all that were made.
        contradictions: requests that left before they could have begun, by more than the error of the stamps.
        depth: requests in the system at each arrival.
        reconstructed: the instants are reconstructed from whole seconds and the order of the lines.
    """

    order: Ints
    arrival: Floats
    departure: Floats
    start: Floats
    verdict: str
    reason: str
    workers: int = 0
    lowest: int = 0
    highest: int | None = None
    mean_range: tuple[float, float] | None = None
    p99_range: tuple[float, float] | None = None
    excess: tuple[float, float] | None = None
    windows: tuple[Window, ...] = ()
    checks: tuple[Check, ...] = ()
    contradictions: int = 0
    depth: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    reconstructed: bool = False
    tried: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def wait(self) -> Floats:
        """Inferred wait of each request, s."""
        return self.start - self.arrival

    @property
    def service(self) -> Floats:
        """Inferred service time of each request, s."""
        return self.departure - self.start


def without_starts(result: Inference, reason: str) -> Inference:
    """Return an inference that was refused after all checks."""
    return replace(
        result, start=np.full_like(result.start, np.nan), tried=result.service, verdict=REFUSED, reason=reason
    )


def refused(reason: str) -> Inference:
    """Return the inference of a log that cannot be used."""
    none = np.zeros(0)
    return Inference(np.zeros(0, np.int64), none, none, none, REFUSED, reason)
