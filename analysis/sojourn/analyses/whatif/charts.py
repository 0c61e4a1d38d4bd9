"""Charts of a what-if result."""

from __future__ import annotations

from sojourn.analyses.whatif.result import WhatIfResult
from sojourn.analyses.whatif.variants import written
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import HALO, INK
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import QUEUEING, RESPONSE, SERVICE

BEST = 2  # variants whose distribution is drawn
COLOURS = {"measured": RESPONSE, "replayed": QUEUEING}
DASHES = ([1, 0], [4, 3], [8, 3], [2, 2])  # crossing lines differ in more than their colour
OF_VARIANTS = (SERVICE, "#009E73")


def p99_by_variant(result: WhatIfResult) -> alt.LayerChart:
    """Draw p99 of the response time under each variant, with its interval and the replay of the recorded setup."""
    rows = []
    for variant in result.variants:
        low, high = variant.interval["p99"]
        rows.append(
            {"change": written(variant.settings), "p99": variant.response_time["p99"], "low": low, "high": high}
        )
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=alt.Y("change:N", title=None, sort=None))
    bars = base.mark_bar(color=SERVICE).encode(
        x=alt.X("p99:Q", title="p99 of the response time (s)"),
        tooltip=[alt.Tooltip("change:N"), alt.Tooltip("p99:Q", title="p99 (s)", format=".3~f")],
    )
    around = base.mark_rule(strokeWidth=5, color=HALO).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    lines = base.mark_rule(strokeWidth=2, color=INK).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    baseline = alt.Chart(alt.InlineData(values=[{"p99": result.replayed["response_time"]["p99"]}]))
    dashed = baseline.mark_rule(strokeDash=[4, 3], color=QUEUEING).encode(x=alt.X("p99:Q"))
    return (bars + around + lines + dashed).properties(width=WIDTH, height=60 + 24 * len(rows))


def responses(result: WhatIfResult) -> alt.Chart:
    """Draw the share of requests that took longer than a time: measured, replayed, and the best variants."""
    series = {"measured": result.measured_curve, "replayed": result.replayed_curve}
    series |= {written(variant.settings): variant.curve for variant in result.variants[:BEST]}
    rows = [
        {"what": name, "seconds": float(f"{seconds:.6g}"), "exceeding": float(f"{share:.6g}")}
        for name, curve in series.items()
        for seconds, share in zip(*curve, strict=True)
    ]
    colours = [*COLOURS.values(), *OF_VARIANTS][: len(series)]
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("seconds:Q", title="response time (s)", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g")),
            y=alt.Y(
                "exceeding:Q",
                title="share of requests that took longer",
                scale=alt.Scale(type="log"),
                axis=alt.Axis(tickCount=6, format="~%"),
            ),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=list(series), range=colours)),
            strokeDash=alt.StrokeDash(
                "what:N", title=None, scale=alt.Scale(domain=list(series), range=DASHES[: len(series)])
            ),
            tooltip=[
                alt.Tooltip("what:N"),
                alt.Tooltip("seconds:Q", format=".4~f"),
                alt.Tooltip("exceeding:Q", format=".3%"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
