"""How far an app's clock stands from nginx's, from the log alone.

The app's start is on the app's clock, the stamp on nginx's. For a pair of hosts with offset o (app less proxy):

    stamp -> app start        shows  o + (way there + wait)    so o <= the smallest of them    (upper)
    app end -> header arrived shows -o + (way back)            so o >= minus the smallest      (lower)

Two envelopes, one bound each: the estimator of Paxson (1998, "On calibrating measurements of packet transit times",
section 3), with the wait in the queue as one more delay on the way there. nginx's instants are truncated to its
clock's resolution, which makes arrivals look early; the lower bound allows for it.
"""

from __future__ import annotations

import polars as pl

PAIR = ("proxy", "upstream")
CLOCK_SCHEMA = {
    "proxy": pl.String(),
    "upstream": pl.String(),
    "offset": pl.Float64(),  # s, the app's clock less nginx's
    "uncertainty": pl.Float64(),  # s, the offset lies within +- this
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "requests": pl.UInt32(),  # rows the estimate rests on
}
MILLISECOND = 1e-3
NETWORK_GAP = 0.010  # s: a gap between the bounds that a network and a clock's resolution may explain


def clock_offsets(rows: pl.LazyFrame) -> pl.DataFrame:
    """Offset per (proxy, backend) pair: one row each, columns as in ``CLOCK_SCHEMA``.

    Only requests answered at the first attempt count: every attempt before adds nginx's rounding once more.
    """
    known = rows.filter(
        pl.col("answered") & (pl.col("attempts") == 1) & pl.col("app_start").is_not_null()
        & pl.col("app_service").is_not_null()
    )  # fmt: skip
    connect = pl.col("connect").fill_null(0.0)
    stamp_us = pl.col("proxy_start").dt.epoch("us")
    header_us = (pl.col("header") * 1e6).round().cast(pl.Int64)
    return offsets_within(
        known.group_by(PAIR)
        .agg(
            upper=(pl.col("app_start") - connect).min(),
            lower=(pl.col("app_start") + pl.col("app_service") - pl.col("header")).max(),
            round_trip=connect.min(),
            coarse=((stamp_us % 1000 == 0) & (header_us % 1000 == 0)).all(),
            requests=pl.len(),
        )
        .collect(engine="streaming")
    )


def offsets_within(bounds: pl.DataFrame) -> pl.DataFrame:
    """The estimate, from what the requests of each pair allow: columns as in ``CLOCK_SCHEMA``.

    ``bounds``: proxy, upstream, upper and lower (s, the envelopes), round_trip (s, the shortest connect time), coarse
    (bool: every instant is whole milliseconds), requests.

    The estimate is the middle between the bounds, as long as a network could explain their gap. Where it cannot, the
    backend's queue was never empty and the upper bound is far too high, while the way back has no queue; the estimate
    then stays near the lower bound, by half the connect time (one round trip), and the uncertainty is the whole gap.
    """
    tick = pl.when("coarse").then(MILLISECOND).otherwise(0.0)
    # nginx takes instants from one clock and durations from another, each cut down to a tick: an arrival may look up to
    # two ticks too early, one on average. The bound allows for two, the estimate for one.
    bounds = bounds.with_columns(likely=pl.col("lower") - tick, lower=pl.col("lower") - 2 * tick, tick=tick)
    gap = pl.col("upper") - pl.col("likely")
    one_way = (
        pl.when(gap <= pl.col("round_trip") + NETWORK_GAP)
        .then(gap / 2)
        .otherwise((pl.col("round_trip") + pl.col("tick")) / 2)
    )
    # The upper bound is hard: a stamp cut down to a millisecond only ever makes a request look later.
    offset = pl.min_horizontal(pl.col("likely") + one_way, "upper")
    bounds = bounds.with_columns(offset=offset)
    uncertainty = pl.max_horizontal(
        pl.col("upper") - pl.col("offset"), pl.col("offset") - pl.col("lower"), pl.col("tick")
    )
    return (
        bounds.with_columns(uncertainty=uncertainty)
        .select(pl.col(name).cast(dtype) for name, dtype in CLOCK_SCHEMA.items())
        .sort(PAIR, nulls_last=True)
    )


def with_clock_offset(rows: pl.LazyFrame, offsets: pl.DataFrame) -> pl.LazyFrame:
    """``rows`` with ``clock_offset`` (s) of their pair, null where there is no estimate."""
    table = offsets.lazy().select(*PAIR, clock_offset=pl.col("offset"))
    return rows.join(table, on=list(PAIR), how="left", nulls_equal=True, maintain_order="left")
