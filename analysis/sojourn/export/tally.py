"""Count requests: the histograms and counters, from the first request that was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.export.histograms import Histogram, Histograms
from sojourn.export.labels import Labels
from sojourn.export.metrics import BUCKETS, GROUP, HISTOGRAM, METRICS, STATUS_CLASSES, UNKNOWN
from sojourn.model.components import COMPONENTS, GIVEN_UP_STATUSES, SWITCHING_PROTOCOLS
from sojourn.model.frame import HALF_MICROSECOND
from sojourn.model.measures import ROUNDING
from sojourn.model.objective import Objective

COLUMNS_OF = {
    "sojourn_response_time_seconds": "request_time",
    "sojourn_queueing_delay_seconds": "queueing_delay",
    "sojourn_service_time_seconds": "service_time",
}
"""Histogram -> column of split rows."""

READ = (
    "time", "status", "request_time", "attempts", *GROUP, "trace_id", "proxied", "answered", "queue_source",
    "queueing_delay", "half_tick", "clock_tolerance", *COMPONENTS,
)  # fmt: skip
"""Columns of split rows that ``Tally.add`` reads."""

# Components between nginx's contact and its giving up.
_AT_UPSTREAM = ("connect", "queue", "service_time", "unattributed")
ABANDONED = pl.col("proxied") & ~pl.col("answered") & pl.col("status").is_in(GIVEN_UP_STATUSES)
_ABANDONED_SECONDS = pl.sum_horizontal(pl.col(name).fill_null(0.0) for name in _AT_UPSTREAM)


@dataclass(frozen=True)
class Sample:
    """One value of a counter or gauge, with its label values."""

    name: str
    labels: tuple[str, ...]
    value: float


class Tally:
    """Histograms and counters of the requests read.

    Args:
        labels: limit the label values.
        objectives: counted for each service.
        buckets: upper bounds of the classic histograms, s.
        by_status_class: whether histograms have the label ``status_class``; it is empty otherwise.
    """

    def __init__(
        self,
        labels: Labels,
        objectives: Sequence[Objective] = (),
        buckets: Sequence[float] = BUCKETS,
        *,
        by_status_class: bool = True,
    ) -> None:
        bounds = sorted({*buckets, *(objective.seconds for objective in objectives)})
        self.bounds = tuple(bounds)
        self.labels = labels
        self._objectives = tuple(objectives)
        self._by_status_class = by_status_class
        self._groups: dict[tuple[str, ...], int] = {}
        self._histograms = {metric.name: Histograms(bounds) for metric in METRICS if metric.kind == HISTOGRAM}
        self._counters: dict[str, dict[tuple[str, ...], float]] = {}

    def add(self, rows: pl.DataFrame) -> None:
        """Count split rows (columns ``READ``) with label values (``Labels.of``)."""
        if rows.is_empty():
            return
        self._count("sojourn_requests_total", rows, ("service", "upstream", "status"), pl.len())
        rows = rows.filter(pl.col("status") != SWITCHING_PROTOCOLS)
        status_class = (pl.col("status") // 100).clip(1, len(STATUS_CLASSES)).cast(pl.String) + "xx"
        rows = rows.with_columns(status_class=status_class if self._by_status_class else pl.lit(UNKNOWN))
        self._add_histograms(rows)
        proxied = rows.filter("proxied")
        # Sums over all, not over the matching rows: a counter begins at 0, and its first increase is seen.
        more = (pl.col("attempts") - 1).clip(0)
        self._count("sojourn_retries_total", proxied, GROUP, more.sum())
        self._count("sojourn_retry_seconds_total", proxied, GROUP, pl.col("retries").sum())
        self._count("sojourn_abandoned_requests_total", proxied, GROUP, ABANDONED.sum())
        seconds = pl.when(ABANDONED).then(_ABANDONED_SECONDS).otherwise(0.0)
        self._count("sojourn_abandoned_seconds_total", proxied, GROUP, seconds.sum())
        backend = ("service", "upstream")
        below = (-pl.col("queueing_delay")).clip(0)
        uncertain = pl.col("half_tick") + pl.col("clock_tolerance") + ROUNDING
        self._count("sojourn_negative_queueing_delays_total", proxied, backend, (below > uncertain).sum())
        self._count("sojourn_negative_queueing_delay_seconds_total", proxied, backend, below.sum())
        self._count("sojourn_queue_source_total", proxied, ("service", "queue_source"), pl.len())
        for objective in self._objectives:
            self._count_objective(rows, objective)

    def add_wasted(self, rows: pl.DataFrame) -> None:
        """Add the worker time (``span_seconds``, s) of abandoned requests, by the columns of ``GROUP``."""
        self._count("sojourn_wasted_seconds_total", rows, GROUP, pl.col("span_seconds").sum())

    def histograms(self) -> Iterator[tuple[str, tuple[str, ...], Histogram]]:
        """Yield name, label values and histogram of every group that has values."""
        names = list(self._groups)
        for name, histograms in self._histograms.items():
            for group, histogram in histograms.each():
                yield name, names[group], histogram

    def counters(self) -> Iterator[Sample]:
        """Yield the counters of requests."""
        for name, values in self._counters.items():
            for labels, value in values.items():
                yield Sample(name, labels, value)
        for label, count in self.labels.other.items():
            yield Sample("sojourn_other_label_total", (label,), count)

    def _add_histograms(self, rows: pl.DataFrame) -> None:
        keys = (*GROUP, "status_class")
        numbered = rows.with_columns(__group=pl.struct(keys).rank("dense") - 1)
        distinct = numbered.unique("__group").sort("__group").select(keys).rows()
        number = np.array([self._groups.setdefault(key, len(self._groups)) for key in distinct], np.int64)
        for name, column in COLUMNS_OF.items():
            measured = numbered.filter(pl.col(column).is_not_null())
            self._histograms[name].add(
                number[measured["__group"].to_numpy()],
                measured[column].to_numpy(),
                measured["trace_id"].to_list(),
                measured["time"].dt.epoch("us").to_numpy() / 1e6,
            )

    def _count_objective(self, rows: pl.DataFrame, objective: Objective) -> None:
        value = pl.col("request_time")
        if objective.measure == "queueing_delay":
            # A request that was abandoned in the queue has no other wait than the time until then.
            value = pl.coalesce("queueing_delay", pl.when(ABANDONED).then(_ABANDONED_SECONDS))
            rows = rows.filter("proxied")
        judged = rows.select("service", value=value).filter(pl.col("value").is_not_null())
        judged = judged.with_columns(
            objective=pl.lit(objective.text), met=pl.col("value") <= objective.seconds + HALF_MICROSECOND
        )
        keys = ("service", "objective")
        self._count("sojourn_objective_requests_total", judged, keys, pl.len())
        self._count("sojourn_objective_met_total", judged, keys, pl.col("met").sum())

    def _count(self, name: str, rows: pl.DataFrame, keys: Sequence[str], amount: pl.Expr) -> None:
        if rows.is_empty():
            return
        values = self._counters.setdefault(name, {})
        table = rows.group_by(keys).agg(__amount=amount.cast(pl.Float64))
        for *labels, value in table.iter_rows():
            key = tuple(UNKNOWN if label is None else str(label) for label in labels)
            values[key] = values.get(key, 0.0) + value
