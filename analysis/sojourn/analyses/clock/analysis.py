"""Offset and drift of the clocks of apps and proxies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

from sojourn.components.clock_offsets.correction import largest_clocks, others_of, plain_clocks
from sojourn.components.clock_offsets.offsets import PAIR, clock_offsets, clock_windows
from sojourn.model.groups import LARGEST
from sojourn.model.result import Result


@dataclass(frozen=True, repr=False)
class ClockResult(Result):
    """Offset and drift of every pair over time.

    Attributes:
        clock: one row a pair, columns as in ``sojourn.components.clock_offsets.offsets.CLOCK_SCHEMA``.
        pairs: the same as plain values, with ``steps``: when a clock was set (``at``) and by how much (``change``, s).
        windows: what the requests of short windows allow each offset to be, by pair and time. Columns proxy, upstream,
            at (UTC, the middle), lower, upper (s), requests.
        silent: pairs without a usable request: proxy, upstream, requests.
    """

    TABLES: ClassVar = ("clock", "windows", "silent")

    clock: pl.DataFrame
    pairs: list[dict[str, Any]]
    windows: pl.DataFrame
    silent: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn clock --json`` prints; instants as datetimes."""
        others = {"clock": each} if (each := others_of(self.clock)) else {}
        if more := self.silent[LARGEST:]:
            others["silent"] = {"values": len(more), "requests": sum(row["requests"] for row in more)}
        return {"clock": plain_clocks(largest_clocks(self.clock)), "silent": self.silent[:LARGEST], "others": others}


def clock(rows: pl.LazyFrame) -> ClockResult:
    """Offset and drift over time of every pair of proxy and backend.

    ``rows``: as from ``split_rows`` or ``SplitResult.rows``.
    """
    table = clock_offsets(rows)
    proxied = (
        rows.filter(pl.col("proxied")).group_by(*PAIR).agg(requests=pl.len()).collect(engine="streaming").sort(*PAIR)
    )
    silent = proxied.join(table.select(PAIR), on=list(PAIR), how="anti", nulls_equal=True, maintain_order="left")
    return ClockResult(table, plain_clocks(table), clock_windows(rows), silent.to_dicts())
