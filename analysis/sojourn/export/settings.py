"""What is exported, with its defaults; quick to load, because the command names the defaults in its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.export.metrics import BUCKETS, RESPONSE_LABELS
from sojourn.model.objective import Objective

if TYPE_CHECKING:
    from sojourn.timeline.visits import WorkersLike

WINDOW = 60.0  # s; length of the window of the signals
EVERY = 5.0  # s between two computations of the gauges
HOLD = 300.0  # s; the scale-down stabilisation of Kubernetes
STARTUP = 0.0  # s
LIMITS = {"service": 50, "route": 100, "upstream": 200}
"""Number of values of each label."""
MINUTE = 60.0  # s; the lag is the longest response time in it
LONGEST_LAG = 30.0  # s; longer requests are missing from the state while they last


@dataclass(frozen=True)
class Settings:
    """What is exported.

    Attributes:
        objectives: that requests are counted for, and workers computed for.
        window: length of the window of the signals, s.
        every: time between two computations of the gauges, s.
        hold: for how long the autoscaler keeps the highest number of workers, s.
        startup: time until a new worker is ready, s.
        workers: per backend, or the same for all; None: read off the log.
        labels: labels with values.
        limits: label -> number of values.
        buckets: upper bounds of the classic histograms, s.
        alias: second name of the histogram of queueing delays; empty: none.
    """

    objectives: Sequence[Objective] = ()
    window: float = WINDOW
    every: float = EVERY
    hold: float = HOLD
    startup: float = STARTUP
    workers: WorkersLike = None
    labels: Sequence[str] = RESPONSE_LABELS
    limits: Mapping[str, int] = field(default_factory=dict)
    buckets: Sequence[float] = BUCKETS
    alias: str = ""

    @property
    def retention(self) -> float:
        """How long a request is held after its end, s: for the state as of the longest lag."""
        return max(self.window, MINUTE) + LONGEST_LAG
