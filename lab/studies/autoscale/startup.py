"""How long new workers took to start: from their birth to the start of their first request, where that had waited."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import sojourn

WAITED = 0.05
"""Seconds of waiting of a request that a worker serves as soon as it is ready."""


def startup_times(access_log: Path, case: str, born: Mapping[int, float]) -> list[float]:
    """Return seconds from the birth of each worker (unix s, by process id) to its first request, if that had waited."""
    parts = pl.sum_horizontal(pl.col(name).fill_null(0.0) for name in ("upload", "retries", "connect", "queue"))
    rows = sojourn.split(access_log).rows.filter(pl.col("service") == case)
    begun = rows.select("worker", "queue", at=pl.col("start").dt.epoch("us") / 1e6 + parts).drop_nulls("worker")
    first = begun.sort("at").unique("worker", keep="first", maintain_order=True).filter(pl.col("queue") > WAITED)
    pairs = first.select("worker", "at").collect().iter_rows()
    return sorted(at - born[int(worker)] for worker, at in pairs if int(worker) in born)


def startup_figures(times: list[float]) -> dict[str, float | int | None]:
    """Return their number, median and maximum, s."""
    return {
        "workers": len(times),
        "median": statistics.median(times) if times else None,
        "most": max(times, default=None),
    }
