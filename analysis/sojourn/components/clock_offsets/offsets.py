"""Estimate the offset and drift of an app's clock from nginx's, from the log alone.

The app's start is on the app's clock, the stamp on nginx's. For a pair of hosts with offset o (app less proxy):

    stamp -> app start        shows  o + (way there + wait)    so o <= the smallest of them    (upper)
    app end -> header arrived shows -o + (way back)            so o >= minus the smallest      (lower)

Two envelopes, one bound each: the estimator of Paxson (1998, "On calibrating measurements of packet transit times",
section 3), with the wait in the queue as one more delay on the way there. nginx's instants are truncated to its
clock's resolution, which makes arrivals look early; the lower bound allows for it.

The envelopes are taken window by window. As long as one offset lies between all bounds, it is the estimate. Where none
does, the clock ran fast or slow, or was set: ``sojourn.components.clock_offsets.segments`` finds the lines and the
instants. A request counts at the instant at which the app read its clock, which durations tell without any clock:
header received, less service time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import polars as pl

from sojourn.components.clock_offsets.lines import Envelopes, constant, line
from sojourn.components.clock_offsets.segments import (
    SLACK,
    Stretch,
    between,
    step_instant,
    step_window,
    stretch,
    stretches,
)
from sojourn.model.frame import INSTANT
from sojourn.model.groups import LARGEST
from sojourn.model.instants import of_epoch_us

PAIR = ("proxy", "upstream")
SEGMENT = pl.Struct(
    {
        "from": INSTANT,
        "to": INSTANT,
        "offset": pl.Float64(),  # s, half-way between from and to
        "uncertainty": pl.Float64(),
        "correction": pl.Float64(),  # s, the offset where it is significant, otherwise 0: what delays are corrected by
        "drift": pl.Float64(),  # s/s, the app's clock gains so much on nginx's
        "drift_lower": pl.Float64(),  # what the bounds allow; null: they contradict each other
        "drift_upper": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "idle": pl.Boolean(),
        "requests": pl.UInt32(),
    }
)
CLOCK_SCHEMA = {
    "proxy": pl.String(),
    "upstream": pl.String(),
    "offset": pl.Float64(),  # s, the app's clock less nginx's; of several segments the mean, weighted by their time
    "uncertainty": pl.Float64(),  # s, the offset lies within +- this; of several segments the largest
    "correction": pl.Float64(),  # s, what delays are corrected by; of several segments the mean, weighted by their time
    "tolerance": pl.Float64(),  # s, how far the offset may be below the correction
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "requests": pl.UInt32(),  # rows the estimate rests on
    "drift": pl.Float64(),  # s/s, mean of the segments'
    "idle": pl.Boolean(),  # the bounds are as near as a network explains: the queue was seen empty
    "contradiction": pl.Float64(),  # s by which the bounds of a segment miss each other; 0 where they do not
    "segments": pl.List(SEGMENT),  # by time
}
BOUNDS_SCHEMA = {
    "proxy": pl.String(),
    "upstream": pl.String(),
    "window": pl.Int64(),  # us since 1970, divided by the windows' width
    "earliest": pl.Int64(),  # us, of the instants at which the app read its clock
    "latest": pl.Int64(),
    "upper": pl.Int64(),  # us, the envelopes
    "lower": pl.Int64(),
    "round_trip": pl.Int64(),  # us, the shortest connect time
    "coarse": pl.Boolean(),  # every instant of nginx's is whole milliseconds
    "requests": pl.Int64(),
}
WINDOWS_SCHEMA = {
    **dict.fromkeys(PAIR, pl.String()),
    "at": INSTANT,
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "requests": pl.Int64(),
}
MILLISECOND = 1e-3
WINDOWS = 300
FINE_WINDOWS = 8192  # of a pair that no single offset fits
CELL = 1000  # us: an instant is looked for to the millisecond


class Ask(Protocol):
    """Return bounds of windows of ``width`` us, columns as in ``BOUNDS_SCHEMA``, in any order.

    ``within``: proxy, upstream, begin, end (us): only the requests of these pairs and times; None: all.
    """

    def __call__(self, width: int, within: pl.DataFrame | None) -> pl.DataFrame: ...  # noqa: D102


def clock_offsets(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the offset per (proxy, backend) pair: one row each, columns as in ``CLOCK_SCHEMA``.

    ``rows`` carry the app facts. Only requests answered at the first attempt count: every attempt before adds nginx's
    rounding once more.
    """

    def ask(width: int, within: pl.DataFrame | None) -> pl.DataFrame:
        return _bounds(rows, width, within).collect(engine="streaming")

    return clocks(ask, *_ends(rows))


def clock_windows(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the bounds that the requests of each of ``WINDOWS`` windows set to an offset, by pair and time.

    Columns proxy, upstream, at (UTC, the middle), lower and upper (s), requests.
    """
    first, last = _ends(rows)
    if first is None or last is None:
        return pl.DataFrame(schema=WINDOWS_SCHEMA)
    bounds = _bounds(rows, _width(first, last, WINDOWS), None)
    tick = pl.when(pl.col("coarse").all().over(PAIR)).then(MILLISECOND).otherwise(0.0)
    return (
        bounds.select(
            *PAIR,
            ((pl.col("earliest") + pl.col("latest")) // 2).cast(INSTANT).alias("at"),
            pl.col("lower") / 1e6 - 2 * tick,
            pl.col("upper") / 1e6,
            pl.col("requests").cast(pl.Int64),
        )
        .sort(*PAIR, "at", nulls_last=True)
        .collect(engine="streaming")
    )


def _ends(rows: pl.LazyFrame) -> tuple[int | None, int | None]:
    ends = rows.select(first=pl.col("time").min(), last=pl.col("time").max()).collect(engine="streaming")
    first, last = ends.select(pl.all().dt.epoch("us")).row(0)
    return first, last


def _bounds(rows: pl.LazyFrame, width: int, within: pl.DataFrame | None) -> pl.LazyFrame:
    connect = pl.col("connect").fill_null(0.0)
    header_us = _micros(pl.col("header"))
    proxy_us = pl.col("proxy_start").dt.epoch("us")
    readings = rows.filter(
        pl.col("answered") & (pl.col("attempts") == 1) & pl.col("app_start").is_not_null()
        & pl.col("app_service").is_not_null()
    ).select(
        *PAIR,
        read=proxy_us + _micros(pl.col("header") - pl.col("app_service")),
        upper=_micros(pl.col("app_start") - connect),
        lower=_micros(pl.col("app_start") + pl.col("app_service") - pl.col("header")),
        round_trip=_micros(connect),
        coarse=(proxy_us % 1000 == 0) & (header_us % 1000 == 0),
    )  # fmt: skip
    if within is not None:
        readings = (
            readings.join(within.lazy(), on=list(PAIR), how="inner", nulls_equal=True)
            .filter((pl.col("read") >= pl.col("begin")) & (pl.col("read") < pl.col("end")))
            .drop("begin", "end")
        )
    return readings.group_by(*PAIR, window=pl.col("read") // width).agg(
        earliest=pl.col("read").min(),
        latest=pl.col("read").max(),
        upper=pl.col("upper").min(),
        lower=pl.col("lower").max(),
        round_trip=pl.col("round_trip").min(),
        coarse=pl.col("coarse").all(),
        requests=pl.len(),
    )


def _micros(seconds: pl.Expr) -> pl.Expr:
    return (seconds * 1e6).round().cast(pl.Int64)


def clocks(ask: Ask, first: int | None, last: int | None) -> pl.DataFrame:
    """Return offset and drift over time of every pair, columns as in ``CLOCK_SCHEMA``, by pair.

    Drift and steps are those of the ``LARGEST`` pairs with the most requests; the clock of another one has one offset.

    Args:
        ask: returns the bounds; called once, and two or three times more where a clock drifted or was set.
        first: the first end of a request, us since 1970; None without requests.
        last: the last one.
    """
    if first is None or last is None:
        return pl.DataFrame(schema=CLOCK_SCHEMA)
    width = _width(first, last, WINDOWS)
    largest, others = _divided(ask(width, None))
    timelines = dict(_timelines(largest))
    ticks = {pair: windows.tick for pair, windows in timelines.items()}
    segments = {pair: [stretch(windows)] for pair, windows in timelines.items()}
    restless = [pair for pair, windows in timelines.items() if not constant(windows, SLACK)]
    if restless:
        fine_width = _width(first, last, FINE_WINDOWS)
        everything = [(*pair, 0, np.iinfo(np.int64).max) for pair in restless]
        if fine_width < width:
            timelines |= dict(_timelines(ask(fine_width, _within(everything)), ticks))
        for pair in restless:
            segments[pair] = stretches(timelines[pair])
        stepped = {pair: segments[pair] for pair in restless if len(segments[pair]) > 1}
        segments |= _set_apart(ask, timelines, stepped, ticks)
    table = pl.DataFrame([_row(pair, parts) for pair, parts in segments.items()], CLOCK_SCHEMA)
    return table if others.is_empty() else pl.concat([table, _constant(others)]).sort(PAIR, nulls_last=True)


def _divided(bounds: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the bounds of the ``LARGEST`` pairs with the most requests, and those of the others."""
    pairs = bounds.group_by(PAIR).agg(pl.col("requests").sum())
    if len(pairs) <= LARGEST:
        return bounds, bounds.clear()
    largest = pairs.sort("requests", *PAIR, descending=[True, False, False], nulls_last=True).head(LARGEST)
    inside, outside = (
        bounds.join(largest.select(PAIR), on=list(PAIR), how=how, nulls_equal=True) for how in ("semi", "anti")
    )
    return inside, outside


def _constant(bounds: pl.DataFrame) -> pl.DataFrame:
    """Return a row of ``CLOCK_SCHEMA`` per pair, each with one offset for all of its time."""
    tick = pl.when(pl.col("coarse").all()).then(MILLISECOND).otherwise(0.0)
    table = bounds.group_by(PAIR).agg(
        pl.col("earliest").min().cast(INSTANT).alias("from"),
        pl.col("latest").max().cast(INSTANT).alias("to"),
        pl.col("lower").max() / 1e6 - 2 * tick,
        pl.col("upper").min() / 1e6,
        pl.col("round_trip").min() / 1e6,
        pl.col("requests").sum().cast(pl.UInt32),
        tick=tick,
    )
    lower, upper, round_trip, tick_of = (table[name].to_numpy() for name in ("lower", "upper", "round_trip", "tick"))
    estimates = between(lower, upper, round_trip, tick_of)
    none = pl.lit(None, pl.Float64)
    table = table.with_columns(
        **{name: pl.Series(values) for name, values in estimates._asdict().items()},
        drift=pl.lit(0.0), drift_lower=none, drift_upper=none,
    ).with_columns(
        tolerance=(pl.col("correction") - pl.col("lower")).clip(lower_bound=0.0),
        contradiction=(pl.col("lower") - pl.col("upper")).clip(lower_bound=0.0),
        segments=pl.concat_list(pl.struct(field.name for field in SEGMENT.fields)),
    )  # fmt: skip
    return table.select(pl.col(name).cast(dtype) for name, dtype in CLOCK_SCHEMA.items())


def _width(first: int, last: int, windows: int) -> int:
    return max(-(-(last - first) // windows), CELL)


Pair = tuple[str | None, str | None]


def _timelines(bounds: pl.DataFrame, ticks: Mapping[Pair, float] | None = None) -> Iterator[tuple[Pair, Envelopes]]:
    """Yield the windows of each pair, by time; ``ticks``: nginx's resolution (s) per pair, where known already."""
    ordered = bounds.sort(*PAIR, "window", nulls_last=True)
    for part in ordered.partition_by(*PAIR, maintain_order=True):
        pair = part.select(PAIR).row(0)
        tick = (MILLISECOND if part["coarse"].all() else 0.0) if ticks is None else ticks[pair]
        yield (
            pair,
            Envelopes(
                earliest=part["earliest"].to_numpy(),
                latest=part["latest"].to_numpy(),
                lower=part["lower"].to_numpy() / 1e6 - 2 * tick,
                upper=part["upper"].to_numpy() / 1e6,
                ticks=np.full(len(part), tick),
                round_trip=part["round_trip"].to_numpy() / 1e6,
                requests=part["requests"].to_numpy(),
            ),
        )


def _within(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    schema = {"proxy": pl.String(), "upstream": pl.String(), "begin": pl.Int64(), "end": pl.Int64()}
    return pl.DataFrame(rows, schema, orient="row")


def _set_apart(
    ask: Ask, timelines: Mapping[Pair, Envelopes], stepped: Mapping[Pair, list[Stretch]], ticks: Mapping[Pair, float]
) -> dict[Pair, list[Stretch]]:
    """Assign the requests in windows with a clock change to the stretch before or after it."""
    windows = {
        pair: [step_window(timelines[pair], before, after) for before, after in pairwise(parts)]
        for pair, parts in stepped.items()
    }
    step_windows = sorted(
        {
            (*pair, int(timelines[pair].earliest[number]), int(timelines[pair].latest[number]) + 1)
            for pair, numbers in windows.items()
            for number in numbers
            if number is not None
        },
        key=str,
    )
    cells = dict(_timelines(ask(CELL, _within(step_windows)), ticks)) if step_windows else {}
    return {
        pair: _reassigned(timelines[pair], parts, windows[pair], cells.get(pair)) for pair, parts in stepped.items()
    }


def _reassigned(
    windows: Envelopes, parts: list[Stretch], numbers: list[int | None], cells: Envelopes | None
) -> list[Stretch]:
    """Return the stretches of a pair, cut again at instants from its ``cells``.

    ``numbers``: of the window in which each stretch gives way to the next; None where one only ran on otherwise.
    """
    cuts, whole = [], windows
    for number, (before, after) in zip(numbers, pairwise(parts), strict=True):
        if number is None or cells is None:
            cuts.append(int(after.windows.earliest[0]))
            continue
        begin, end = windows.earliest[number], windows.latest[number]
        inside = cells[(cells.earliest >= begin) & (cells.latest <= end)]
        cuts.append(step_instant(inside, before, after))
        whole = whole[(whole.latest < begin) | (whole.earliest > end)].followed_by(inside)
    # Two steps may lie in one window.
    edges = [np.iinfo(np.int64).min, *np.maximum.accumulate(cuts).tolist(), np.iinfo(np.int64).max]
    reassigned = []
    for part, (begin, end) in zip(parts, pairwise(edges), strict=True):
        windows_inside = whole[(whole.earliest >= begin) & (whole.earliest < end)]
        fitting = windows_inside[part.allows(windows_inside)] if len(windows_inside) else windows_inside
        reassigned.append(stretch(fitting if len(fitting) and line(fitting, SLACK) else part.windows))
    return reassigned


def _row(pair: Pair, parts: list[Stretch]) -> dict[str, Any]:
    """Return a pair's row of ``CLOCK_SCHEMA``."""
    seconds = np.array([max(int(part.windows.latest.max()) - int(part.windows.earliest[0]), 1) for part in parts])
    weights = seconds / seconds.sum()
    return {
        **dict(zip(PAIR, pair, strict=True)),
        "offset": float(weights @ [part.offset for part in parts]) if len(parts) > 1 else parts[0].offset,
        "uncertainty": max(part.uncertainty for part in parts),
        "correction": float(weights @ [part.correction for part in parts]) if len(parts) > 1 else parts[0].correction,
        "tolerance": max(part.tolerance for part in parts),
        "lower": min(part.lower for part in parts),
        "upper": max(part.upper for part in parts),
        "requests": sum(int(part.windows.requests.sum()) for part in parts),
        "drift": float(weights @ [part.drift for part in parts]),
        "idle": all(part.idle for part in parts),
        "contradiction": max(0.0, *(part.lower - part.upper for part in parts)),
        "segments": [_segment(part) for part in parts],
    }


def _segment(part: Stretch) -> dict[str, Any]:
    least, greatest = part.allowed or (None, None)
    return {
        "from": of_epoch_us(part.windows.earliest[0]),
        "to": of_epoch_us(part.windows.latest.max()),
        "offset": part.offset,
        "uncertainty": part.uncertainty,
        "correction": part.correction,
        "drift": part.drift,
        "drift_lower": least,
        "drift_upper": greatest,
        "lower": part.lower,
        "upper": part.upper,
        "idle": part.idle,
        "requests": int(part.windows.requests.sum()),
    }
