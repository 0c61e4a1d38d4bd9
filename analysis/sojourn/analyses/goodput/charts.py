"""Draw useful and wasted work over time."""

from __future__ import annotations

from sojourn.analyses.goodput.analysis import GoodputResult
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import QUEUEING, RESPONSE, SERVICE


def goodput_over_time(result: GoodputResult) -> alt.VConcatChart:
    """Draw throughput and goodput as lines, and below them the worker seconds of abandoned requests."""
    x = alt.X("begin:T", title="end of the request (UTC)", scale=alt.Scale(type="utc"))
    lines = result.over_time.unpivot(["throughput", "goodput"], index="begin", variable_name="part", value_name="rate")
    rates = (
        alt.Chart(inline(lines))
        .mark_line(interpolate="step-after")
        .encode(
            x=x,
            y=alt.Y("rate:Q", title="requests per second"),
            color=alt.Color(
                "part:N", title=None, scale=alt.Scale(domain=["throughput", "goodput"], range=[RESPONSE, SERVICE])
            ),
            strokeDash=alt.StrokeDash(
                "part:N", title=None, scale=alt.Scale(domain=["throughput", "goodput"], range=[[2, 2], [1, 0]])
            ),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("rate:Q", format=".3~f"),
                alt.Tooltip("begin:T", format="%H:%M:%S"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT // 2)
    )
    wasted = (
        alt.Chart(inline(result.over_time.select("begin", "wasted")))
        .mark_area(interpolate="step-after", color=QUEUEING)
        .encode(
            x=x,
            y=alt.Y("wasted:Q", title="wasted worker seconds"),
            tooltip=[alt.Tooltip("wasted:Q", format=".3~f"), alt.Tooltip("begin:T", format="%H:%M:%S")],
        )
        .properties(width=WIDTH, height=HEIGHT // 3)
    )
    return alt.vconcat(rates, wasted)
