"""Retry storms: load from retries of failed requests.

A storm sustains itself: failures cause retries, which cause failures (Bronson et al. 2021, "Metastable failures in
distributed systems", HotOS). A storm is a run of windows with more than 1.5 attempts per first request and more than
5 % failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from sojourn.model.formatting import iso
from sojourn.timeline.windows import WIDTHS, Windows

STORM_AMPLIFICATION = 1.5
STORM_FAILURES = 0.05
STORM_REQUESTS = 20  # in a window, on average


@dataclass(frozen=True)
class Storm:
    """A retry storm.

    Attributes:
        begin, end: begin of the first window and end of the last.
        requests: requests that arrived in it.
        amplification: attempts per first request.
        repeated: share of the attempts that are retries, nginx's and the clients'.
        failures: share of the requests that failed.
    """

    begin: datetime
    end: datetime
    requests: int
    amplification: float
    repeated: float
    failures: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.__dict__, "begin": iso(self.begin), "end": iso(self.end)}


def storms_of(proxied: pl.DataFrame, base: datetime) -> tuple[Storm, ...]:
    """Return the storms, from windows so wide that 20 requests arrive in one on average.

    Columns: begun (s after ``base``), attempts, again (bool: a client's retry), failed (bool).
    """
    if not len(proxied):
        return ()
    begun = proxied["begun"].to_numpy()
    first, last = float(begun.min()), float(begun.max())
    enough = (last - first) * STORM_REQUESTS / len(proxied)
    width = next((seconds for seconds in WIDTHS if seconds >= max(enough, 1.0)), WIDTHS[-1])
    windows = Windows.over(base, first, last, seconds=width)
    sums = (
        proxied.with_columns(window=pl.Series(windows.of(begun)))
        .group_by("window")
        .agg(pl.len().alias("requests"), pl.col("attempts", "again", "failed").sum())
        .with_columns(pl.col("again").fill_null(0))
        .sort("window")
    )
    firsts = pl.max_horizontal(pl.col("requests") - pl.col("again"), pl.lit(1))
    stormy = sums.filter(
        (pl.col("attempts") > STORM_AMPLIFICATION * firsts)
        & (pl.col("failed") > STORM_FAILURES * pl.col("requests"))
        & (pl.col("requests") >= STORM_REQUESTS // 4)
    )
    merged = (
        stormy.with_columns(storm=(pl.col("window").diff().fill_null(1) > 1).cum_sum())
        .group_by("storm", maintain_order=True)
        .agg(
            pl.col("window").min().alias("first"),
            pl.col("window").max().alias("last"),
            pl.col("requests", "attempts", "again", "failed").sum(),
        )
    )
    edges = windows.edges
    storms = []
    for row in merged.iter_rows(named=True):
        first = max(row["requests"] - row["again"], 1)
        storms.append(
            Storm(
                begin=base + timedelta(seconds=round(float(edges[row["first"]]), 6)),
                end=base + timedelta(seconds=round(float(edges[row["last"] + 1]), 6)),
                requests=row["requests"],
                amplification=row["attempts"] / first,
                repeated=1 - first / row["attempts"],
                failures=row["failed"] / row["requests"],
            )
        )
    return tuple(storms)
