"""The result of a what-if: how well the replay fits, and the predicted figures of each variant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.figures import Summary, summary
from sojourn.model.measures import exceeding_ranks
from sojourn.model.result import Result
from sojourn.present.chart_sizes import SMALLEST

GRADED = ("mean", "p99")
"""Figures of the response time by whose errors a replay is graded."""
EXACT = 0.03
"""Largest relative error of an exact replay."""
POINTS = 160  # of a curve
EXACT_GRADE, ROUGH, NO_GRADE = "exact", "rough", "refused"


class Curve(NamedTuple):
    """The complementary distribution of times at some points, evenly spaced in its logarithm.

    Attributes:
        seconds: times, ascending.
        shares: of the requests, those that took as long or longer.
    """

    seconds: list[float]
    shares: list[float]

    @classmethod
    def of(cls, ordered: Floats) -> Curve:
        """Return the curve of times, s, ascending; NaN are left out, and times too short for the axis of a chart."""
        ordered = ordered[~np.isnan(ordered)]
        ranks = exceeding_ranks(len(ordered), POINTS)
        visible = ranks[ordered[ranks] >= SMALLEST]
        return cls(ordered[visible].tolist(), ((len(ordered) - visible) / max(len(ordered), 1)).tolist())


@dataclass(frozen=True)
class Variant:
    """One change and its predicted figures. Durations in s.

    Attributes:
        settings: the change as the user wrote it.
        response_time, queueing_delay: figures.
        goodput, rate: requests/s answered in time; arrivals/s.
        timeouts, failed: requests that timed out; requests without an answer for any reason.
        utilisation: of its workers, from the first arrival to the end of the last service.
        wasted: worker seconds for requests that had timed out.
        workers: total number.
        assumed: whether it is assumed that more services at a time than the log has do not slow each other.
        interval: figure of the response time -> [low, high], 95 %.
        change: figure -> relative to the replay of the recorded configuration.
        change_interval: figure -> [low, high] of the change, 95 %.
        curve: of the response times of the counted requests.
    """

    settings: dict[str, str]
    response_time: Summary
    queueing_delay: Summary
    goodput: float
    rate: float
    timeouts: int
    failed: int
    utilisation: float
    wasted: float
    workers: int
    assumed: bool
    interval: dict[str, list[float]]
    change: dict[str, float]
    change_interval: dict[str, list[float]]
    curve: Curve = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the JSON."""
        names = (
            "response_time", "queueing_delay", "goodput", "rate", "timeouts", "failed", "utilisation", "wasted",
            "workers", "assumed", "interval", "change", "change_interval",
        )  # fmt: skip
        return {"set": self.settings, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True)
class Withheld:
    """A change that is not predicted: as the user wrote it, and the reason, as a clause."""

    settings: dict[str, str]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the JSON."""
        return {"set": self.settings, "reason": self.reason}


@dataclass(frozen=True, repr=False)
class WhatIfResult(Result):
    """The result of ``whatif``. Durations in s.

    Attributes:
        requests: number of replayed requests.
        window: the first arrival and the last.
        measured, replayed: ``response_time`` and ``queueing_delay`` figures: measured, and of the replay of the
            recorded configuration.
        error: figure of the response time -> replayed / measured - 1.
        refused: why there is no prediction; None if there is one.
        has_spans: whether the app's spans are joined.
        forced: the replay is too far off, and variants were predicted nevertheless.
        variants: the best first.
        withheld: changes that are not predicted, although others are.
        rank: the figure they are ranked by.
        closed_loop: whether requests follow answers.
        linked: share of the requests that follow an answer.
        dependence: backends whose services depend on the load: upstream, kind, statistic, limit, ratio, low, high.
        contention: what services share, by the likeliest law: scope, resources; None: nothing, or no law fits.
        courses: workers and times slower than usual, whatever the load: upstream, kind, factor, begin, end, worker.
        system: of the replay of the recorded configuration: workers, timeout, utilisation, rate, timeouts.
        workers: per backend: upstream, workers, source, names, pool.
        imputed, left_early, refused_rows: as in ``Workload``.
        notes: caveats, one sentence or more each.
        queue_source: queue_source -> requests that went to a backend.
        measured_curve, replayed_curve: of the response times.
        others: ``workers`` -> number (``values``) and ``requests`` of the backends that are not in ``workers``; empty:
            each is.
    """

    TABLES: ClassVar = ("variants", "withheld")

    requests: int
    window: tuple[datetime, datetime] | None
    measured: dict[str, Summary]
    replayed: dict[str, Summary]
    error: dict[str, float]
    refused: str | None
    has_spans: bool
    forced: bool
    variants: list[Variant]
    withheld: list[Withheld]
    rank: str
    closed_loop: bool
    linked: float | None
    dependence: list[dict[str, Any]]
    contention: dict[str, Any] | None
    courses: list[dict[str, Any]]
    system: dict[str, Any]
    workers: list[dict[str, Any]]
    imputed: int
    left_early: int
    refused_rows: int
    notes: list[str]
    queue_source: dict[str, int]
    measured_curve: Curve = field(repr=False)
    replayed_curve: Curve = field(repr=False)
    others: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def largest_error(self) -> float:
        """The larger relative error of the replay's mean and p99, without sign; NaN if one is unknown."""
        return max((abs(self.error[name]) for name in GRADED), key=lambda error: (math.isnan(error), error))

    @property
    def grade(self) -> str:
        """How good predictions are: ``EXACT_GRADE``, ``ROUGH`` (± ``largest_error``), or ``NO_GRADE`` without any."""
        if self.refused is not None:
            return NO_GRADE
        return EXACT_GRADE if self.largest_error <= EXACT else ROUGH

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn whatif --json`` prints."""
        window = self.window and {
            "from": self.window[0].isoformat().replace("+00:00", "Z"),
            "to": self.window[1].isoformat().replace("+00:00", "Z"),
        }
        names = (
            "requests", "measured", "replayed", "error", "grade", "refused", "has_spans", "forced", "rank",
            "closed_loop", "linked", "dependence", "contention", "courses", "system", "workers", "others", "imputed",
            "left_early", "notes", "queue_source",
        )  # fmt: skip
        return {
            "window": window,
            **{name: getattr(self, name) for name in names},
            "not_taken": self.refused_rows,
            "variants": [variant.to_dict() for variant in self.variants],
            "withheld": [change.to_dict() for change in self.withheld],
        }


def figures_of(values: Floats) -> Summary:
    """Return mean, quantiles (exact, linear between order statistics) and maximum without NaN; None of no values."""
    return summary(values[~np.isnan(values)])
