"""Draw the offsets of clocks over time."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.clock.analysis import ClockResult
from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import TIME
from sojourn.present.chart_sizes import WIDTH
from sojourn.present.palette import OTHER, SERVICE

CLOCKS = 6
HEIGHT = 140
ROOM = 0.005  # s, above and below the lines: the bounds of a long queue would leave nothing of them to be seen


def offsets_over_time(result: ClockResult) -> alt.VConcatChart:
    """Offset of each clock with its band; those that were set or drift most first, ``CLOCKS`` at most."""
    order = sorted(
        range(len(result.pairs)), key=lambda n: (-len(result.pairs[n]["steps"]), -abs(result.pairs[n]["drift"]), n)
    )
    return alt.vconcat(*(_clock(result, number) for number in order[:CLOCKS]))


def line_table(result: ClockResult, number: int) -> pl.DataFrame:
    """Return columns at (text, UTC), offset (ms), segment: both ends of every segment of a clock."""
    rows = []
    for order, segment in enumerate(result.pairs[number]["segments"]):
        half = segment["drift"] * (segment["to"] - segment["from"]).total_seconds() / 2
        rows += [
            (segment["from"], (segment["offset"] - half) * 1000, order),
            (segment["to"], (segment["offset"] + half) * 1000, order),
        ]
    table = pl.DataFrame(rows, ["at", "offset", "segment"], orient="row")
    return table.with_columns(pl.col("at").dt.strftime(TIME), pl.col("offset").round(4))


def band_table(result: ClockResult, number: int) -> pl.DataFrame:
    """Return columns at (text, UTC), lower, upper (ms), requests: the windows of a clock, clipped."""
    pair = result.pairs[number]
    low, high = _room(result, number)
    is_pair = [pl.col(name).eq_missing(pl.lit(pair[name])) for name in ("proxy", "upstream")]
    return result.windows.filter(is_pair).select(
        pl.col("at").dt.strftime(TIME),
        *((pl.col(bound) * 1000).clip(low, high).round(3) for bound in ("lower", "upper")),
        "requests",
    )


def _room(result: ClockResult, number: int) -> tuple[float, float]:
    line = line_table(result, number)["offset"]
    low, high = float(line.min() or 0.0), float(line.max() or 0.0)  # type: ignore[arg-type]
    room = max(ROOM * 1000, 0.3 * (high - low))
    return low - room, high + room


def _clock(result: ClockResult, number: int) -> alt.LayerChart:
    pair = result.pairs[number]
    x = alt.X("at:T", title=None, scale=alt.Scale(type="utc"))
    scale = alt.Scale(domain=list(_room(result, number)), nice=False)
    band = (
        alt.Chart(alt.InlineData(values=band_table(result, number).to_dicts()))
        .mark_area(interpolate="step", color=OTHER, opacity=0.4)
        .encode(
            x=x,
            y=alt.Y("lower:Q", title="offset (ms)", scale=scale),
            y2=alt.Y2("upper:Q"),
            tooltip=[
                alt.Tooltip("at:T", title="time", format="%H:%M:%S"),
                alt.Tooltip("lower:Q", title="at least (ms)", format=",.1f"),
                alt.Tooltip("upper:Q", title="at most (ms)", format=",.1f"),
                alt.Tooltip("requests:Q", format=","),
            ],
        )
    )
    line = (
        alt.Chart(alt.InlineData(values=line_table(result, number).to_dicts()))
        .mark_line(color=SERVICE, strokeWidth=2)
        .encode(x=x, y=alt.Y("offset:Q", scale=scale), detail=alt.Detail("segment:N"))
    )
    names = [printable(part, 60) for part in (pair["proxy"], pair["upstream"]) if part]
    return (band + line).properties(width=WIDTH, height=HEIGHT, title=" → ".join(names) or "–")
