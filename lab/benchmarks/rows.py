"""What a benchmark found: rows against peers, and how costs grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        repeats: rounds of every pair; medians are taken over them.
        scale: part of the full size (1.0: the sizes named in the rows); a trial run takes less.
        folder: a place for what is made, gone afterwards.
        progress: told what is being measured.
    """

    repeats: int
    scale: float
    folder: Path
    progress: Callable[[str], None]

    def sized(self, full: int, least: int = 1) -> int:
        """A number of lines, requests, rows … at this scale."""
        return max(round(full * self.scale), least)


@dataclass(frozen=True)
class Row:
    """Ours beside a peer's, measured in the same run, one right after the other.

    Attributes:
        what: what was done, its size included.
        unit: of ``ours`` and ``theirs``.
        ours: median of ours.
        peer: whom it is compared with; empty where there is none and only a bound.
        theirs: median of the peer's.
        ratio: median over the rounds of ours / theirs, or of theirs / ours where ``times``.
        low, high: the smallest and the largest ratio of a round.
        times: the ratio says how many times faster (or more) than the peer we are; otherwise what part of the peer's.
        goal: what the ratio (or ``ours``, without a peer) was to be, at least or at most; None: none was set.
        at: whether ``goal`` is a floor (``least``) or a ceiling (``most``).
        peak_mb: most memory of ours, MB; peer_mb: of the peer.
        note: what a reader must know; for a goal that was missed, why.
    """

    what: str
    unit: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    times: bool = False
    goal: float | None = None
    at: Literal["least", "most"] = "least"
    peak_mb: float | None = None
    peer_mb: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        return value >= self.goal if self.at == "least" else value <= self.goal


@dataclass(frozen=True)
class Slope:
    """How a cost grows: the slope of its logarithm over that of a size; 1 is linear.

    Attributes:
        what: what was done.
        against: requests, backends, routes, ….
        sizes, costs: what was measured; unit: of the costs.
        note: for a slope above 1.1, why.
    """

    what: str
    against: str
    sizes: tuple[float, ...]
    costs: tuple[float, ...]
    unit: str = "s"
    note: str = ""

    @property
    def slope(self) -> float:
        """Least squares through the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.costs), 1)[0])


@dataclass
class Found:
    """What one suite found.

    Attributes:
        versions: name -> version of what took part, peers included.
        skipped: what could not be measured here, and why.
    """

    rows: list[Row] = field(default_factory=list)
    slopes: list[Slope] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; ``met`` and ``slope`` are there as well."""
        return {
            "rows": [{**asdict(row), "met": row.met} for row in self.rows],
            "slopes": [{**asdict(each), "slope": each.slope} for each in self.slopes],
            "versions": self.versions,
            "skipped": self.skipped,
        }
