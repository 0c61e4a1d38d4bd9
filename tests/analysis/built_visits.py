"""Visits made by hand, or drawn: what an analysis of waiting takes, without a log around it."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import polars as pl
from hypothesis import strategies as st
from sojourn.timeline.visits import FROM_OPTION, Visits, Workers

BASE = datetime(2026, 1, 1, tzinfo=UTC)
NAN = math.nan


def built_visits(
    *rows: tuple[int, float, float, float, float, str],
    workers: tuple[int, ...] = (1,),
    pool: tuple[int, ...] | None = None,
) -> Visits:
    """Visits of rows (backend, arrival, wait_end, busy_start, busy_end, route), in the order of their arrivals."""
    rows = tuple(sorted(rows, key=lambda row: row[1]))
    pool = pool or (0,) * len(workers)
    backend, *instants = zip(*(row[:5] for row in rows), strict=True) if rows else ((), (), (), (), ())
    arrival, wait_end, busy_start, busy_end = (np.array(values, np.float64) for values in instants)
    names = tuple(f"10.0.0.{i + 1}:80" for i in range(len(workers)))
    codes = np.array(backend, np.int32)
    return Visits(
        base=BASE,
        arrival=arrival,
        wait_end=wait_end,
        busy_start=busy_start,
        busy_end=busy_end,
        backend=codes,
        backends=names,
        pool=np.array(pool, np.int32),
        pools=tuple(f"pool {i}" for i in range(max(pool) + 1)),
        workers=Workers(np.array(workers, np.int64), (FROM_OPTION,) * len(workers), np.zeros(len(workers), np.int64)),
        rows=pl.DataFrame(
            {
                "upstream": [names[i] for i in backend],
                "route": [row[5] for row in rows],
                "service": ["shop"] * len(rows),
            },
            schema={"upstream": pl.String, "route": pl.String, "service": pl.String},
        ),
    )


@st.composite
def drawn_visits(draw: st.DrawFn) -> Visits:
    """Up to 25 visits to up to three backends, at whole seconds, so that ties are many and sums are exact.

    Some are given up on, some waits are below zero, and some say nothing of their service.
    """
    backends = draw(st.integers(1, 3))
    count = draw(st.integers(0, 25))
    rows = []
    for _ in range(count):
        arrival = draw(st.integers(0, 20))
        wait_end = arrival + draw(st.integers(-1, 8))
        begun = wait_end + draw(st.sampled_from([0, 0, 0, 3]))
        held = draw(st.one_of(st.none(), st.integers(0, 6)))
        times = (NAN, NAN) if held is None else (float(begun), float(begun + held))
        route = draw(st.sampled_from(["/a", "/b", "/c"]))
        rows.append((draw(st.integers(0, backends - 1)), float(arrival), float(wait_end), *times, route))
    workers = tuple(draw(st.integers(1, 2)) for _ in range(backends))
    pool = tuple([0, draw(st.integers(0, 1)), 0][:backends])
    return built_visits(*rows, workers=workers, pool=pool)
