"""Charts of capacity: throughput against concurrency with the law, and an objective's figure against the rate."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.analyses.capacity.analysis import Capacity
from sojourn.analyses.capacity.knee import Knee, monotone
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_parts import inline
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE
from sojourn.present.section import Chart

POINTS = 300
CURVE = 120


def throughput_against_concurrency(result: Capacity) -> Chart:
    """Draw windows as points, and the universal scalability law as a line over the observed concurrencies."""
    x = alt.X("concurrency:Q", title="mean requests in the system")
    y = alt.Y("throughput:Q", title="completed requests/s")
    chart = alt.layer(_points(result.windows.table, "concurrency", "throughput", x, y))
    if result.usl is None:
        return chart.properties(width=WIDTH, height=HEIGHT)
    concurrency = np.linspace(result.usl.least, result.usl.most, CURVE)
    curve = pl.DataFrame({"concurrency": concurrency, "throughput": result.usl.throughput(concurrency)})
    line = alt.Chart(inline(curve)).mark_line(color=SERVICE, strokeWidth=2).encode(x=x, y=y)
    peak = result.usl.peak
    if peak is None:
        return (chart + line).properties(width=WIDTH, height=HEIGHT)
    top = pl.DataFrame({"concurrency": [peak[0]], "throughput": [peak[1]]})
    mark = alt.Chart(inline(top)).mark_point(color=QUEUEING, size=120, shape="diamond", filled=True).encode(x=x, y=y)
    return (chart + line + mark).properties(width=WIDTH, height=HEIGHT)


def objective_against_rate(result: Capacity, knee: Knee) -> Chart:
    """Draw windows as points, the monotone fit as a line, the objective and the knee as rules."""
    metric = knee.slo.metric
    errors = metric == "errors"
    title = "share of errors" if errors else f"{metric} of response time (s)"
    scale = alt.Scale() if errors else alt.Scale(type="log")
    x = alt.X("rate:Q", title="arrivals, requests/s")
    y = alt.Y(f"{metric}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, format="~g"))
    table = result.windows.table
    rate, fitted = monotone(table["rate"].to_numpy(), table[metric].to_numpy(), knee.slo)
    line = pl.DataFrame({"rate": rate, metric: fitted})
    layers = [
        _points(table, "rate", metric, x, y),
        alt.Chart(inline(_thinned(line, "rate"))).mark_line(color=SERVICE, strokeWidth=2).encode(x=x, y=y),
        alt.Chart(inline(pl.DataFrame({metric: [knee.slo.limit]})))
        .mark_rule(color=QUEUEING, strokeDash=[4, 3])
        .encode(y=y),
    ]
    if knee.rate is not None:
        layers.append(
            alt.Chart(inline(pl.DataFrame({"rate": [knee.rate]}))).mark_rule(color=QUEUEING, strokeWidth=2).encode(x=x)
        )
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def _points(table: pl.DataFrame, across: str, up: str, x: alt.X, y: alt.Y) -> alt.Chart:
    tooltip = [alt.Tooltip(f"{name}:Q", format=".4~g") for name in (across, up)]
    return (
        alt.Chart(inline(_thinned(table.select(across, up), across)))
        .mark_circle(color=OTHER, size=28, opacity=0.8)
        .encode(x=x, y=y, tooltip=tooltip)
    )


def _thinned(table: pl.DataFrame, along: str) -> pl.DataFrame:
    """Return at most ``POINTS`` rows: means of neighbours."""
    ordered = table.sort(along)
    if len(ordered) <= POINTS:
        return ordered
    group = (pl.int_range(pl.len()) * POINTS // pl.len()).alias("group")
    return ordered.group_by(group, maintain_order=True).agg(pl.all().mean()).drop("group")
