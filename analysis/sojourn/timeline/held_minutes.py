"""Seconds for which workers were held, by minute and phase, as a store keeps them and a dashboard sums them.

A hold counts in the minutes in which it fell, not in the one in which its request ended. Where more than the log shows
may have held the workers of a backend, its seconds are a lower bound, in one row that says so.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.model.frame import INSTANT
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.free_workers import BODIES, understated
from sojourn.timeline.phases import PHASES
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.silences import silences
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows
from sojourn.timeline.workers import FROM_CONCURRENCY, FROM_INFERENCE

MINUTE = 60.0
AT_LEAST = "at_least"
"""Phase of seconds that are a lower bound: all phases together."""

SCHEMA = {
    "minute": INSTANT,
    "service": pl.String(),
    "upstream": pl.String(),
    "phase": pl.String(),
    "seconds": pl.Float64(),
    "workers": pl.Int64(),
}


def held_by_minute(rows: pl.LazyFrame, visits: Visits, begin: datetime, end: datetime) -> pl.DataFrame:
    """Return the seconds for which workers were held in each minute, by service, address and phase.

    The seconds of a minute are a lower bound if the services of the backend understate how long its workers were held
    (``understated``), or if more than ``BODIES`` of the workers' time in the minute is in doubt: bodies of which is not
    known whether they hold a worker, requests without a known service, and stretches without a line.

    Args:
        rows: the split rows that ``visits`` were read from.
        visits: the requests, with phases.
        begin: begin of the first minute.
        end: end of the last minute.

    Returns:
        Columns of ``SCHEMA``. ``phase``: one of ``PHASES``, or ``AT_LEAST``. ``workers``: of the backend, all its
        services and addresses together; 0: unknown. Without rows: backends whose workers serve several requests at a
        time, and those whose queue is inferred.
    """
    first, last = ((instant - visits.base).total_seconds() for instant in (begin, end))
    windows = Windows(visits.base, first, MINUTE, round((last - first) / MINUTE))
    services = services_of(visits)
    pieces = services.pieces
    request = np.arange(len(visits)) if pieces.request is None else pieces.request
    phase = np.zeros(len(request), np.int64) if pieces.phase is None else pieces.phase
    window, piece, seconds = _cut(pieces.begin[: len(request)], pieces.end[: len(request)], windows)
    of_request = request[piece]
    codes = range(len(visits.backends))
    source = visits.workers.source
    workers = [0 if source[code] == FROM_CONCURRENCY else int(visits.workers.count[code]) for code in codes]
    one_at_a_time = [visits.workers.in_one_worker(code) <= 1 and source[code] != FROM_INFERENCE for code in codes]
    bounds = understated(visits)
    backends = pl.DataFrame(
        {
            "backend": pl.Series(codes, dtype=pl.Int64),
            "workers": pl.Series(workers, dtype=pl.Int64),
            "bound": pl.Series([name in bounds for name in visits.backends], dtype=pl.Boolean),
        }
    ).filter(pl.Series(one_at_a_time, dtype=pl.Boolean))
    table = pl.DataFrame(
        {
            "window": window,
            "backend": visits.backend.astype(np.int64)[of_request],
            **{name: visits.rows[name].cast(pl.String).fill_null("")[of_request] for name in ("service", "upstream")},
            "phase": pl.Series(PHASES, dtype=pl.String)[phase[piece]],
            "seconds": seconds,
        }
    )
    doubts = _doubts(rows, visits, services, windows).with_columns(doubt=pl.lit(True))
    return (
        table.join(backends, on="backend")
        .join(doubts, on=["window", "backend"], how="left")
        .with_columns(phase=pl.when(pl.col("bound") | pl.col("doubt")).then(pl.lit(AT_LEAST)).otherwise("phase"))
        .group_by("window", "service", "upstream", "phase")
        .agg(pl.col("seconds").sum(), pl.col("workers").max())
        .filter(pl.col("seconds") > 0)
        .with_columns(minute=pl.lit(begin, INSTANT) + pl.duration(minutes=pl.col("window")))
        .select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())
        .sort("minute", "service", "upstream", "phase")
    )


def _doubts(rows: pl.LazyFrame, visits: Visits, services: Services, windows: Windows) -> pl.DataFrame:
    """Return the windows and backends in which more than ``BODIES`` of the workers' time is in doubt."""
    count = visits.workers.count
    parts = [_unknown(rows, visits)]
    if visits.phases is not None:
        bodies = np.flatnonzero(visits.phases.in_doubt > 0)
        begin = visits.phases.evident_end[bodies]
        parts.append((begin, begin + visits.phases.in_doubt[bodies], visits.backend.astype(np.int64)[bodies]))
    weights = [1.0 / count[backend] for _, _, backend in parts]
    for silence in silences(visits.arrival, np.fmax(visits.wait_end, services.end)):
        backend = np.arange(len(count))
        parts.append((np.full(len(count), silence.begin), np.full(len(count), silence.end), backend))
        weights.append(np.ones(len(count)))
    begin, end, backend = (np.concatenate(side) for side in zip(*parts, strict=True))
    window, place, seconds = _cut(begin, end, windows)
    shares = pl.DataFrame(
        {"window": window, "backend": backend[place], "share": seconds * np.concatenate(weights)[place] / MINUTE}
    )
    doubted = shares.group_by("window", "backend").agg(pl.col("share").sum()).filter(pl.col("share") > BODIES)
    return doubted.select("window", "backend")


def _unknown(rows: pl.LazyFrame, visits: Visits) -> tuple[Floats, Floats, Ints]:
    """Return the time at the backend of the requests that may hold a worker for an unknown time: begin, end, backend.

    They were answered without a service time, or given up without a span.
    """
    held = pl.coalesce("span_seconds", "service_time")
    given_up = pl.col("status").is_in(GIVEN_UP_STATUSES)
    number = {name: code for code, name in enumerate(visits.backends)}
    number |= {address: number[name] for address, name in visits.joined.items()}

    def since(column: str) -> pl.Expr:
        return (pl.col(column) - pl.lit(visits.base, INSTANT)).dt.total_microseconds() / 1e6

    table = (
        without_upgraded(rows)
        .filter(pl.col("proxied") & (pl.col("answered") | given_up))
        .filter(pl.col("queueing_delay").is_null() | held.is_null())
        .select("upstream", begin=since("start") + pl.col("upload") + pl.col("retries"), end=since("time"))
        .collect(engine="streaming")
    )
    # A backend without a single known service has no rows that could be in doubt.
    backend = np.array([number.get(name, -1) for name in table["upstream"].to_list()], np.int64)
    at_backend = backend >= 0
    return table["begin"].to_numpy()[at_backend], table["end"].to_numpy()[at_backend], backend[at_backend]


def _cut(begin: Floats, end: Floats, windows: Windows) -> tuple[Ints, Ints, Floats]:
    """Cut intervals at the edges of the windows: window, interval and seconds of each part inside the windows."""
    edges = windows.edges
    low, high = (np.clip(instants, edges[0], edges[-1]) for instants in (begin, end))
    inside = np.flatnonzero(high > low)
    first = windows.of(low[inside])
    number = windows.of(high[inside]) - first + 1
    part = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number, number)
    window, interval = np.repeat(first, number) + part, np.repeat(inside, number)
    return window, interval, np.minimum(high[interval], edges[window + 1]) - np.maximum(low[interval], edges[window])
