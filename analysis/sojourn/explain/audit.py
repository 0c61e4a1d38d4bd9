"""Can the figures be believed? What is measured for the checks of ``sojourn.explain.checks``.

Little's law, N = lambda R (Little 1961); the utilisation law, U = X S (Denning & Buzen 1978, eq. 3.2); a trend test
for stationarity (Mann 1945, Kendall's tau against time); whether the identity closes; how much the app told; in which
steps the clocks count, and whether what requests tell of them agrees; and how many records came twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from sojourn.explain.checks import FAIL, INSTANTS, TREND_SIGNIFICANCE, Check, checks_of
from sojourn.explain.components import COMPONENTS
from sojourn.explain.frame_measures import measured
from sojourn.explain.known import Known
from sojourn.explain.measures import EDGE, ROUNDING, Measures, Row
from sojourn.explain.one_worker import TICKS, Overlap
from sojourn.explain.statistics import slope, trend

TREND_WINDOWS = 20
TREND_SIZE = 0.10  # a significant trend smaller than this over the whole window is not worth a warning
ENOUGH_INSTANTS = 20  # fewer may be multiples of anything by chance
ENOUGH_PHASES = 3


@dataclass
class Audit:
    """What was checked, and what failed.

    Attributes:
        identity_max_error: largest |sum of components - request_time|, s.
        negative: component -> requests in which it is below 0.
        arrivals: requests that arrived in the inner window; arrival_rate: requests/s in it; mean_in_system: requests,
            integrated over it; mean_response: s, of the requests that arrived in it; little_ratio: N / (lambda R).
        stationary: no trend in arrivals or response time; None when there is too little to tell.
        trend: what the trend test found, for people.
        utilisation: one row per backend: upstream, workers, busy (s), utilisation, in_one_worker (requests that one
            worker serves at a time).
        known: what is known of the requests of each backend.
        garbled: answers whose headers were not durations.
        upgraded: connections switched to another protocol (101), left out of the distributions.
        disagreement: median of (queue by stamp - queue by durations), s: network, and whatever the clocks hide.
        trend_p: the smallest p value of the trend tests; None where there was none.
        median_delay: of the queueing delay, s.
        ticks: instant (of ``INSTANTS``) -> the step its clock counts in, s; None where too few tell.
        contradiction: s, the most by which bounds of a clock's offset miss each other; ``contradicted``: whose clock.
        wire: checks of a capture of the same requests, where there is one.
        duplicates: records delivered again, each counted once; None where a store had seen to it before.
    """

    identity_max_error: float = 0.0
    negative: dict[str, int] = field(default_factory=dict)
    arrivals: int = 0
    arrival_rate: float | None = None
    mean_in_system: float | None = None
    mean_response: float | None = None
    little_ratio: float | None = None
    stationary: bool | None = None
    trend: str = "too few requests to tell"
    utilisation: list[dict[str, Any]] = field(default_factory=list)
    known: Known = field(default_factory=lambda: Known(()))
    garbled: int = 0
    upgraded: int = 0
    disagreement: float | None = None
    trend_p: float | None = None
    median_delay: float | None = None
    ticks: dict[str, float | None] = field(default_factory=dict)
    contradiction: float | None = None
    contradicted: str = ""
    duplicates: int | None = 0
    wire: tuple[Check, ...] = ()

    @property
    def checks(self) -> list[Check]:
        """What was checked, in the order in which failures are told."""
        return [*checks_of(self), *self.wire]

    @property
    def app_known(self) -> float | None:
        """Share of the answers whose waiting and working are both known."""
        return self.known.determined

    def failures(self) -> list[str]:
        """Sentences for what failed; empty when everything held."""
        return [check.sentence for check in self.checks if check.verdict == FAIL]

    def to_dict(self) -> dict[str, object]:
        """The ``audit`` object of the JSON output."""
        return {
            "identity_max_error": self.identity_max_error,
            "negative_queue": self.negative.get("queue", 0),
            "negative": self.negative,
            "little": {
                "arrival_rate": self.arrival_rate,
                "mean_in_system": self.mean_in_system,
                "mean_response": self.mean_response,
                "ratio": self.little_ratio,
            },
            "stationary": self.stationary,
            "stationarity": {"test": "Mann-Kendall", "significance": TREND_SIGNIFICANCE, "found": self.trend},
            "utilisation": self.utilisation,
            "app_known": self.app_known,
            "known": self.known.to_dict(),
            "impossible": self.known.total.impossible,
            "app_headers_garbled": self.garbled,
            "upgraded": self.upgraded,
            "stamp_less_duration": self.disagreement,
            "resolution": self.ticks,
            "duplicates": self.duplicates,
            "checks": [check.to_dict() for check in self.checks],
            "failures": self.failures(),
        }


def audit(rows: pl.LazyFrame | Measures, upgraded: int, median_delay: float | None = None) -> Audit:
    """Check what carries the split, a frame or aggregates.

    Args:
        rows: what was split.
        upgraded: connections left out of it.
        median_delay: of the queueing delay, s, where it is known: what clocks must be fine enough for.
    """
    measures = measured(rows)
    result = Audit(upgraded=upgraded, median_delay=median_delay)
    row = measures.checks()
    result.duplicates = row["duplicates"]
    result.ticks = {name: tick / 1e6 if tick else None for name, tick in _ticks(measures, row).items()}
    _agreement(measures.clock, result)
    result.identity_max_error = row["error"]
    result.negative = {name: row[f"negative/{name}"] for name in COMPONENTS if row[f"negative/{name}"]}
    result.known = measures.known()
    result.garbled, result.disagreement = row["garbled"] or 0, row["differ"]
    if row["first"] is not None and row["last"] > row["first"]:
        inner = _inner_window(row["first"], row["last"], row["p99"])
        _little(measures, inner, result)
        _trend(measures, inner, result)
        _utilisation(measures, row["first"], result)
    return result


def _ticks(measures: Measures, row: Row) -> dict[str, int | None]:
    """The step (us) of each instant's clock: the largest of ``TICKS`` that all are multiples of, otherwise 1."""
    found: dict[str, int | None] = {}
    for name in INSTANTS:
        steps = (tick for tick in TICKS if row[f"{name}/{tick}"])
        found[name] = next(steps, 1) if row[f"{name}/count"] >= ENOUGH_INSTANTS else None
    if found["time"] and found["request_start"]:  # nginx has one clock
        found["time"] = min(found["time"], found["request_start"])
    for name, tick in found.items():
        # Requests that come like clockwork tell nothing of the clock: their instants are alike but for whole periods.
        if tick and tick > TICKS[-1] and measures.phases(name, tick) < ENOUGH_PHASES:
            found[name] = None
    return found


def _agreement(clock: pl.DataFrame, result: Audit) -> None:
    """Whose requests contradict each other most about a clock."""
    if clock.is_empty():
        return
    worst = clock.sort("contradiction", "upstream", "proxy", descending=[True, False, False]).row(0, named=True)
    result.contradiction, result.contradicted = worst["contradiction"], str(worst["upstream"] or "–")


def _inner_window(first: datetime, last: datetime, p99: float) -> tuple[datetime, datetime]:
    """Leave out the beginning: requests already in the system when the log (or --since) begins are not in it."""
    seconds = (last - first).total_seconds()
    return first + timedelta(seconds=max(0.05 * seconds, min(p99, 0.25 * seconds))), last


def _little(measures: Measures, inner: tuple[datetime, datetime], result: Audit) -> None:
    """N, lambda and R as means over the window, weighted by a trapezoid that rises from 0 and falls to 0 again.

    With hard edges one request more or less inside the window moves lambda by 1/n: 2 % of 50 requests. Faded edges
    leave a steady log within 0.2 % of 1, and a change of load across the window shows as before.
    """
    seconds = (inner[1] - inner[0]).total_seconds()
    if seconds <= 0:
        return
    row = measures.little(inner[0], seconds)
    # A request on the very edge has no weight but what rounding leaves of it.
    if min(row["weight"] or 0.0, row["response"] or 0.0) < ROUNDING:
        return
    area = 1 - EDGE  # under the trapezoid
    result.arrivals = row["arrivals"]
    result.arrival_rate = row["weight"] / (area * seconds)
    result.mean_in_system = row["present"] / area
    result.mean_response = row["response"] / row["weight"]
    result.little_ratio = result.mean_in_system / (result.arrival_rate * result.mean_response)


def _trend(measures: Measures, inner: tuple[datetime, datetime], result: Audit) -> None:
    if inner[1] - inner[0] < TREND_WINDOWS * timedelta(microseconds=1):
        return
    table = measures.windows(*inner, TREND_WINDOWS)
    if len(table) < TREND_WINDOWS // 2 or table["arrivals"].sum() < 5 * TREND_WINDOWS:
        return
    found = []
    for name in ("arrivals", "response time"):
        values = table[name].to_numpy().astype(np.float64)
        if values.max() == values.min():
            continue
        p = trend(values)
        result.trend_p = p if result.trend_p is None else min(p, result.trend_p)
        change = slope(table["window"].to_numpy().astype(np.float64), values) * TREND_WINDOWS / abs(values.mean())
        if p < TREND_SIGNIFICANCE and abs(change) > TREND_SIZE:
            found.append(f"{name} {'rose' if change > 0 else 'fell'} by {abs(change):.0%} (p = {p:.2g})")
    result.stationary = not found
    result.trend = "; ".join(found) or "no trend in arrivals or response time"


def _utilisation(measures: Measures, first: datetime, result: Audit) -> None:
    seconds, backends = measures.backends(first)
    overlaps = measures.overlaps()
    for upstream, workers, busy in backends:
        if workers and seconds > 0:
            share = busy / (seconds * workers)
            overlap = overlaps.get(upstream, Overlap())
            several = overlap.most if overlap.concurrent else 1
            row = {"upstream": upstream, "workers": workers, "busy": busy, "utilisation": share}
            result.utilisation.append({**row, "in_one_worker": several})
