"""Windows of load: offered load, throughput, requests in system and response time.

A window holds the requests that arrived in it. Its concurrency is the number of requests in the system, averaged over
the window; a longer request counts in every window that it overlaps. Two things aggregate: a frame (here) and a
store (``sojourn.analyses.capacity.store``), which sends one row a window and never a request. ``finished``
makes the windows of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import polars as pl

from sojourn.model.components import failed
from sojourn.model.errors import SojournError
from sojourn.model.figures import QUANTILES
from sojourn.model.frame import INSTANT
from sojourn.model.measures import microseconds_between
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.silences import EXPECTED, SHORTEST, Silence, clause, silences

WINDOWS = 60  # about as many, unless a width is given
NICE = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)  # s
RESPONSES = 4  # mean response times that a window is long, at the least: what is begun in it should end in it

# What is aggregated by instance and window; instants and lengths in whole microseconds.
RAW: dict[str, pl.DataType] = {
    "instance": pl.String(),
    "window": pl.Int64(),
    "arrivals": pl.Int64(),
    "arrived_left": pl.Int64(),  # sum over arrivals of what was left of the window
    "departures": pl.Int64(),
    "departed_left": pl.Int64(),
    "followed": pl.Int64(),  # arrivals after a departure in the same window
    "age": pl.Int64(),  # sum over them of the time since the last departure
    "gaps": pl.Int64(),  # sum of the gaps between departures in the window
    "gaps_squared": pl.Float64(),  # s^2
    "failed": pl.Int64(),
    "mean": pl.Float64(),
    **dict.fromkeys(QUANTILES, pl.Float64()),
}


@dataclass(frozen=True)
class Extent:
    """The requests to be divided into windows: number, first and last arrival, mean response time (s)."""

    requests: int
    first: datetime
    last: datetime
    mean: float
    upstreams: int

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return microseconds_between(self.first, self.last) / 1e6


@dataclass(frozen=True)
class LoadWindows:
    """Return windows of load, complete ones only, without windows that have no arrival.

    Attributes:
        begin: of window 0: the first arrival.
        width: s.
        table: one row per instance and window. Columns: instance (text, empty for the whole system), window,
            arrivals, rate (arrivals/s), throughput (completions/s), concurrency (mean in system), errors (share that
            failed: 5xx or 499), mean, p50, p90, p99, p999 (response time of those that arrived, s), and the sums of
            ``RAW`` that show a closed loop.
        requests: all of them, those at the end that fill no window included.
        upstreams: distinct addresses that served.
        by_instance: instances are upstream addresses.
        whole: the same table of the system as one, where instances are separate: clients of a closed loop go from one
            to another.
        notes: what to know of how the figures were made.
    """

    begin: datetime
    width: float
    table: pl.DataFrame
    requests: int
    upstreams: int
    by_instance: bool = False
    whole: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()


def load_windows(rows: pl.LazyFrame, *, width: float | None = None, by_instance: bool = False) -> LoadWindows:
    """Return the windows of a frame with at least time, start, status, request_time and upstream.

    Args:
        rows: canonical or split rows; upgraded connections (101) are left out.
        width: s; None: ``usual_width``.
        by_instance: every upstream address on its own; what was never proxied is left out.

    Raises:
        SojournError: there is no request, or not one whole window.
    """
    served = without_upgraded(rows)
    if by_instance:
        served = served.filter(pl.col("upstream").is_not_null())
    start = pl.col("start")
    row = served.select(
        requests=pl.len(),
        first=start.min(),
        last=start.max(),
        mean=pl.col("request_time").mean(),
        upstreams=pl.col("upstream").drop_nulls().n_unique(),
    )
    span = extent(row.collect(engine="streaming").row(0, named=True))
    micros = width_of(span, width)
    raws = [_raw(served, span, micros, instance) for instance in instances(by_instance)]
    whole = finished(raws, span, micros, by_instance=by_instance)
    since = (pl.col("start", "time") - pl.lit(span.first, INSTANT)).dt.total_microseconds() / 1e6
    instants = served.select(since).collect(engine="streaming")
    return without_silences(whole, silences(instants["start"].to_numpy(), instants["time"].to_numpy()))


def empty_stretches(windows: LoadWindows) -> list[Silence]:
    """Return stretches of windows without an arrival, although the windows before and after have many.

    What is shorter than a window is not found.
    """
    table = windows.table if windows.whole is None else windows.whole
    number, arrivals = table["window"].to_numpy(), table["arrivals"].to_numpy()
    gaps = np.flatnonzero(np.diff(number) > 1)
    many = np.minimum(arrivals[gaps], arrivals[gaps + 1]) * (np.diff(number)[gaps] - 1) >= EXPECTED
    return [
        Silence(float(number[gap] + 1) * windows.width, float(number[gap + 1]) * windows.width)
        for gap in gaps[many].tolist()
        if (number[gap + 1] - number[gap] - 1) * windows.width >= SHORTEST
    ]


def without_silences(windows: LoadWindows, silent: Sequence[Silence]) -> LoadWindows:
    """Return windows without those that lie in a stretch without a line, or touch it, and with a note that says so.

    Raises:
        SojournError: there is no other window.
    """
    if not silent:
        return windows

    def outside_silences(table: pl.DataFrame) -> pl.DataFrame:
        begin = table["window"].to_numpy() * windows.width
        outside = np.ones(len(table), np.bool_)
        for each in silent:
            outside &= (begin + windows.width < each.begin) | (begin > each.end)
        return table.filter(pl.Series(outside, dtype=pl.Boolean))

    table = outside_silences(windows.table)
    if table.is_empty():
        raise SojournError(f"no window of load is left: {clause(silent)}; choose a part with --since and --until")
    note = f"Not counted: windows of load in which {clause(silent)}."
    return replace(
        windows,
        table=table,
        whole=None if windows.whole is None else outside_silences(windows.whole),
        notes=(note, *windows.notes),
    )


def instances(by_instance: bool) -> tuple[str | None, ...]:
    """Return the columns by which windows are aggregated, the selected one first; None: the system as one."""
    return ("upstream", None) if by_instance else (None,)


def _raw(served: pl.LazyFrame, extent: Extent, micros: int, column: str | None) -> pl.DataFrame:
    """Return columns ``RAW`` by the instances of a column."""
    since = pl.lit(extent.first, INSTANT)
    instance = pl.lit("") if column is None else pl.col(column)
    start = pl.col("start")

    def events(instant: str, *, arrives: bool) -> pl.LazyFrame:
        at = (pl.col(instant) - since).dt.total_microseconds()
        return served.select(instance.alias("instance"), at.alias("at"), pl.lit(arrives).alias("arrives"))

    keys = ["instance", "window"]
    arrives, at = pl.col("arrives"), pl.col("at")
    left = micros - at % micros
    # At one instant departures come first: a client that goes on at once follows the departure.
    before = pl.when(~arrives).then(at).shift(1).forward_fill().over(keys, order_by=["at", "arrives"])
    moves = (
        pl.concat([events("start", arrives=True), events("time", arrives=False)])
        .with_columns(window=at // micros)
        .with_columns(before=before)
        .with_columns(since=at - pl.col("before"))
        .group_by(keys)
        .agg(
            arrives.sum().cast(pl.Int64).alias("arrivals"),
            left.filter(arrives).sum().alias("arrived_left"),
            (~arrives).sum().cast(pl.Int64).alias("departures"),
            left.filter(~arrives).sum().alias("departed_left"),
            pl.col("since").filter(arrives).count().cast(pl.Int64).alias("followed"),
            pl.col("since").filter(arrives).sum().alias("age"),
            pl.col("since").filter(~arrives).sum().alias("gaps"),
            ((pl.col("since").filter(~arrives) / 1e6) ** 2).sum().alias("gaps_squared"),
        )
    )
    response = pl.col("request_time")
    responses = served.group_by(
        instance.alias("instance"), ((start - since).dt.total_microseconds() // micros).alias("window")
    ).agg(
        failed(pl.col("status")).sum().cast(pl.Int64).alias("failed"),
        response.mean().alias("mean"),
        *(response.quantile(level, "linear").alias(name) for name, level in QUANTILES.items()),
    )
    return moves.join(responses, on=keys, how="left").select(*RAW).collect(engine="streaming")


def extent(row: dict[str, object]) -> Extent:
    """Return the extent from a row with its columns.

    Raises:
        SojournError: there are no requests.
    """
    if not row["requests"]:
        raise SojournError("no requests to count: none was proxied, or all are upgraded connections (101)")
    return Extent(**row)  # type: ignore[arg-type]


def usual_width(extent: Extent) -> float:
    """Return the width (s) for about ``WINDOWS`` windows, each much longer than a response."""
    least = max(extent.seconds / WINDOWS, RESPONSES * extent.mean)
    return next((float(width) for width in NICE if width >= least), least)


def width_of(extent: Extent, width: float | None) -> int:
    """Return the width in whole microseconds.

    Raises:
        SojournError: the requests do not fill one window.
    """
    seconds = usual_width(extent) if width is None else width
    micros = max(round(seconds * 1e6), 1)
    if extent.seconds * 1e6 < micros:
        raise SojournError(
            f"all requests arrived within {extent.seconds:.1f} s, which is less than one window of {seconds:g} s; "
            "give a longer log or a smaller --window"
        )
    return micros


def finished(
    raws: Sequence[pl.DataFrame], extent: Extent, micros: int, *, by_instance: bool, notes: tuple[str, ...] = ()
) -> LoadWindows:
    """Return the windows from aggregates (columns ``RAW``), whole and by instance; ``micros``: their width, us."""
    tables = [_table(raw, microseconds_between(extent.first, extent.last) // micros, micros) for raw in raws]
    return LoadWindows(
        begin=extent.first,
        width=micros / 1e6,
        table=tables[0],
        requests=extent.requests,
        upstreams=extent.upstreams,
        by_instance=by_instance,
        whole=tables[1] if by_instance else None,
        notes=notes,
    )


def _table(raw: pl.DataFrame, count: int, micros: int) -> pl.DataFrame:
    tables = []
    for part in raw.partition_by("instance"):
        grid = pl.DataFrame({"window": np.arange(count, dtype=np.int64)})
        whole = grid.join(part.drop("instance"), on="window", how="left").with_columns(
            pl.col("arrivals", "arrived_left", "departures", "departed_left").fill_null(0),
            pl.lit(part["instance"][0]).alias("instance"),
        )
        change = pl.col("arrivals") - pl.col("departures")
        inside = change.cum_sum() - change  # in the system when the window begins
        present = inside * micros + pl.col("arrived_left") - pl.col("departed_left")
        tables.append(
            whole.with_columns(
                rate=pl.col("arrivals") / (micros / 1e6),
                throughput=pl.col("departures") / (micros / 1e6),
                concurrency=present / micros,
                errors=pl.col("failed") / pl.col("arrivals"),
            ).filter(pl.col("arrivals") > 0)
        )
    columns = ("instance", "window", "arrivals", "rate", "throughput", "concurrency", "errors", "mean", *QUANTILES)
    table = pl.concat(tables).sort("instance", "window")
    return table.select(*columns, "departures", "followed", "age", "gaps", "gaps_squared")
