"""Queues with known instants, for tests of the movie."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from sojourn.movie.film import Film, film_of
from sojourn.movie.scenes import Scene, scene_of
from sojourn.timeline.request_timelines import GIVEN_UP, SERVED, TIMELINE, TURNED_AWAY

FIRST = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOSTILE = "</script><b>&\x1b[31m"


def drawn(*rows: tuple[float, float | None, float | None, float, str], backend: str = "a:1") -> pl.DataFrame:
    """Return timelines of (arrival, begin, end, left, outcome)."""
    table = [
        {"number": n + 1, "arrival": a, "begin": b, "end": e, "left": gone, "outcome": outcome, "backend": backend,
         "wait_known": True}
        for n, (a, b, e, gone, outcome) in enumerate(rows)
    ]  # fmt: skip
    return pl.DataFrame(table, schema=TIMELINE)


# One request is served; one is given up at 65 s, after 20 s of service; one is turned away at 45 s.
THREE = drawn((0.0, 0.0, 45.0, 45.0, SERVED), (5.0, 45.0, 90.0, 65.0, GIVEN_UP), (6.0, None, None, 45.0, TURNED_AWAY))


def phased() -> pl.DataFrame:
    """Requests of three workers in every phase; the body of the third may hold its worker, until that serves the fifth.

    1: read until 4 s, service until 10 s, body until 20 s. 2: service until 6 s, work after the answer until 18 s.
    3: service until 5 s, perhaps its body. 4: service from 18 s to 24 s, body until 40 s, given up at 30 s.
    5: service from 16 s to 30 s.
    """
    table = drawn(
        (0.0, 0.0, 20.0, 20.0, SERVED), (0.0, 0.0, 18.0, 6.0, SERVED), (0.0, 0.0, 5.0, 25.0, SERVED),
        (1.0, 18.0, 40.0, 30.0, GIVEN_UP), (2.0, 16.0, 30.0, 30.0, SERVED),
    )  # fmt: skip
    return table.with_columns(
        worker=pl.Series(["1", "2", "3", "2", "3"]),
        started=pl.Series([4.0, 0.0, 0.0, 18.0, 16.0]),
        headers=pl.Series([10.0, 6.0, 5.0, 24.0, 30.0]),
        answered=pl.Series([20.0, 6.0, 5.0, 40.0, 30.0]),
        doubt_end=pl.Series([None, None, 25.0, None, None], dtype=pl.Float64),
    )


def scene(table: pl.DataFrame = THREE, name: str = "one worker", *, later: float = 0.0, **more: object) -> Scene:
    """A scene that begins ``later`` seconds after ``FIRST``."""
    return scene_of(name, table, first=FIRST + timedelta(seconds=later), **more)  # type: ignore[arg-type]


def film(*scenes: Scene, title: str = "Three", **more: object) -> Film:
    """A film of scenes; by default of THREE."""
    return film_of(scenes or (scene(),), title=title, **more)  # type: ignore[arg-type]


def crowd(count: int = 2_500, *, workers: int = 4, seed: int = 1, backends: int = 1) -> pl.DataFrame:
    """A first-in-first-out queue that is overloaded in its middle third; some give up after 3 s, still worked on."""
    generator = np.random.default_rng(seed)
    gaps = generator.exponential(0.05, count)
    gaps[count // 3 : 2 * count // 3] /= 2.2
    arrival = np.cumsum(gaps) - gaps[0]
    service = generator.exponential(0.18, count)
    free = np.zeros((backends, workers))
    rows = []
    for k in range(count):
        backend = k % backends
        worker = int(free[backend].argmin())
        begin = max(arrival[k], free[backend, worker])
        free[backend, worker] = end = begin + service[k]
        late = end - arrival[k] > 3
        rows.append(
            {"number": k + 1, "arrival": arrival[k], "begin": begin, "end": end,
             "left": arrival[k] + 3 if late else end, "outcome": GIVEN_UP if late else SERVED,
             "backend": f"10.0.0.{backend}:80", "worker": str(worker), "wait_known": True}
        )  # fmt: skip
    return pl.DataFrame(rows, schema=TIMELINE)


def log_of(
    path: Path, *requests: tuple[float, float, float, float], service: str = "s", backend: str = "10.0.0.1:80"
) -> Path:
    """An access log of (arrival, wait, work, patience); one whose patience ends first is a 504 without a span."""
    lines = []
    for start, wait, work, patience in requests:
        late = wait + work > patience
        used = patience if late else wait + work
        record = {
            "time": f"{FIRST.timestamp() + start + used:.3f}", "request_time": f"{used:.3f}",
            "request_start": f"{FIRST.timestamp() + start:.3f}", "status": "504" if late else "200", "route": "/r",
            "service": service, "upstream_addr": backend, "upstream_status": "504" if late else "200",
            "upstream_connect_time": "0.000", "upstream_header_time": "-" if late else f"{used:.3f}",
            "upstream_response_time": f"{used:.3f}",
        }  # fmt: skip
        values = {} if late else {"queueing_delay": f"{wait:.6f}", "service_time": f"{work:.6f}", "worker": "1"}
        lines.append(json.dumps(record | values) + "\n")
    path.write_text("".join(lines))
    return path
