"""The clock offset of a pair at an instant: of each request, and at clock changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from sojourn.components.clock_offsets.offsets import PAIR
from sojourn.components.clock_offsets.segments import is_step
from sojourn.model.arrays import Floats, Ints
from sojourn.model.groups import LARGEST

BETWEEN, NO_NAME = "\x1f", "\x1e"  # control characters: no proxy and no backend is called so


@dataclass(frozen=True)
class Lines:
    """The segments of all pairs, by pair and time: offset(t) = offset + drift (t - middle).

    Attributes:
        pair: number of the pair, in the order of the clock table.
        begin: us since 1970; a pair's first segment holds for all time before it, its last one for all time after.
        middle: us since 1970.
        offset: s, what delays are corrected by.
        drift: s/s.
    """

    pair: Ints
    begin: Ints
    middle: Ints
    offset: Floats
    drift: Floats

    @classmethod
    def of(cls, clock: pl.DataFrame) -> Lines:
        """Return the lines of a table as from ``clock_offsets``."""
        table = clock.select(pair=pl.int_range(pl.len()), segment="segments").explode("segment").unnest("segment")
        begin, end = (table[name].dt.epoch("us") for name in ("from", "to"))
        return cls(
            table["pair"].to_numpy(),
            begin.to_numpy(),
            (begin + (end - begin) // 2).to_numpy(),
            table["correction"].to_numpy(),
            table["drift"].to_numpy(),
        )

    @property
    def constant(self) -> bool:
        """Whether no clock drifted or was set."""
        return len(np.unique(self.pair)) == len(self.pair) and not self.drift.any()

    def at(self, pair: Ints, instant: Ints) -> Floats:
        """Return the offsets (s) of pairs, by number, at instants (us)."""
        low, high = int(self.begin.min()), int(self.begin.max())
        # One number that grows with the pair and, within it, with time.
        width = high - low + 1
        first = np.concatenate([[True], np.diff(self.pair) > 0])
        begins = self.pair * width + np.where(first, 0, self.begin - low)
        segment = np.searchsorted(begins, pair * width + np.clip(instant - low, 0, width - 1), side="right") - 1
        return self.offset[segment] + self.drift[segment] * ((instant - self.middle[segment]) / 1e6)


def with_clock_offset(rows: pl.LazyFrame, clock: pl.DataFrame) -> pl.LazyFrame:
    """Return ``rows``, which have the app facts, with ``clock_offset`` (s) of their pair at their time.

    It is the ``correction`` of the estimate: 0 where the offset is not significant, null where there is no estimate.
    ``clock_tolerance`` (s) is how far the offset may be below it; 0 without an estimate.

    The time is when the app read its clock: where durations do not tell it (header
    received less service time), it is what the app's clock says, corrected by the offset there was when nginx turned
    to it.
    """
    if clock.is_empty():
        return rows.with_columns(clock_offset=pl.lit(None, pl.Float64), clock_tolerance=pl.lit(0.0))
    rows = rows.with_columns(clock_tolerance=_of_pair(clock, clock["tolerance"]).fill_null(0.0))
    lines = Lines.of(clock)
    if lines.constant:
        return rows.with_columns(clock_offset=_of_pair(clock, clock["correction"]))

    def offsets(row: pl.Series) -> pl.Series:
        parts = row.struct.unnest()
        pair = parts["pair"].fill_null(0).to_numpy().astype(np.int64)
        begun = parts["begun"].fill_null(0).to_numpy()
        by_app = (parts["app_start"].fill_null(0.0).to_numpy() - lines.at(pair, begun)) * 1e6
        after = parts["after"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        instant = begun + np.round(np.where(np.isnan(after), by_app, after)).astype(np.int64)
        offset = pl.Series(lines.at(pair, instant))
        return pl.select(pl.when(parts["pair"].is_not_null()).then(offset)).to_series()

    pair = _of_pair(clock, pl.int_range(len(clock), dtype=pl.Int64, eager=True))
    after = pl.when("answered").then((pl.col("header") - pl.col("app_service")) * 1e6)
    instants = pl.struct(
        pair=pair, begun=pl.coalesce("proxy_start", "start").dt.epoch("us"), after=after, app_start="app_start"
    )
    return rows.with_columns(clock_offset=instants.map_batches(offsets, return_dtype=pl.Float64, is_elementwise=True))


def _of_pair(clock: pl.DataFrame, values: pl.Series) -> pl.Expr:
    """Return the value, one per row of ``clock``, of the pair of each request; null without one.

    A join would take three times as long: it keeps the order of all rows for a table of some.
    """
    proxy, upstream = (pl.col(name).fill_null(NO_NAME) for name in PAIR)
    key = pl.concat_str(proxy, upstream, separator=BETWEEN)
    pairs = clock.select(key).to_series()

    def of_each(keys: pl.Series) -> pl.Series:
        return keys.replace_strict(pairs, values, default=None, return_dtype=values.dtype)

    # As an expression of Polars' own it would hold all rows at once.
    return key.map_batches(of_each, return_dtype=values.dtype, is_elementwise=True)


def steps(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return when a clock was set, and by how much: ``at`` and ``change`` (s), of the segments of a pair.

    Where it only began to run faster or slower the lines meet, and there is no step.
    """
    changes = []
    for before, after in pairwise(segments):
        change = offset_at(after, after["from"]) - offset_at(before, after["from"])
        if is_step(change, before["uncertainty"], after["uncertainty"]):
            changes.append({"at": after["from"], "change": change})
    return changes


def offset_at(segment: dict[str, Any], instant: datetime) -> float:
    """Return the offset (s) of a segment's line at an instant."""
    middle = segment["from"] + (segment["to"] - segment["from"]) / 2
    return float(segment["offset"] + segment["drift"] * (instant - middle).total_seconds())


def largest_clocks(clock: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the ``LARGEST`` pairs with the most requests, in their order."""
    return clock.filter(pl.col("requests").rank("ordinal", descending=True) <= LARGEST) if len(clock) else clock


def others_of(clock: pl.DataFrame) -> dict[str, int]:
    """Return ``values`` and ``requests`` of the pairs that are not in ``largest_clocks``; empty without any."""
    largest = largest_clocks(clock)
    if len(largest) == len(clock):
        return {}
    requests = clock["requests"].to_numpy().sum() - largest["requests"].to_numpy().sum()
    return {"values": len(clock) - len(largest), "requests": int(requests)}


def plain_clocks(clock: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a table of clocks as a list: every pair with its segments and steps, instants as datetimes."""
    return [{**row, "steps": steps(row["segments"])} for row in clock.iter_rows(named=True)]
