"""Measure how call durations grow with concurrent calls, to distinguish a shared queue from slow code.

A call to a first come, first served queue waits for the calls already present, so its duration grows with the number
of concurrent calls at its arrival. The duration of a call to slow code does not, as long as workers are free. The rank
correlation (Spearman 1904) distinguishes the two without assuming a functional form. In a shared queue, the duration
also grows with the concurrent calls of the *other* callers; with a separate queue for each caller it would not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.analyses.tiers.hops import Hops
from sojourn.model.arrays import Floats

FEWEST = 100  # minimum number of calls for a correlation
RISES = 0.3  # minimum rank correlation of durations that rise with the load
RATIO = 1.2  # and minimum ratio of the mean under the most load to that under the least
OTHERS = 0.15  # minimum rank correlation with the calls of other callers; each caller is only part of the load


@dataclass(frozen=True)
class LoadDependence:
    """Durations of the calls to one service, by the number of concurrent calls at their arrival.

    Attributes:
        service: the callee.
        opaque: it recorded no span; the duration is then that of the whole call.
        calls: number of calls.
        callers: (service, instance) of its callers, the one with the most calls first.
        correlation, with_others: rank correlation of the duration with the concurrent calls, and with those of other
            instances; None for too few calls, or without another instance.
        low, high: mean seconds of the third of the calls with the fewest concurrent calls, and with the most.
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
        """Return whether calls take longer under load; None for too few calls."""
        if self.correlation is None or self.low is None or self.high is None:
            return None
        return self.correlation >= RISES and self.high >= RATIO * self.low

    @property
    def shared(self) -> bool:
        """Return whether several instances call it, and the durations of each rise with the calls of the others."""
        return len(self.callers) > 1 and bool(self.rises) and (self.with_others or 0.0) >= OTHERS

    def to_dict(self) -> dict[str, object]:
        """Return plain values, as in the JSON."""
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


def load_dependences_of(hops: Hops) -> list[LoadDependence]:
    """Return one per callee, the one with the most calls first."""
    order = hops.calls.group_by("callee", "opaque").len().sort("len", "callee", descending=[True, False])
    return [_load_dependence(hops, callee, opaque) for callee, opaque, _ in order.iter_rows()]


def _load_dependence(hops: Hops, callee: str, opaque: bool) -> LoadDependence:
    calls = hops.calls.filter((pl.col("callee") == callee) & (pl.col("opaque") == opaque))
    # The callee's own time: without its calls and, if it is known, without the network.
    calls = calls.with_columns(
        took=pl.col("seconds")
        - pl.col("callee_downstream")
        - pl.when(pl.col("queueing").is_not_null()).then(pl.col("network")).otherwise(0.0)
    )
    callers = (
        calls.group_by("service", "instance").len().sort("len", "service", "instance", descending=[True, False, False])
    )
    begin, end, took = (calls[name].to_numpy() for name in ("start", "end", "took"))
    under_way = _under_way(begin, end)
    correlation = with_others = low = high = None
    if len(calls) >= FEWEST:
        correlation = _rank_correlation(under_way, took)
        third, order = max(len(took) // 3, 1), np.argsort(under_way, kind="stable")
        low, high = float(took[order[:third]].mean()), float(took[order[-third:]].mean())
        if len(callers) > 1:
            own = np.zeros(len(calls))
            codes = calls.select(pl.struct("service", "instance").rank("dense")).to_series().to_numpy()
            for code in np.unique(codes):
                same = codes == code
                own[same] = _under_way(begin[same], end[same])
            with_others = _rank_correlation(under_way - own, took)
    return LoadDependence(
        callee, opaque, len(calls), tuple(callers.select("service", "instance").iter_rows()), correlation, with_others,
        low, high, _by_load(under_way, took),
    )  # fmt: skip


def _under_way(begin: Floats, end: Floats) -> Floats:
    """Return for the begin of each interval the number of those that began before it and had not ended."""
    begun, ended = np.searchsorted(np.sort(begin), begin, "left"), np.searchsorted(np.sort(end), begin, "right")
    return (begun - ended).astype(float)


def _rank_correlation(one: Floats, other: Floats) -> float | None:
    ranks = pl.DataFrame({"one": one, "other": other}).select(pl.all().rank("average"))
    if ranks["one"].n_unique() < 2 or ranks["other"].n_unique() < 2:
        return None
    return float(ranks.select(pl.corr("one", "other")).item())


def _by_load(load: Floats, took: Floats) -> pl.DataFrame:
    width = max(int(np.ceil((load.max(initial=0.0) + 1) / 40)), 1)
    return (
        pl.DataFrame({"under_way": (load // width * width).astype(np.int64), "took": took})
        .group_by("under_way")
        .agg(calls=pl.len(), seconds=pl.col("took").mean())
        .sort("under_way")
    )
