"""Records whose instants jump: a clock was set while the log was written, and set back.

One such record among thousands stretches every axis of time, and every average over time, to its instant. Records are
set apart if a gap divides them from all others that is longer than the others together span, and they are few. A night
between two halves of a log is a gap as well, but both halves have many records; in a log with few records in all, the
next gap may be as long as all before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from sojourn.model.frame import INSTANT, Selection
from sojourn.model.set_apart import SetApart

FEW = 0.01  # of the records, on either side; of fewer than 1 / FEW, none
OF_ONE = 0.1  # of the records of one source: with more of them outside, it is a log of another time
LEAST_GAP = timedelta(minutes=10)  # a shorter one is a pause between two trials
COLUMNS = ("time", "start")
_SLOT = "10m"  # no gap of ``LEAST_GAP`` is inside a slot
_SCHEMA = {"slot": INSTANT, "begin": INSTANT, "end": INSTANT, "requests": pl.UInt32()}


@dataclass(frozen=True)
class Extent:
    """The time that a log covers without the records that are far from it.

    Attributes:
        first: earliest begin of a request in it.
        last: latest end.
        set_apart: the other records.
    """

    first: datetime
    last: datetime
    set_apart: SetApart

    @property
    def is_inside(self) -> pl.Expr:
        """Whether a row is not set apart; of its column ``time``."""
        return pl.col("time").is_between(pl.lit(self.first, INSTANT), pl.lit(self.last, INSTANT))


def slots_of(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return ten minutes each in which requests ended (``slot``): ``begin`` of the earliest, ``end``, ``requests``.

    Args:
        rows: with ``COLUMNS``.
    """
    begin = pl.min_horizontal(*COLUMNS).min()
    slots = rows.group_by(slot=pl.col("time").dt.truncate(_SLOT)).agg(
        begin=begin, end=pl.col("time").max(), requests=pl.len().cast(pl.UInt32)
    )
    return slots.collect(engine="streaming")


def together(tables: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the slots of several tables as one, sorted."""
    every = pl.concat([pl.DataFrame(schema=_SCHEMA), *tables])
    sums = every.group_by("slot").agg(pl.col("begin").min(), pl.col("end").max(), pl.col("requests").sum())
    return sums.sort("slot")


def count_of(slots: pl.DataFrame) -> int:
    """Return the number of requests in slots."""
    return int(slots["requests"].sum())


class Jumps:
    """The slots of some sources, which are read block by block.

    Args:
        window: the requests that count.
    """

    def __init__(self, window: Selection) -> None:
        self._window = window
        self._slots: dict[str, pl.DataFrame] = {}

    def add(self, source: str, rows: pl.DataFrame | pl.LazyFrame) -> None:
        """Add rows (``COLUMNS``) of a source."""
        slots = slots_of(self._window.of_rows(rows.lazy()))
        self._slots[source] = together([self._slots[source], slots]) if source in self._slots else slots

    def extent(self) -> Extent | None:
        """Return the time that the sources cover without what jumps; None: nothing does.

        Nothing is set apart where a source has more than a few of its records there: it is of another time.
        """
        slots = together(self._slots.values())
        extent = extent_of(slots, int(FEW * count_of(slots)))
        if extent is None:
            return None
        for own in self._slots.values():
            outside = own.filter((pl.col("end") < extent.first) | (pl.col("begin") > extent.last))
            if count_of(outside) > OF_ONE * count_of(own):
                return None
        return extent


def extent_of(slots: pl.DataFrame, most: int) -> Extent | None:
    """Return the time of all records without those that are far from it; None: none are.

    Args:
        slots: as from ``together``.
        most: records that can be far, on either side.
    """
    if len(slots) < 2 or most < 1:
        return None
    count, begin, end = (slots[name].to_numpy() for name in ("requests", "begin", "end"))
    first = int(np.searchsorted(np.cumsum(count), most, side="right"))
    last = len(count) - 1 - int(np.searchsorted(np.cumsum(count[::-1]), most, side="right"))
    if first > last:  # every record is one of few
        return None
    # A request of an hour that ends in a later slot begins in an earlier one.
    later = np.minimum.accumulate(begin[::-1])[::-1]
    least = np.timedelta64(LEAST_GAP)
    while True:
        low, high = begin[first : last + 1].min(), end[last]
        gap = max(high - low, least)
        if first > 0 and low - end[first - 1] <= gap:
            first -= 1
        elif last < len(count) - 1 and later[last + 1] - high <= gap:
            last += 1
        else:
            break
    if first == 0 and last == len(count) - 1:
        return None
    inside = slots.slice(first, last - first + 1)
    outside = pl.concat([slots.head(first), slots.tail(len(slots) - last - 1)])
    bounds = (inside["begin"].min(), inside["end"].max(), outside["begin"].min(), outside["end"].max())
    begun, ended, earliest, latest = (bound for bound in bounds if isinstance(bound, datetime))
    seconds = (ended - begun).total_seconds()
    return Extent(begun, ended, SetApart(count_of(outside), earliest, latest, seconds))
