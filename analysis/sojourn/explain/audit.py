"""Can the figures be believed? Checks that fail when they should not be.

Little's law, N = lambda R (Little 1961); the utilisation law, U = X S (Denning & Buzen 1978, eq. 3.2); a trend test
for stationarity (Mann 1945, Kendall's tau against time); and whether the identity closes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from sojourn.explain.components import COMPONENTS
from sojourn.explain.frame_measures import measured
from sojourn.explain.measures import EDGE, ROUNDING, Measures

TREND_WINDOWS = 20
TREND_SIGNIFICANCE = 0.01
TREND_SIZE = 0.10  # a significant trend smaller than this over the whole window is not worth a warning
LITTLE_TOLERANCE = 0.05
ENOUGH_ARRIVALS = 100  # fewer, and the ends of the window weigh too much for the law to be a test
IDENTITY_TOLERANCE = 1e-6  # s


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
        utilisation: one row per backend: upstream, workers, busy (s), utilisation.
        app_known: share of answered requests whose app said both its delay and its service time.
        garbled: answers whose headers were not durations.
        upgraded: connections switched to another protocol (101), left out of the distributions.
        disagreement: median of (queue by stamp - queue by durations), s: network, and whatever the clocks hide.
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
    app_known: float | None = None
    garbled: int = 0
    upgraded: int = 0
    disagreement: float | None = None

    def failures(self) -> list[str]:
        """Sentences for what failed; empty when everything held."""
        found = []
        if self.identity_max_error > IDENTITY_TOLERANCE:
            found.append(f"the components miss the response time by up to {self.identity_max_error:.6f} s")
        enough = self.arrivals >= ENOUGH_ARRIVALS
        if enough and self.little_ratio is not None and abs(self.little_ratio - 1) > LITTLE_TOLERANCE:
            found.append(
                f"Little's law is off by {self.little_ratio - 1:+.0%}: the window cuts through a change of load"
            )
        if self.stationary is False:
            found.append(f"not stationary: {self.trend}; averages over this window describe no single state")
        over = [row for row in self.utilisation if row["utilisation"] > 1.02]
        if over:
            worst = max(over, key=lambda row: row["utilisation"])
            found.append(
                f"{len(over)} of {len(self.utilisation)} backends worked longer than their workers had time "
                f"({worst['upstream']}: {worst['utilisation']:.0%} of {worst['workers']}): "
                "the worker values, or the service times, are not what they seem"
            )
        return found

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
            "app_headers_garbled": self.garbled,
            "upgraded": self.upgraded,
            "stamp_less_duration": self.disagreement,
            "failures": self.failures(),
        }


def audit(rows: pl.LazyFrame | Measures, upgraded: int) -> Audit:
    """Check what carries the split, a frame or aggregates; ``upgraded``: connections left out of it."""
    measures = measured(rows)
    result = Audit(upgraded=upgraded)
    row = measures.checks()
    result.identity_max_error = row["error"]
    result.negative = {name: row[f"negative/{name}"] for name in COMPONENTS if row[f"negative/{name}"]}
    result.app_known, result.garbled, result.disagreement = row["known"], row["garbled"] or 0, row["differ"]
    if row["first"] is not None and row["last"] > row["first"]:
        inner = _inner_window(row["first"], row["last"], row["p99"])
        _little(measures, inner, result)
        _trend(measures, inner, result)
        _utilisation(measures, row["first"], result)
    return result


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
    from scipy.stats import kendalltau, theilslopes  # noqa: PLC0415 - a second of import, only when it is needed

    if inner[1] - inner[0] < TREND_WINDOWS * timedelta(microseconds=1):
        return
    table = measures.windows(*inner, TREND_WINDOWS)
    if len(table) < TREND_WINDOWS // 2 or table["arrivals"].sum() < 5 * TREND_WINDOWS:
        return
    found = []
    for name in ("arrivals", "response time"):
        values = table[name].to_numpy()
        if values.max() == values.min():
            continue
        test = kendalltau(table["window"].to_numpy(), values)
        change = theilslopes(values, table["window"].to_numpy()).slope * TREND_WINDOWS / abs(values.mean())
        if test.pvalue < TREND_SIGNIFICANCE and abs(change) > TREND_SIZE:
            found.append(f"{name} {'rose' if change > 0 else 'fell'} by {abs(change):.0%} (p = {test.pvalue:.2g})")
    result.stationary = not found
    result.trend = "; ".join(found) or "no trend in arrivals or response time"


def _utilisation(measures: Measures, first: datetime, result: Audit) -> None:
    seconds, backends = measures.backends(first)
    for upstream, workers, busy in backends:
        if workers and seconds > 0:
            share = busy / (seconds * workers)
            result.utilisation.append({"upstream": upstream, "workers": workers, "busy": busy, "utilisation": share})
