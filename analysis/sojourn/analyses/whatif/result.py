"""What a what-if found: how well the replay fits, and what each variant would have done."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.model.figures import Summary, summary
from sojourn.model.result import Result

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Variant:
    """One change and what it would have come to. Durations in s.

    Attributes:
        settings: the change as it was written.
        response_time, queueing_delay: figures.
        goodput, rate: requests/s answered in time; requests/s that came.
        timeouts, failed: requests given up on; not answered for any reason.
        utilisation: of its workers, from the first arrival to the end of the last service.
        wasted: worker seconds for nobody.
        workers: in all.
        interval: figure of the response time -> [low, high], 95 %.
        change: figure -> relative to the replay of things as they are; change_interval: 95 %.
        values: response times of the counted requests, s, for charts.
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
    interval: dict[str, list[float]]
    change: dict[str, float]
    change_interval: dict[str, list[float]]
    values: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        names = (
            "response_time", "queueing_delay", "goodput", "rate", "timeouts", "failed", "utilisation", "wasted",
            "workers", "interval", "change", "change_interval",
        )  # fmt: skip
        return {"set": self.settings, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, repr=False)
class WhatIfResult(Result):
    """What ``whatif`` found. Durations in s.

    Attributes:
        requests: replayed.
        window: the first arrival and the last.
        measured, replayed: ``response_time`` and ``queueing_delay`` figures, as they were and as the replay of things
            as they are has them.
        error: figure of the response time -> replayed / measured - 1.
        refused: why nothing is predicted; None where it is.
        forced: the replay is too far off, and variants were asked for all the same.
        variants: the best first.
        rank: the figure they are ranked by.
        closed_loop: whether answers let requests come; linked: share of the requests that follow an answer.
        system: of the replay of things as they are: workers, timeout, utilisation, rate, timeouts.
        workers: per backend: upstream, workers, source, names, pool.
        imputed, left_early, refused_rows: as in ``Workload``.
        notes: what to know.
        measured_values, replayed_values: response times, for charts.
    """

    requests: int
    window: tuple[datetime, datetime] | None
    measured: dict[str, Summary]
    replayed: dict[str, Summary]
    error: dict[str, float]
    refused: str | None
    forced: bool
    variants: list[Variant]
    rank: str
    closed_loop: bool
    linked: float | None
    system: dict[str, Any]
    workers: list[dict[str, Any]]
    imputed: int
    left_early: int
    refused_rows: int
    notes: list[str]
    measured_values: Floats = field(repr=False)
    replayed_values: Floats = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The object that ``sojourn whatif --json`` prints."""
        window = self.window and {
            "from": self.window[0].isoformat().replace("+00:00", "Z"),
            "to": self.window[1].isoformat().replace("+00:00", "Z"),
        }
        names = (
            "requests", "measured", "replayed", "error", "refused", "forced", "rank", "closed_loop", "linked", "system",
            "workers", "imputed", "left_early", "notes",
        )  # fmt: skip
        return {
            "window": window,
            **{name: getattr(self, name) for name in names},
            "not_taken": self.refused_rows,
            "variants": [variant.to_dict() for variant in self.variants],
        }


def figures_of(values: Floats) -> Summary:
    """Mean, quantiles (exact, linear between order statistics) and maximum; None of no values. NaN is left out."""
    return summary(values[~np.isnan(values)])
