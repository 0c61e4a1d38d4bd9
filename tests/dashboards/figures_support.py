"""Figures worked out from records, to hold the dashboards' against, and which panel is held against which."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
from dashboards_support import BEGIN, END, Boards, bucket, first_run, stamp, whole

CHECKS: dict[tuple[str, str], Callable[..., None]] = {}
SECONDS = (END - BEGIN).total_seconds()
SKETCH = 0.0101  # relative error of the store's quantiles
PARTS = ("upload", "retries", "waited", "worked", "network", "transfer", "send", "unattributed")


def checks(*panels: tuple[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The decorated function is given the store, the facts and the panel's place; it fails if the figures differ."""

    def register(check: Callable[..., None]) -> Callable[..., None]:
        for panel in panels:
            assert panel not in CHECKS, f"{panel} is checked twice"
            CHECKS[panel] = check
        return check

    return register


def near(value: float | None, expected: float | None, tolerance: float = 1e-9) -> bool:
    if value is None or expected is None:
        return value is expected
    return math.isclose(value, expected, rel_tol=tolerance, abs_tol=1e-6)


def sketched(value: float | None, values: pl.Series, level: float) -> bool:
    """As near as a sketch is to what lies at the rank, or within two ranks of it."""
    ordered = values.drop_nulls().sort()
    if not len(ordered):
        return value is None
    rank = level * (len(ordered) - 1)
    low, high = ordered[max(math.floor(rank) - 2, 0)], ordered[min(math.ceil(rank) + 2, len(ordered) - 1)]
    return value is not None and low - abs(low) * SKETCH - 1e-6 <= value <= high + abs(high) * SKETCH + 1e-6


def in_its_bucket(value: float | None, values: pl.Series, level: float) -> bool:
    """Within the bucket of what lies at the rank."""
    ordered = values.drop_nulls().sort()
    if not len(ordered):
        return value is None
    place = bucket(ordered[max(math.ceil(level * len(ordered) - 1e-9), 1) - 1])
    return value is not None and 10 ** (place / 20) * (1 - 1e-9) <= value <= 10 ** ((place + 1) / 20) * (1 + 1e-9)


def by(rows: pl.DataFrame, interval: int) -> dict[int, pl.DataFrame]:
    """Rows by the start of the interval in which they ended."""
    marked = rows.with_columns(t=pl.col("minute") // interval * interval)
    return {int(key[0]): part for key, part in marked.partition_by("t", as_dict=True, maintain_order=True).items()}


def queueing_share(rows: pl.DataFrame) -> float:
    """The share of queueing, of the requests whose wait is known and of those that went to no backend."""
    of_known = rows.filter(pl.col("queueing").is_not_null() | (pl.col("attempts") == 0))
    return of_known["queueing"].sum() / of_known["response"].sum()


def mean(rows: pl.DataFrame, *parts: str) -> float:
    return sum(rows[part].sum() for part in parts) / rows.height


def at_nines(values: pl.Series, nines: float) -> float | None:
    """Upper edge of the bucket of the quantile 1 - 10^-nines; none where less than one value lies beyond it."""
    known = values.drop_nulls().sort()
    if len(known) * 10**-nines < 1:
        return None
    rank = max(math.ceil((1 - 10**-nines) * len(known) - 1e-9), 1)
    return 10 ** ((bucket(known[rank - 1]) + 1) / 20)


def panel_rows(store: Boards, name: str, title: str, interval: int = 60, **values: Any) -> list[dict[str, Any]]:
    view = whole(name, **values)
    view.interval = interval
    return store.panel(name, title, view).rows


def times(rows: list[dict[str, Any]]) -> list[int]:
    return [stamp(row["t"]) for row in rows]


__all__ = [name for name in dir() if not name.startswith("_")] + ["first_run"]
