"""Measure the figures for the checks of ``sojourn.analyses.audit.result``.

Little's law, N = lambda R (Little 1961); the utilisation law, U = X S (Denning & Buzen 1978, eq. 3.2); a trend test
for stationarity (Mann 1945, Kendall's tau against time); the identity of components; the coverage of the app's values;
the steps of the clocks and the agreement of their bounds; and duplicate records.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from heapq import nlargest

import numpy as np
import polars as pl

from sojourn.analyses.audit.incident import incident_of
from sojourn.analyses.audit.reading import checks_of
from sojourn.analyses.audit.result import TREND_SIGNIFICANCE, Audit
from sojourn.estimation.inferred import REFUSED
from sojourn.model.components import COMPONENTS
from sojourn.model.groups import LARGEST
from sojourn.model.measures import EDGE, INSTANTS, ROUNDING, Measures, Row
from sojourn.model.one_worker import TICKS, Overlap
from sojourn.model.statistics import slope, trend
from sojourn.sources.frame_measures import measured
from sojourn.sources.open_requests import OpenedRequests

SECOND = 1.0  # s
TREND_WINDOWS = 20
TREND_SIZE = 0.10  # a significant trend smaller than this over the whole window is not worth a warning
ENOUGH_INSTANTS = 20  # fewer may be multiples of a step by chance
ENOUGH_PHASES = 3


def audit_of(requests: OpenedRequests) -> Audit:
    """Return the audit of opened requests; it is computed once."""
    measures = requests.measures

    def compute() -> Audit:
        overall, figures = requests.once("overall", measures.overall), requests.once("figures", measures.figures)
        checked = audit(measures, overall["upgraded"], figures["queueing_delay"]["p50"], overall["requests"])
        if any(each.result.reconstructed and each.result.verdict != REFUSED for each in requests.inferred):
            checked.reconstructed, checked.ticks["time"] = True, SECOND
        checked.app_log = requests.app_log
        if requests.audited:
            checked.reading = checks_of(requests)
        return checked

    return requests.once("audit", compute)


def audit(rows: pl.LazyFrame | Measures, upgraded: int, median_delay: float | None = None, requests: int = 0) -> Audit:
    """Check the rows or the aggregates of a split.

    Args:
        rows: the rows or the aggregates.
        upgraded: number of upgraded connections left out.
        median_delay: median queueing delay, s, which clocks must resolve; None: unknown.
        requests: their number; of few, no incident is looked for.
    """
    measures = measured(rows)
    result = Audit(upgraded=upgraded, median_delay=median_delay)
    row = measures.checks()
    result.duplicates = row["duplicates"]
    result.ticks = {name: tick / 1e6 if tick else None for name, tick in _ticks(measures, row).items()}
    _agreement(measures.clock, result)
    result.identity_max_error = row["error"]
    result.negative = {name: row[f"negative/{name}"] for name in COMPONENTS if row[f"negative/{name}"]}
    result.known = measures.coverage()
    result.garbled, result.disagreement = row["garbled"] or 0, row["differ"]
    if row["first"] is not None and row["last"] > row["first"]:
        inner = _inner_window(row["first"], row["last"], row["p99"])
        _little(measures, inner, result)
        _trend(measures, inner, result)
        result.incident = incident_of(measures, row["first"], row["last"], requests)
        if result.incident is not None:
            result.stationary, result.trend = False, f"an incident {result.incident.interval}"
        _utilisation(measures, row["first"], result)
    return result


def _ticks(measures: Measures, row: Row) -> dict[str, int | None]:
    """Return the step (us) of each instant's clock: the largest of ``TICKS`` that all are multiples of, otherwise 1."""
    ticks: dict[str, int | None] = {}
    for name in INSTANTS:
        steps = (tick for tick in TICKS if row[f"{name}/{tick}"])
        ticks[name] = next(steps, 1) if row[f"{name}/count"] >= ENOUGH_INSTANTS else None
    if ticks["time"] and ticks["request_start"]:  # nginx has one clock
        ticks["time"] = min(ticks["time"], ticks["request_start"])
    for name, tick in ticks.items():
        # Periodic requests do not show the step of the clock: their instants differ by whole periods.
        if tick and tick > TICKS[-1] and measures.phases(name, tick) < ENOUGH_PHASES:
            ticks[name] = None
    return ticks


def _agreement(clock: pl.DataFrame, result: Audit) -> None:
    """Set the upstream whose requests have the most contradictory bounds of a clock."""
    if clock.is_empty():
        return
    worst = clock.sort("contradiction", "upstream", "proxy", descending=[True, False, False]).row(0, named=True)
    result.contradiction, result.contradicted = worst["contradiction"], str(worst["upstream"] or "–")


def _inner_window(first: datetime, last: datetime, p99: float) -> tuple[datetime, datetime]:
    """Leave out the beginning: the log lacks requests that were in system before its begin (or --since)."""
    seconds = (last - first).total_seconds()
    return first + timedelta(seconds=max(0.05 * seconds, min(p99, 0.25 * seconds))), last


def _little(measures: Measures, inner: tuple[datetime, datetime], result: Audit) -> None:
    """Compute N, lambda and R as means over the window, weighted by a trapezoid that rises from 0 and falls to 0.

    With hard edges one request more inside the window changes lambda by 1/n: 2 % of 50 requests. With a trapezoid the
    ratio of a steady log is within 0.2 % of 1, and a change of load is still detected.
    """
    seconds = (inner[1] - inner[0]).total_seconds()
    if seconds <= 0:
        return
    row = measures.little(inner[0], seconds)
    # The weight of a request on the edge is 0 up to rounding.
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
    trends = []
    for name in ("arrivals", "response time"):
        values = table[name].to_numpy().astype(np.float64)
        if values.max() == values.min():
            continue
        p = trend(values)
        result.trend_p = p if result.trend_p is None else min(p, result.trend_p)
        change = slope(table["window"].to_numpy().astype(np.float64), values) * TREND_WINDOWS / abs(values.mean())
        if p < TREND_SIGNIFICANCE and abs(change) > TREND_SIZE:
            trends.append(f"{name} {'rose' if change > 0 else 'fell'} by {abs(change):.0%} (p = {p:.2g})")
    result.stationary = not trends
    result.trend = "; ".join(trends) or "no trend in arrivals or response time"


def _utilisation(measures: Measures, first: datetime, result: Audit) -> None:
    seconds, backends = measures.backends(first)
    overlaps = measures.overlaps()
    with_workers = [row for row in backends if row[1] and seconds > 0]
    busiest = set(nlargest(LARGEST, range(len(with_workers)), key=lambda place: with_workers[place][2]))
    result.less_busy = len(with_workers) - len(busiest)
    for upstream, workers, busy in (with_workers[place] for place in sorted(busiest)):
        share = busy / (seconds * workers)
        overlap = overlaps.get(upstream, Overlap())
        several = overlap.most if overlap.concurrent else 1
        row = {"upstream": upstream, "workers": workers, "busy": busy, "utilisation": share}
        result.utilisation.append({**row, "in_one_worker": several})
