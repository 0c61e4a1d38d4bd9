"""Whether a callee takes longer the more is asked of it at once, and by whom: a shared queue against slow code.

A call to a queue that is first come, first served waits for those already there, so what it takes follows the number
of calls under way when it arrives. What a call to slow code takes does not, as long as it has a worker of its own. The
rank correlation of the two (Spearman 1904) says which, without supposing a form. And where the queue is shared, the
calls that the *other* callers have under way count as well: each caller having a queue to itself, they would not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.analyses.tiers.hops import Hops

FEWEST = 100  # calls that a correlation is worked out from
RISES = 0.3  # rank correlation from which on more load is said to mean longer calls
RATIO = 1.2  # and the mean under the most load to that under the least, at least
OTHERS = 0.15  # rank correlation with the calls of the others; each caller sees only its part of the load

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """What calls to one service take, against how many were under way when they arrived.

    Attributes:
        service: the callee.
        opaque: it recorded no span of its own; what a call takes is then all of the call.
        calls: how many are known well enough.
        callers: (service, instance) of who calls it, the one with the most calls first.
        correlation, with_others: rank correlation of what a call takes with the calls under way, and with those of
            other instances; None of too few calls, or where there is no other.
        low, high: mean seconds a call took in the third that met the fewest calls under way, and the most.
        by_load: columns ``under_way`` (calls, at most 40 values, larger ones binned), ``calls``, ``seconds`` (mean).
    """

    service: str
    opaque: bool
    calls: int
    callers: tuple[tuple[str, str | None], ...]
    correlation: float | None
    with_others: float | None
    low: float | None
    high: float | None
    by_load: pl.DataFrame

    @property
    def rises(self) -> bool | None:
        """Whether calls take longer under load; None of too few."""
        if self.correlation is None or self.low is None or self.high is None:
            return None
        return self.correlation >= RISES and self.high >= RATIO * self.low

    @property
    def shared(self) -> bool:
        """Whether several instances call it, and what one of them waits for rises with the calls of the others."""
        return len(self.callers) > 1 and bool(self.rises) and (self.with_others or 0.0) >= OTHERS

    def to_dict(self) -> dict[str, object]:
        """As plain values."""
        return {
            "service": self.service,
            "opaque": self.opaque,
            "calls": self.calls,
            "callers": [{"service": service, "instance": instance} for service, instance in self.callers],
            "correlation": self.correlation,
            "with_others": self.with_others,
            "low": self.low,
            "high": self.high,
            "rises": self.rises,
            "shared": self.shared,
        }


def loads_of(hops: Hops) -> list[Load]:
    """One per callee, the one called most first."""
    order = hops.calls.group_by("callee", "opaque").len().sort("len", "callee", descending=[True, False])
    return [_load(hops, callee, opaque) for callee, opaque, _ in order.iter_rows()]


def _load(hops: Hops, callee: str, opaque: bool) -> Load:
    calls = hops.calls.filter((pl.col("callee") == callee) & (pl.col("opaque") == opaque))
    # What the callee itself took: neither what it waited for elsewhere nor, where it can be told, the network.
    calls = calls.with_columns(
        took=pl.col("seconds")
        - pl.col("callee_downstream")
        - pl.when(pl.col("queueing").is_not_null()).then(pl.col("network")).otherwise(0.0)
    )
    callers = (
        calls.group_by("service", "instance").len().sort("len", "service", "instance", descending=[True, False, False])
    )
    begin, end, took = (calls[name].to_numpy() for name in ("start", "end", "took"))
    under_way = _under_way(begin, begin, end)
    correlation = with_others = low = high = None
    if len(calls) >= FEWEST:
        correlation = _rank_correlation(under_way, took)
        low, high = _extremes(under_way, took)
        if len(callers) > 1:
            own = np.zeros(len(calls))
            codes = calls.select(pl.struct("service", "instance").rank("dense")).to_series().to_numpy()
            for code in np.unique(codes):
                mine = codes == code
                own[mine] = _under_way(begin[mine], begin[mine], end[mine])
            with_others = _rank_correlation(under_way - own, took)
    return Load(
        callee, opaque, len(calls), tuple(callers.select("service", "instance").iter_rows()), correlation, with_others,
        low, high, _by_load(under_way, took),
    )  # fmt: skip


def _under_way(at: Floats, begin: Floats, end: Floats) -> Floats:
    """Intervals begun before each instant, and not over then."""
    return (np.searchsorted(np.sort(begin), at, "left") - np.searchsorted(np.sort(end), at, "right")).astype(float)


def _rank_correlation(one: Floats, other: Floats) -> float | None:
    ranks = pl.DataFrame({"one": one, "other": other}).select(pl.all().rank("average"))
    if ranks["one"].n_unique() < 2 or ranks["other"].n_unique() < 2:
        return None
    return float(ranks.select(pl.corr("one", "other")).item())


def _extremes(load: Floats, took: Floats) -> tuple[float, float]:
    third = max(len(load) // 3, 1)
    order = np.argsort(load, kind="stable")
    return float(took[order[:third]].mean()), float(took[order[-third:]].mean())


def _by_load(load: Floats, took: Floats) -> pl.DataFrame:
    width = max(int(np.ceil((load.max(initial=0.0) + 1) / 40)), 1)
    return (
        pl.DataFrame({"under_way": (load // width * width).astype(np.int64), "took": took})
        .group_by("under_way")
        .agg(calls=pl.len(), seconds=pl.col("took").mean())
        .sort("under_way")
    )
