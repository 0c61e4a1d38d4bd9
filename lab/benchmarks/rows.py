"""Results of a benchmark: rows against peers, and how costs grow."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.measure import ratio_of


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement.

    Attributes:
        repeats: rounds of every pair; medians are taken over them.
        scale: part of the full size (1.0: the sizes named in the rows); a trial run uses less.
        folder: for temporary files; removed afterwards.
        progress: called with the name of each measurement.
    """

    repeats: int
    scale: float
    folder: Path
    progress: Callable[[str], None]

    def sized(self, full: int, least: int = 1) -> int:
        """Return a number of lines, requests, rows … at this scale."""
        return max(round(full * self.scale), least)


@dataclass(frozen=True)
class Row:
    """A figure of Sojourn and of a peer, measured in the same run, one right after the other.

    Attributes:
        what: the task, its size included.
        unit: of ``ours`` and ``theirs``.
        ours: median of Sojourn's figure.
        peer: name of the peer; empty if there is only a bound.
        theirs: median of the peer's figure.
        ratio: median over the rounds of ours / theirs, or of theirs / ours where ``times``.
        low, high: the smallest and the largest ratio of a round.
        times: whether the ratio is how many times faster (or more) than the peer Sojourn is, else a part of the peer's.
        goal: what the ratio (or ``ours``, without a peer) should be, at least or at most; None: no goal.
        at: whether ``goal`` is a floor (``least``) or a ceiling (``most``).
        peak_mb: peak memory of Sojourn, MB.
        peer_mb: peak memory of the peer, MB.
        note: a remark; for a missed goal, the reason.
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
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        return value >= self.goal if self.at == "least" else value <= self.goal


def added_row(what: str, bare: Sequence[float], measured: Sequence[float], *, goal: float, note: str) -> Row:
    """Return the row of what a middleware adds to a request.

    Args:
        what: the middleware and what it records.
        bare: processor time of a request without it, in each round, µs.
        measured: the same with it.
        goal: the most that it should add, µs.
        note: a remark.
    """
    added = [one - base for one, base in zip(measured, bare, strict=True)]
    return Row(
        f"{what}, added to a request",
        "µs",
        statistics.median(added),
        low=min(added),
        high=max(added),
        goal=goal,
        at="most",
        note=note,
    )


def compared_row(
    what: str, unit: str, ours: Sequence[float], peer: str, theirs: Sequence[float], *, inverse: bool = False,
    **details: Any,
) -> Row:  # fmt: skip
    """Return the row of Sojourn beside a peer.

    Args:
        what: the task, its size included.
        unit: of the figures.
        ours: figure of Sojourn in each round.
        peer: name of the peer.
        theirs: figure of the peer in each round.
        inverse: whether the ratio is theirs / ours.
        details: other fields of the row.
    """
    ratio, low, high = ratio_of(theirs, ours) if inverse else ratio_of(ours, theirs)
    return Row(what, unit, statistics.median(ours), peer, statistics.median(theirs), ratio, low, high, **details)


@dataclass(frozen=True)
class Slope:
    """How a cost grows: the slope of its logarithm over that of a size; 1 is linear.

    Attributes:
        what: the task.
        against: requests, backends, routes, ….
        sizes, costs: measured points.
        unit: of the costs.
        note: for a slope above 1.1, the reason.
        goal: what the slope should be at most; None: no goal.
    """

    what: str
    against: str
    sizes: tuple[float, ...]
    costs: tuple[float, ...]
    unit: str = "s"
    note: str = ""
    goal: float | None = None

    @property
    def slope(self) -> float:
        """The slope by least squares through the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.costs), 1)[0])

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, to two decimals; None without a goal."""
        return None if self.goal is None else round(self.slope, 2) <= self.goal


@dataclass
class Measurements:
    """The measurements of one suite.

    Attributes:
        rows: the figures.
        slopes: how costs grow.
        versions: name -> version of the programs, peers included.
        skipped: measurements that this machine cannot run, with the reason.
    """

    rows: list[Row] = field(default_factory=list)
    slopes: list[Slope] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements for JSON, ``met`` and ``slope`` included."""
        return {
            "rows": [{**asdict(row), "met": row.met} for row in self.rows],
            "slopes": [{**asdict(each), "slope": each.slope, "met": each.met} for each in self.slopes],
            "versions": self.versions,
            "skipped": self.skipped,
        }
