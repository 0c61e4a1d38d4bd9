"""Records from the future: ahead of the local clock, or, in a replay, of all others by more than the log is long.

The instant of such a record is not known. It is counted, and takes part in nothing else: one line would move the end of
the log, and with it every window, to an instant at which no other request ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from datetime import datetime, timedelta

import polars as pl

from sojourn.model.formatting import counted, duration
from sojourn.model.frame import INSTANT
from sojourn.sources.jumps import FEW, count_of, extent_of, slots_of, together

AHEAD = timedelta(seconds=5)
"""Synchronised clocks of two machines differ by less; and reading a second's lines takes less."""
MOST_HELD = 10  # records of a replay after which a jump is a pause of the log


class Ahead(ABC):
    """Sets records from the future apart.

    Attributes:
        total: records that were set apart so far.
        disagree: whether so many recent records were that figures of the others describe no whole.
    """

    def __init__(self) -> None:
        self.total = 0
        self.disagree = False

    @abstractmethod
    def without(self, rows: pl.DataFrame, wall: datetime) -> pl.DataFrame:
        """Return rows without those from the future; ``wall``: the local time."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What was set apart, and why; empty: nothing was."""

    def restart(self) -> None:  # noqa: B027 - a replay has no clock that is set
        """Forget recent records: the local clock was set, and those before are on another clock."""


class AheadOfClock(Ahead):
    """Sets records apart that are ahead of the local clock by more than ``AHEAD``.

    Args:
        span: s of recent records, of which more than ``FEW`` ahead are a disagreement of the clocks.
    """

    def __init__(self, span: float) -> None:
        super().__init__()
        self._span = timedelta(seconds=span)
        self._recent: deque[tuple[datetime, int, int]] = deque()  # when they were read, how many ahead, of how many
        self._furthest = timedelta()

    def without(self, rows: pl.DataFrame, wall: datetime) -> pl.DataFrame:
        """See ``Ahead``."""
        is_ahead = pl.col("time") > pl.lit(wall + AHEAD, INSTANT)
        ahead = rows.filter(is_ahead)
        if len(ahead):
            latest = ahead.select(pl.col("time").max()).item()
            self._furthest = max(self._furthest, latest - wall)
            self.total += len(ahead)
        self._recent.append((wall, len(ahead), len(rows)))
        while wall - self._recent[0][0] > self._span:
            self._recent.popleft()
        many, every = (sum(counts) for counts in zip(*((ahead, read) for _, ahead, read in self._recent), strict=True))
        # One line is a single fault, unless it is the only one.
        self.disagree = many > max(FEW * every, 1) or 0 < many == every
        return rows.filter(~is_ahead) if len(ahead) else rows

    @property
    def sentence(self) -> str:
        """See ``Ahead``."""
        if not self.total:
            return ""
        records = counted(self.total, "record was", "records were")
        text = f"{records} left out: up to {duration(self._furthest.total_seconds())} ahead of this machine's clock."
        many = " The clocks of the log and of this machine differ: the figures lack those requests."
        return text + (many if self.disagree else "")

    def restart(self) -> None:
        """See ``Ahead``."""
        self._recent.clear()
        self.disagree = False


class AheadOfLog(Ahead):
    """Sets records of a replay apart, by the rule of files (``sojourn.sources.jumps``), as far as the log was read.

    What jumps is held until later rows show what it is: those of a log that continues there are more, and are returned
    with them; those of a log that goes back remain apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self._settled = together([])
        self._held: pl.DataFrame | None = None
        self._confirmed = 0

    def without(self, rows: pl.DataFrame, wall: datetime) -> pl.DataFrame:  # noqa: ARG002 - a replay has no clock
        """See ``Ahead``."""
        held = rows.clear() if self._held is None else self._held
        every = pl.concat([held, rows])
        slots = together([self._settled, slots_of(every.lazy())])
        of_log, of_rows = int(FEW * count_of(slots)), int(FEW * len(every))
        extent = extent_of(slots, min(of_log, max(of_rows, MOST_HELD)))
        if extent is None:
            inside, still, new = every, held.clear(), rows.clear()
        else:
            inside = every.filter(extent.is_inside)
            still, new = held.filter(~extent.is_inside), rows.filter(~extent.is_inside)
        if len(rows) > len(new):  # the log went back
            self._confirmed += len(still)
            still = still.clear()
        self._held = pl.concat([still, new])
        self._settled = together([self._settled, slots_of(inside.lazy())])
        self.total = self._confirmed + len(self._held)
        return inside

    @property
    def sentence(self) -> str:
        """See ``Ahead``."""
        if not self.total:
            return ""
        records = counted(self.total, "record was", "records were")
        return f"{records} left out: further from all others than these span. A clock was probably set."
