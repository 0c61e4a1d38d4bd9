"""What tells the causes of one phase of a request apart, as expressions over the rows of a split.

A client's speed matters to messages that do not fit in the buffers of a socket. The seconds of a phase in larger ones
may be the client's; those in smaller ones are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
WAY, WAY_IN_DOUBT = "way", "way_in_doubt"  # names of means
_DELAYED, _LOCKED = "__delayed", "__locked"  # by limit_req; s in a cache lock


def is_way_possible(clock: pl.DataFrame) -> bool:
    """Return whether a way to a backend may be long: its clock is not known better than ``SHORT_WAY``."""
    return "uncertainty" in clock.columns and bool((clock["uncertainty"] > SHORT_WAY).any())


@dataclass(frozen=True)
class Ways:
    """Upstream -> the way to it, s.

    Attributes:
        certain: as requests took it to an idle backend.
        in_doubt: how much of a wait may be the way: few requests arrived while it was idle, and its clock is not known.
    """

    certain: Mapping[str, float] = field(default_factory=dict)
    in_doubt: Mapping[str, float] = field(default_factory=dict)

    def by_name(self) -> dict[str, Mapping[str, float]]:
        """Return the name of each mean that the evidence has for them -> the ways that it sums; without empty ones."""
        return {name: ways for name, ways in ((WAY, self.certain), (WAY_IN_DOUBT, self.in_doubt)) if ways}


NO_WAYS = Ways()
WAY_ROWS = {"upstream": pl.String, "way": pl.Float64, "idle": pl.Int64, "least": pl.Float64}


def idle_ways(rows: pl.LazyFrame, clock: pl.DataFrame) -> Ways:
    """Return the time that requests took from the proxy to the app's start where the backend was idle.

    A backend is idle if none of its requests was present. The first ``LOOKED_AT`` rows are read.

    Args:
        rows: with the columns of a split.
        clock: as of a split.
    """
    arrival = pl.coalesce("proxy_start", "start")
    answered = rows.filter("answered").head(LOOKED_AT).select("upstream", "time", "queueing_delay", arrival=arrival)
    before = pl.col("time").cum_max().shift(1).over("upstream")
    idle = (pl.col("arrival") > pl.col("before")).fill_null(value=False)
    queued = pl.col("queueing_delay").drop_nulls()
    at_idle = pl.col("queueing_delay").filter(idle).drop_nulls()
    grouped = answered.sort("arrival").with_columns(before=before).group_by("upstream")
    return ways_of(
        grouped.agg(
            way=at_idle.quantile(0.25, "linear"), idle=at_idle.len(), least=queued.quantile(0.01, "linear")
        ).collect(),
        clock,
    )


def ways_of(rows: pl.DataFrame, clock: pl.DataFrame) -> Ways:
    """Return the ways, of which those up to ``SHORT_WAY`` are none.

    Args:
        rows: ``WAY_ROWS``: upstream; way: 25 % quantile of the waits at the idle backend, s; idle: their number;
            least: 1 % quantile of all waits, s.
        clock: as of a split.
    """
    doubt = clock.drop_nulls("upstream").group_by("upstream").agg(pl.col("uncertainty").max())
    every = rows.drop_nulls("upstream").join(doubt, on="upstream", how="left")
    enough = pl.col("idle") >= ENOUGH_IDLE
    seconds = pl.when(enough).then("way").otherwise(pl.min_horizontal("least", pl.col("uncertainty").fill_null(0.0)))
    long = every.select("upstream", enough.alias("enough"), seconds=seconds).filter(pl.col("seconds") > SHORT_WAY)
    certain, in_doubt = (
        dict(long.filter(pl.col("enough") == is_certain).select("upstream", "seconds").iter_rows())
        for is_certain in (True, False)
    )
    return Ways(certain, in_doubt)


def with_evidence(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with what several of ``evidence_columns`` read: computed once, not for each."""
    delayed = (pl.col("limit_req_status") == DELAYED).fill_null(value=False)
    locked = pl.when(~pl.col(_DELAYED)).then(lock_wait()).fill_null(0.0)
    return rows.with_columns(delayed.alias(_DELAYED)).with_columns(locked.alias(_LOCKED))


def evidence_columns(ways: Ways = NO_WAYS) -> list[pl.Expr]:
    """Return the means that ``evidence_of`` reads, s: ``<what>/<cause>``, and ``redirects`` and the ways.

    They are those of rows ``with_evidence``.
    """
    seconds: dict[str, pl.Expr] = {"redirects": pl.when("proxied").then("redirects")}
    delayed, locked = pl.col(_DELAYED), pl.col(_LOCKED)
    for cause, (component, size) in LARGE_OF.items():
        of_client = (pl.col(size) >= LARGE) & ~delayed & (locked == 0.0) if cause in PHASES else pl.col(size) >= LARGE
        seconds[f"large/{cause}"] = pl.when(of_client).then(component)
    for cause, component, within in zip(
        PHASES, ("upload", "send"), (pl.col("proxied"), ~pl.col("proxied")), strict=True
    ):
        seconds[f"locked/{cause}"] = pl.when(within).then(locked)
        seconds[f"limited/{cause}"] = pl.when(within & delayed).then(component)
    for name, of_upstream in ways.by_name().items():
        way = pl.col("upstream").replace_strict(dict(of_upstream), default=0.0, return_dtype=pl.Float64)
        seconds[name] = pl.min_horizontal(pl.col("queueing_delay").clip(lower_bound=0.0), way)
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
    way, in_doubt = (row.get(name) or 0.0 for name in (WAY, WAY_IN_DOUBT))
    return Evidence(large, row["redirects"] or 0.0, way, locked, limited, in_doubt)
