"""How long requests hold their workers, where it differs from the app's service time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.figures import Summary, summary
from sojourn.timeline.phases import AFTER, BODY, PHASES, READ, SERVICE
from sojourn.timeline.sample import Sample, sampled
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.visits import SAME_REQUEST, visits

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


def held_times(rows: pl.LazyFrame, sample: Sample) -> HeldTimes | None:
    """Return the held times of split rows; None where they differ from the service times by at most ``DIFFERS``.

    ``sample``: of the same rows. Where the times do not differ in it, the others are not looked at.
    """
    return _times_of(rows, sample)[1]


def held_by_request(rows: pl.LazyFrame) -> pl.DataFrame | None:
    """Return the time for which each request holds its worker: columns ``SAME_REQUEST``, and ``held``, s.

    Args:
        rows: split rows with ``request_id``.

    Returns:
        The requests whose time is known; None where ``held_times`` is None.
    """
    visited, times = _times_of(rows, sampled(rows, SAME_REQUEST))
    if times is None:
        return None
    keys = {name: visited.rows[name] for name in SAME_REQUEST}
    return pl.DataFrame({**keys, "held": visited.held}).fill_nan(None).drop_nulls()


def _times_of(rows: pl.LazyFrame, sample: Sample) -> tuple[Visits, HeldTimes | None]:
    """Return the visits, and their times; visits of the sample only where their times do not differ."""
    times = _times(sample.visits)
    if times is None or sample.whole:
        return sample.visits, times
    every = visits(rows, columns=sample.columns)
    return every, _times(every)


def _times(visited: Visits) -> HeldTimes | None:
    phases = visited.phases
    has_time = ~np.isnan(visited.held)
    if phases is None or not has_time.any():
        return None
    lengths = {
        SERVICE: phases.headers - visited.busy_start,
        BODY: phases.body_end - phases.headers,
        AFTER: visited.busy_end - phases.body_end,
        READ: visited.busy_start - visited.occupied,
    }
    means = {phase: float(lengths[phase][has_time].mean()) for phase in PHASES}
    time = summary(visited.held[has_time])
    if (time["mean"] or 0.0) <= (1 + DIFFERS) * means[SERVICE]:
        return None
    routes = {
        phase: sorted({route for holds in phases.backends.values() for route in getattr(holds, phase)})
        for phase in (BODY, AFTER, READ)
    }
    return HeldTimes(int(has_time.sum()), time, means, routes)
