"""The aggregates of a split, from a frame."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.components.expressions import component_sum
from sojourn.model.components import COMPONENTS, QUEUE_SOURCES, SWITCHING_PROTOCOLS
from sojourn.model.coverage import Coverage, waits_of
from sojourn.model.evidence import (
    NO_WAYS,
    Ways,
    evidence_columns,
    evidence_of,
    idle_ways,
    is_way_possible,
    with_evidence,
)
from sojourn.model.figures import Summary
from sojourn.model.frame import INSTANT
from sojourn.model.groups import route_name
from sojourn.model.measures import (
    EDGE,
    GROUP_COLUMNS,
    ROUNDING,
    STATUS_CLASSES,
    SUMMARY_COLUMNS,
    Hexagons,
    LogBins,
    Means,
    Measures,
    Row,
    exceeding_ranks,
    microseconds_between,
)
from sojourn.model.one_worker import FEW, LOOKED_AT, TICKS, Overlap, app_instants, overlaps
from sojourn.model.parallel import in_threads
from sojourn.model.statistics import summaries, summaries_by
from sojourn.sources import frame_bins as binned
from sojourn.sources import out_of_core as large
from sojourn.sources.coverage_rows import coverage_of_frame, wait_columns
from sojourn.sources.frame_bins import PART_SUMS

_STAMP_US = pl.col("request_start").dt.epoch("us")
DIFFERENCE = "difference"  # of the two estimates of a queueing delay: by the stamp, and by durations
_SUMMARISED = ("request_time", *SUMMARY_COLUMNS, DIFFERENCE)
SERVED = pl.col("status") != SWITCHING_PROTOCOLS
INSTANT_US = {
    "time": pl.col("time").dt.epoch("us"),
    "request_start": _STAMP_US,
    "app_start": _STAMP_US + (pl.col("app_queueing_delay") * 1e6).round().cast(pl.Int64),
}


def _tolerance(component: str) -> pl.Expr:
    """Return how far below 0 a component may be without counting as negative, s: by the resolution of the clocks."""
    return pl.col("half_tick") + pl.col("clock_tolerance") + ROUNDING if component == "queue" else pl.lit(ROUNDING)


_CHECKED = {
    "error": (component_sum() - pl.col("request_time")).abs().max().fill_null(0.0),
    **{f"negative/{name}": (pl.col(name) < -_tolerance(name)).sum() for name in COMPONENTS},
    "garbled": pl.col("app_garbled").sum(),
    "first": pl.col("start").min(),
    "last": pl.col("start").max(),
    **{f"{name}/count": instant.count() for name, instant in INSTANT_US.items()},
}


def measured(rows: pl.LazyFrame | Measures) -> Measures:
    """Return the aggregates of ``rows`` for the split; aggregates are returned unchanged."""
    return FrameMeasures(rows) if isinstance(rows, pl.LazyFrame) else rows


def without_upgraded(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows without status 101, whose request time is the lifetime of the connection."""
    return rows.filter(SERVED)


class FrameMeasures:
    """``Measures`` of a frame as ``split_rows`` makes it; attributes as there."""

    def __init__(
        self, rows: pl.LazyFrame, clock: pl.DataFrame | None = None, duplicates: int = 0, count: int | None = None
    ) -> None:
        """``count``: of the rows, where they lie on disk and figures are to be made a column at a time."""
        self.clock = pl.DataFrame() if clock is None else clock
        self.notes: list[str] = []
        self.duplicates = duplicates
        self._rows = rows
        self.count = count
        self._served = without_upgraded(rows)

    def overall(self) -> Row:
        """See ``Measures``."""
        upgraded = pl.col("status") == SWITCHING_PROTOCOLS
        return _row(
            self._rows.select(
                pl.len().alias("requests"),
                upgraded.sum().alias("upgraded"),
                pl.col("start").min().alias("first"),
                pl.col("time").max().alias("last"),
                pl.col("wasted").sum().alias("wasted"),
                *((pl.col("queue_source") == s).sum().alias(f"source/{s}") for s in QUEUE_SOURCES),
                (pl.col("attempts") > 1).sum().alias("several"),
                *((pl.col("status") // 100 == each).sum().alias(f"class/{each}") for each in STATUS_CLASSES),
            )
        )

    def figures(self) -> dict[str, Summary]:
        """See ``Measures``."""
        return {name: figures for name, figures in self._summaries.items() if name != DIFFERENCE}

    @functools.cached_property
    def _summaries(self) -> dict[str, Summary]:
        """The figures of the columns of ``figures`` and of ``DIFFERENCE``, from one pass over the rows."""
        rows = self._with_difference
        if self.count is None:
            return summaries(without_upgraded(rows), _SUMMARISED)
        quantiles = large.summaries(
            rows, self.count, {name: pl.when(SERVED).then(pl.col(name)) for name in _SUMMARISED}
        )
        return {name: _whole(figures[0], self._sums, name) for name, figures in quantiles.items()}

    @property
    def _with_difference(self) -> pl.LazyFrame:
        difference = pl.when(pl.col("queue_source") == "stamp").then(pl.col("queue") - pl.col("queue_by_duration"))
        return self._rows.with_columns(difference.alias(DIFFERENCE))

    @functools.cached_property
    def _sums(self) -> Row:
        """The means, what is checked, and the ends of all requests: to read the columns costs more than to sum them."""
        checked = (value.alias(name) for name, value in _CHECKED.items())
        ends = _mean_and_max(_SUMMARISED) if self.count is not None else ()
        return self._means_of(without_upgraded(self._with_difference), *checked, *ends)

    def means(self, at_least: float | None = None) -> Means:
        """See ``Measures``."""
        if at_least is None:
            row = self._sums
        else:
            row = self._means_of(self._served.filter(pl.col("request_time") >= at_least))
        components_of_row = {name: row[name] or 0.0 for name in COMPONENTS}
        return Means(row["requests"], components_of_row, evidence_of(row), waits_of(row["requests"], row))

    def _means_of(self, rows: pl.LazyFrame, *others: pl.Expr) -> Row:
        """Return the values that ``means`` are made of, and ``others`` of the same rows."""
        components = (pl.col(name).fill_null(0.0).mean() for name in COMPONENTS)
        means = (*components, *evidence_columns(self._ways), *wait_columns())
        return _row(with_evidence(rows).select(pl.len().alias("requests"), *means, *others))

    @functools.cached_property
    def _ways(self) -> Ways:
        """The ways to backends, where a clock's offset is not known well: only there can a way be long."""
        return idle_ways(self._served, self.clock) if is_way_possible(self.clock) else NO_WAYS

    def _grouped_rows(self, group: str) -> pl.LazyFrame:
        """Return the rows with the names of their groups: of routes with their service, where there are several."""
        return self._rows.with_columns(route_name(self._rows)) if group == "route" else self._rows

    def grouped(self, group: str, limit: int) -> tuple[list[Row], int]:
        """See ``Measures``."""
        rows = self._grouped_rows(group)
        served = without_upgraded(rows)
        table = (
            served.group_by(group)
            .agg(
                pl.len().alias("requests"),
                pl.col("request_time").sum().alias("seconds"),
                group_share(),
                *(_mean_and_max(GROUP_COLUMNS) if self.count is not None else ()),
            )
            .sort("seconds", group, descending=[True, False], nulls_last=True)
            .collect(engine="streaming")
        )
        largest = table.head(limit)
        if self.count is None:
            figures = summaries_by(served, largest.select(group), GROUP_COLUMNS)
        else:
            groups = large.Groups.of(rows, self.count, largest.select(group), SERVED)
            quantiles = large.summaries(rows, self.count, {name: pl.col(name) for name in GROUP_COLUMNS}, groups)
            figures = {
                column: [_whole(each, ends, column) for each, ends in zip(part, largest.to_dicts(), strict=True)]
                for column, part in quantiles.items()
            }
        groups_of = largest.select(group, "requests", "seconds", "share").to_dicts()
        for column, each in figures.items():
            for row, own in zip(groups_of, each, strict=True):
                row.update({f"{column}/{figure}": value for figure, value in own.items()})
        return groups_of, len(table)

    def grouped_each(self, groups: Sequence[str], limit: int) -> list[tuple[list[Row], int]]:
        """See ``Measures``."""
        if self.count is not None:
            return [self.grouped(group, limit) for group in groups]
        return in_threads(lambda group: self.grouped(group, limit), groups)

    def checks(self) -> Row:
        """See ``Measures``."""
        ticks = {
            f"{name}/{tick}": (instant % tick == 0).all() for name, instant in INSTANT_US.items() for tick in TICKS
        }
        # The first instants rule out most ticks.
        possible = [name for name, holds in _row(self._served.head(FEW).select(**ticks)).items() if holds]
        holds = _row(self._served.select(ticks[name].alias(name) for name in possible)) if possible else {}
        summaries = self._summaries
        ranked = {"differ": summaries[DIFFERENCE]["p50"], "p99": summaries["request_time"]["p99"]}
        sums = {name: self._sums[name] for name in _CHECKED}
        return {**dict.fromkeys(ticks, False), **holds, **sums, **ranked, "duplicates": self.duplicates}

    def between(self, begin: datetime, end: datetime) -> FrameMeasures:
        """See ``Measures``."""
        arrived = (pl.col("start") >= pl.lit(begin, INSTANT)) & (pl.col("start") < pl.lit(end, INSTANT))
        rows = self._rows.filter(arrived)
        count = None if self.count is None else int(rows.select(pl.len()).collect().item())
        return FrameMeasures(rows, self.clock, 0, count)

    def coverage(self) -> Coverage:
        """See ``Measures``."""
        return coverage_of_frame(self._served)

    def phases(self, instant: str, tick: int) -> int:
        """See ``Measures``."""
        digit = INSTANT_US[instant] // tick % 10
        return int(self._served.select(digit.drop_nulls().n_unique()).collect(engine="streaming").item())

    def little(self, begin: datetime, seconds: float) -> Row:
        """See ``Measures``."""

        def position(column: str) -> pl.Expr:
            return ((pl.col(column) - pl.lit(begin, INSTANT)).dt.total_microseconds() / (seconds * 1e6)).clip(0, 1)

        weight = pl.min_horizontal(position("start"), 1 - position("start"), pl.lit(EDGE)) / EDGE
        return _row(
            self._served.select(
                (_weight_until(position("time")) - _weight_until(position("start"))).sum().alias("present"),
                (weight > ROUNDING).sum().alias("arrivals"),
                weight.sum().alias("weight"),
                (weight * pl.col("request_time")).sum().alias("response"),
            )
        )

    def windows(self, begin: datetime, end: datetime, count: int) -> pl.DataFrame:
        """See ``Measures``."""
        since = (pl.col("start") - pl.lit(begin, INSTANT)).dt.total_microseconds()
        window = (since * count // microseconds_between(begin, end)).alias("window")
        return (
            self._served.filter((pl.col("start") >= begin) & (pl.col("start") < end))
            .group_by(window)
            .agg(pl.len().alias("arrivals"), pl.col("request_time").mean().alias("response time"))
            .sort("window")
            .collect(engine="streaming")
        )

    def backends(self, first: datetime) -> tuple[float, list[tuple[str | None, int, float]]]:
        """See ``Measures``."""
        # Work for clients already gone, and streaming, go on after nginx has written its line: the span knows how long.
        held_until = pl.max_horizontal(
            "time", pl.col("span_start") + pl.duration(microseconds=pl.col("span_seconds") * 1e6)
        )
        table = (
            self._served.filter(pl.col("proxied"))
            .with_columns(busy=pl.coalesce("span_seconds", "service_time"))
            .group_by("upstream")
            .agg(
                pl.col("worker").n_unique() - pl.col("worker").is_null().any(),
                pl.col("busy").sum(),
                ((held_until.max() - pl.lit(first)).dt.total_microseconds() / 1e6).alias("span"),
            )
            .sort("upstream")
            .collect(engine="streaming")
        )
        seconds = table["span"].max()
        return (
            seconds if isinstance(seconds, float) else 0.0,
            list(table.select("upstream", "worker", "busy").iter_rows()),
        )

    def overlaps(self) -> dict[str | None, Overlap]:
        """See ``Measures``."""
        services = (
            self._served.filter(pl.col("proxied"))
            .select("upstream", "worker", *app_instants())
            .drop_nulls(["worker", "begin", "end"])
        )
        measured = overlaps(services.head(LOOKED_AT).collect(engine="streaming"))
        return {name: overlap for name, (overlap, _) in measured.items()}

    def response_range(self) -> tuple[float, float] | None:
        """See ``Measures``."""
        value = pl.col("request_time")
        low, high = _row(self._served.select(value.min().alias("low"), value.max().alias("high"))).values()
        return None if low is None else (low, high)

    def response_bins(self, low: float, width: float, *, logarithmic: bool, count: int) -> pl.DataFrame:
        """See ``Measures``."""
        value = pl.col("request_time")
        index = (pl.max_horizontal(value, pl.lit(low)) / low).log() / width if logarithmic else (value - low) / width
        return (
            self._served.group_by(index.floor().clip(0, count - 1).cast(pl.Int32).alias("bin"))
            .agg(
                pl.len().alias("requests"),
                value.sum().alias("total"),
                *(expr.sum().alias(part) for part, expr in PART_SUMS.items()),
            )
            .sort("bin")
            .collect(engine="streaming")
        )

    def exceeding(self, column: str, points: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """See ``Measures``."""
        values = self._served.select(pl.col(column).drop_nulls().sort()).collect(engine="streaming").to_series()
        ranks = exceeding_ranks(len(values), points)
        return values.to_numpy()[ranks], (len(values) - ranks) / len(values) if len(values) else np.array([])

    def parts_by(self, group: str, limit: int) -> pl.DataFrame:
        """See ``Measures``."""
        return (
            without_upgraded(self._grouped_rows(group))
            .group_by(pl.col(group).cast(pl.String).fill_null("–").alias("group"))
            .agg(
                pl.len().alias("requests"),
                pl.col("request_time").sum().alias("total"),
                pl.col("request_time").mean().alias("response"),
                *(expr.mean().alias(part) for part, expr in PART_SUMS.items()),
            )
            .sort("total", "group", descending=[True, False])
            .head(limit)
            .collect(engine="streaming")
        )

    def parts_over_time(self, windows: int, *, p99: bool = True) -> pl.DataFrame:
        """See ``Measures``."""
        _, arrived = binned.windowed(self._served, windows)
        return (
            self._served.group_by(arrived.alias("arrived"))
            .agg(
                pl.len().alias("requests"),
                *([pl.col("request_time").quantile(0.99, "linear").alias("p99")] if p99 else []),
                pl.col("request_time").mean().alias("response"),
                *(expr.mean().alias(part) for part, expr in PART_SUMS.items()),
            )
            .sort("arrived")
            .collect(engine="streaming")
        )

    def quantiles(self, column: str, levels: Sequence[float]) -> list[float | None]:
        """See ``Measures``."""
        return binned.quantiles(self._served, column, levels)

    def counts_over_time(self, column: str, windows: int, bins: LogBins) -> tuple[timedelta, pl.DataFrame]:
        """See ``Measures``."""
        return binned.counts_over_time(self._served, column, windows, bins)

    def bins_by(self, group: str, limit: int, column: str, bins: LogBins) -> pl.DataFrame:
        """See ``Measures``."""
        return binned.bins_by(without_upgraded(self._grouped_rows(group)), group, limit, column, bins)

    def hexagons(self, lattice: Hexagons) -> pl.DataFrame:
        """See ``Measures``."""
        return binned.hexagons(self._served, lattice)


def group_share() -> pl.Expr:
    """Return the share of queueing of a group's seconds, of requests whose wait is known; null where of none."""
    delay, proxied = pl.col("queueing_delay"), pl.col("proxied")
    seconds = pl.col("request_time").filter(delay.is_not_null() | ~proxied).sum()
    has_delay = ~proxied.any() | (delay.count() > 0)
    return pl.when((seconds != 0) & has_delay).then(delay.fill_null(0.0).sum() / seconds).alias("share")


def _mean_and_max(columns: Sequence[str]) -> list[pl.Expr]:
    return [
        expr.alias(f"{column}/{name}")
        for column in columns
        for name, expr in (("mean", pl.col(column).mean()), ("max", pl.col(column).max()))
    ]


def _whole(quantiles: Summary, ends: Row, column: str) -> Summary:
    """Return the figures of a column from its quantiles and a row of ``_mean_and_max``."""
    return {"mean": ends[f"{column}/mean"], **quantiles, "max": ends[f"{column}/max"]}


def _row(rows: pl.LazyFrame) -> Row:
    return rows.collect(engine="streaming").row(0, named=True)


def _weight_until(x: pl.Expr) -> pl.Expr:
    """Return the integral of the trapezoid from 0 to x, both as parts of the window."""
    return (
        pl.when(x < EDGE).then(x * x / (2 * EDGE))
        .when(x <= 1 - EDGE).then(x - EDGE / 2)
        .otherwise(1 - EDGE - (1 - x) * (1 - x) / (2 * EDGE))
    )  # fmt: skip
