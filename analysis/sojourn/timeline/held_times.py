"""How long requests hold their workers, where it differs from the app's service time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.figures import Summary, summary
from sojourn.timeline.phases import AFTER, BODY, PHASES, READ
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.visits import visits

SAMPLE = 100_000  # requests, the first ones: where held times do not differ among them, all are not looked at
DIFFERS = 0.05  # of the service time: a smaller difference is not shown


@dataclass(frozen=True)
class HeldTimes:
    """The times for which requests hold their workers, s.

    Attributes:
        requests: those whose time is known.
        time: mean and quantiles.
        phases: phase -> mean over these requests.
        routes: phase -> routes of which the log shows this phase, without spans.
    """

    requests: int
    time: Summary
    phases: dict[str, float]
    routes: dict[str, list[str]]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dict(self.__dict__)


def held_times(rows: pl.LazyFrame) -> HeldTimes | None:
    """Return the held times of split rows; None where they differ from the service times by at most ``DIFFERS``."""
    first = visits(rows.head(SAMPLE))
    sample = _times(first)
    if sample is None or len(first) + sum(first.left_out.values()) < SAMPLE:
        return sample
    return _times(visits(rows))


def _times(visited: Visits) -> HeldTimes | None:
    phases = visited.phases
    known = ~np.isnan(visited.held)
    if phases is None or not known.any():
        return None
    lengths = {
        "service": phases.headers - visited.busy_start,
        BODY: phases.body_end - phases.headers,
        AFTER: visited.busy_end - phases.body_end,
        READ: visited.busy_start - visited.occupied,
    }
    means = {phase: float(lengths[phase][known].mean()) for phase in PHASES}
    time = summary(visited.held[known])
    if (time["mean"] or 0.0) <= (1 + DIFFERS) * means["service"]:
        return None
    shown = {BODY: "body", AFTER: "after", READ: "read"}
    routes = {
        phase: sorted({route for holds in phases.backends.values() for route in getattr(holds, name)})
        for phase, name in shown.items()
    }
    return HeldTimes(int(known.sum()), time, means, routes)
