"""What tells the causes of one phase of a request apart, as expressions over the rows of a split.

A client's speed matters to messages that do not fit in the buffers of a socket. The seconds of a phase in larger ones
may be the client's; those in smaller ones are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sojourn.model.verdict import LARGE, Evidence

# Cause -> its component, and the column with the size of the message that a client sends or receives meanwhile.
LARGE_OF = {
    "before": ("upload", "request_length"),
    "service": ("service_time", "request_length"),
    "body": ("transfer", "bytes_sent"),
    "after": ("send", "bytes_sent"),
}
PHASES = ("before", "after")  # of a request without an attempt, all is after
DELAYED = "DELAYED"  # of ``limit_req_status``
BYPASSED = "BYPASS"  # of ``upstream_cache_status``: the cache was not consulted
# ms: a request that waits in a cache lock looks whether the cache is filled in this step, each time a little late. A
# wait of so many steps is the lock's: another one ends at such a moment by chance, 1 or 2 times in 100.
LOCK_STEP, ON_TIME, LATE = 500, 5, 3
SHORT_WAY = 0.003  # s: a shorter way to an idle backend is within the steps of the clocks
ENOUGH_IDLE = 20  # requests at an idle backend
LOOKED_AT = 200_000  # requests


def is_way_possible(clock: pl.DataFrame) -> bool:
    """Return whether a way to a backend may be long: its clock is not known better than ``SHORT_WAY``."""
    return "uncertainty" in clock.columns and bool((clock["uncertainty"] > SHORT_WAY).any())


def idle_ways(rows: pl.LazyFrame) -> dict[str, float]:
    """Return the time that requests took from the proxy to the app's start where the backend was idle, s.

    A backend is idle if none of its requests was present. The first ``LOOKED_AT`` rows are read.

    Args:
        rows: with the columns of a split.

    Returns:
        Upstream -> its way, longer than ``SHORT_WAY`` and of at least ``ENOUGH_IDLE`` requests.
    """
    arrival = pl.coalesce("proxy_start", "start")
    known = rows.filter("answered").head(LOOKED_AT).select("upstream", "time", "queueing_delay", arrival=arrival)
    before = pl.col("time").cum_max().shift(1).over("upstream")
    idle = known.sort("arrival").with_columns(before=before).filter(pl.col("arrival") > pl.col("before"))
    ways = idle.group_by("upstream").agg(pl.col("queueing_delay").quantile(0.25), idle=pl.len()).collect()
    long = ways.filter((pl.col("idle") >= ENOUGH_IDLE) & (pl.col("queueing_delay") > SHORT_WAY)).drop_nulls("upstream")
    return dict(long.select("upstream", "queueing_delay").iter_rows())


def evidence_columns(ways: Mapping[str, float]) -> list[pl.Expr]:
    """Return the means that ``evidence_of`` reads, s: ``redirects``, ``way``, and ``<what>/<cause>`` of the others.

    Args:
        ways: upstream -> way to it, s.
    """
    seconds: dict[str, pl.Expr] = {"redirects": pl.when("proxied").then("redirects")}
    delayed = (pl.col("limit_req_status") == DELAYED).fill_null(value=False)
    locked = pl.when(~delayed).then(lock_wait()).fill_null(0.0)
    for cause, (component, size) in LARGE_OF.items():
        of_client = (pl.col(size) >= LARGE) & ~delayed & (locked == 0.0) if cause in PHASES else pl.col(size) >= LARGE
        seconds[f"large/{cause}"] = pl.when(of_client).then(component)
    for cause, component, within in zip(
        PHASES, ("upload", "send"), (pl.col("proxied"), ~pl.col("proxied")), strict=True
    ):
        seconds[f"locked/{cause}"] = pl.when(within).then(locked)
        seconds[f"limited/{cause}"] = pl.when(within & delayed).then(component)
    if ways:
        way = pl.col("upstream").replace_strict(ways, default=0.0, return_dtype=pl.Float64)
        seconds["way"] = pl.min_horizontal(pl.col("queueing_delay").clip(lower_bound=0.0), way)
    return [part.fill_null(0.0).mean().alias(name) for name, part in seconds.items()]


def lock_wait() -> pl.Expr:
    """Return the time in a cache lock of nginx, s; null where none shows.

    It lies before the attempt, or is nearly all of a request that the cache answered.
    """
    whole = pl.when("proxied").then("upload").otherwise("request_time")
    milliseconds = (whole * 1000).round().cast(pl.Int64)
    steps = (milliseconds + 1) // LOCK_STEP
    late = milliseconds - steps * LOCK_STEP
    consulted = pl.col("upstream_cache_status").is_not_null() & (pl.col("upstream_cache_status") != BYPASSED)
    return pl.when(consulted & (steps >= 1) & (late <= ON_TIME + LATE * steps)).then(steps * (LOCK_STEP / 1000))


def evidence_of(row: Mapping[str, Any]) -> Evidence:
    """Return the evidence in a row with the columns of ``evidence_columns``; without a request they are null."""
    large = {cause: row[f"large/{cause}"] or 0.0 for cause in LARGE_OF}
    locked, limited = ({cause: row[f"{what}/{cause}"] or 0.0 for cause in PHASES} for what in ("locked", "limited"))
    return Evidence(large, row["redirects"] or 0.0, row.get("way") or 0.0, locked, limited)
