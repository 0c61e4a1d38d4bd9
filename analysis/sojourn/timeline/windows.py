"""Time windows of one width, at whole multiples of it since the epoch, so that several logs share them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from sojourn.model.arrays import Floats, Ints

MOST = 240
WIDTHS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Windows:
    """``count`` windows of ``seconds`` each; the first begins ``begin`` seconds after ``base``."""

    base: datetime
    begin: float
    seconds: float
    count: int

    @classmethod
    def over(cls, base: datetime, first: float, last: float, *, seconds: float | None = None) -> Windows:
        """Return windows that cover every instant from ``first`` to ``last``.

        Args:
            base: the instant that ``first`` and ``last`` count from.
            first: first instant, s.
            last: last instant, s.
            seconds: width; None: the smallest of ``WIDTHS`` (beyond: whole days) with at most ``MOST`` windows.
        """
        if seconds is None:
            least = (last - first) / (MOST - 1)
            seconds = next((width for width in WIDTHS if width >= least), math.ceil(least / 86400) * 86400)
        # The offset of the base in its window, from whole microseconds: floats since the epoch are not exact.
        width = timedelta(seconds=seconds)
        into = ((base - EPOCH) % width) / timedelta(seconds=1)
        begin = math.floor((first + into) / seconds) * seconds - into
        return cls(base, begin, seconds, max(math.floor((last - begin) / seconds) + 1, 1))

    def of(self, instants: Floats) -> Ints:
        """Return the window of each instant; instants outside belong to the first or the last window."""
        return np.clip(np.floor((instants - self.begin) / self.seconds), 0, self.count - 1).astype(np.int64)

    @property
    def edges(self) -> Floats:
        """``count`` + 1 instants, s after ``base``."""
        return self.begin + self.seconds * np.arange(self.count + 1, dtype=np.float64)

    @property
    def begins(self) -> list[datetime]:
        """The begin of each window."""
        return [self.base + timedelta(seconds=round(float(edge), 6)) for edge in self.edges[:-1]]
