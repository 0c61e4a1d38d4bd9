"""Charts of a capture: the time before the app, repeated SYNs, and the log against the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.pcap.result import WireResult
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import HEIGHT, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, RESPONSE, SERVICE

BOUNDS = ("accept_wait_lower", "accept_wait_upper")
MOST = 0.9  # least share of requests with a known wait among those with bounds, to hide the bounds
POINTS = 150  # of a line
SHORTEST = 0.01  # ms; shorter waits, including 0, are drawn here: a logarithmic axis has no 0
BEFORE_ACCEPT = "#E69F00"  # with the two of the palette and grey, of Okabe and Ito
DASHED, DOTTED, SOLID = [6, 4], [2, 2], [1, 0]
WAIT, AT_MOST, AT_LEAST = "accept queue", "accept queue, at most", "accept queue, at least"
# Column of the timeline -> its name, colour and dash.
LINES: dict[str, dict[str, tuple[str, str, list[int]]]] = {
    "backend": {
        "syn_dropped": ("SYN dropped", BEFORE_ACCEPT, SOLID),
        "syn_queue": ("SYN queue", OTHER, SOLID),
        "accept_wait": (WAIT, QUEUEING, SOLID),
        "accept_wait_upper": (AT_MOST, QUEUEING, DASHED),
        "accept_wait_lower": (AT_LEAST, QUEUEING, DOTTED),
    },
    "proxy": {
        "proxy_syn_dropped": ("SYN dropped", BEFORE_ACCEPT, SOLID),
        "proxy_syn_queue": ("SYN queue", OTHER, SOLID),
        "proxy_accept_wait_upper": (AT_MOST, QUEUEING, DASHED),
    },
}
ANSWERED, NEVER = "answered", "never answered"


def waits_chart(result: WireResult) -> alt.VConcatChart:
    """Draw the share of connections that waited no longer than a time, per queue; backends, then the proxy.

    The area between "at least" and "at most" is shaded: the wait for accept() is in it.
    """
    tables = {side: table for side in LINES if len(table := wait_table(result, side))}
    # One axis for both sides makes them comparable.
    last = max((float(table["ms"].max() or 0.0) for table in tables.values()), default=0.0)  # type: ignore[arg-type]
    last = 1.15 * max(last, 10 * SHORTEST)
    charts = (_waits(result, side, table, last) for side, table in tables.items())
    return alt.vconcat(*charts).resolve_scale(color="independent", strokeDash="independent")


def wait_table(result: WireResult, side: str) -> pl.DataFrame:
    """Return columns queue, ms, share, requests: at most ``POINTS`` exact points per distribution, denser in the tail.

    A queue without waits is left out.
    """
    tables = [
        _distribution(result.timeline[column].drop_nulls().to_numpy() * 1e3).with_columns(queue=pl.lit(name))
        for column, (name, _, _) in LINES[side].items()
        if column in result.timeline.columns
        and (result.timeline[column] > 0).any()
        and not (column in BOUNDS and _hides_bounds(result))
    ]
    schema = {"ms": pl.Float64, "share": pl.Float64, "requests": pl.Int64, "queue": pl.String}
    return pl.concat(tables) if tables else pl.DataFrame(schema=schema)


def _hides_bounds(result: WireResult) -> bool:
    """Return whether enough waits for accept() are known to hide their bounds."""
    waits, bounded = result.timeline["accept_wait"].count(), result.timeline["accept_wait_upper"].count()
    return waits > 0 and waits >= MOST * bounded


def _distribution(values: np.ndarray[Any, np.dtype[np.float64]]) -> pl.DataFrame:
    ordered, n = np.sort(values), len(values)
    at = np.arange(n)
    if n > POINTS:
        even = np.linspace(0, n - 1, POINTS // 2)
        # As many points again in the tail, with its few long waits.
        tail = n - np.geomspace(1, n, POINTS // 2)
        at = np.unique(np.concatenate([even, tail]).astype(np.int64))
    table = pl.DataFrame({"ms": ordered[at], "share": (at + 1) / n})
    clipped = pl.col("ms").clip(lower_bound=SHORTEST).round_sig_figs(5)
    # Values at the left edge become one point; the last one has their share.
    table = table.with_columns(clipped, pl.col("share").round_sig_figs(6)).group_by("ms", maintain_order=True).last()
    return table.with_columns(requests=pl.lit(n, pl.Int64))


def _waits(result: WireResult, side: str, table: pl.DataFrame, last: float) -> alt.LayerChart:
    styles = [line for line in LINES[side].values() if line[0] in set(table["queue"])]
    names, colours, dashes = (list(part) for part in zip(*styles, strict=True))
    scale = alt.Scale(type="log", domain=[SHORTEST, last], nice=False)
    x = alt.X(
        "ms:Q",
        title="ms in the queue" + (" of a backend" if side == "backend" else " of the proxy"),
        scale=scale,
        axis=alt.Axis(values=[10.0**k for k in range(-2, 7)], format=",~f"),
    )
    y = alt.Y(
        "share:Q",
        title="share that waited no longer",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    # Every line runs from 0 at its first value to the right edge; otherwise a line of zeros would be invisible.
    ends = [
        row
        for name in names
        for part in [table.filter(pl.col("queue") == name)]
        for row in (
            *({"queue": name, "ms": part["ms"][0], "share": 0.0, "requests": part["requests"][0]},),
            *part.select("queue", "ms", "share", "requests").to_dicts(),
            *({"queue": name, "ms": last, "share": 1.0, "requests": part["requests"][0]},),
        )
    ]
    lines = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(
            x=x,
            y=y,
            color=alt.Color("queue:N", title=None, scale=alt.Scale(domain=names, range=colours)),
            strokeDash=alt.StrokeDash("queue:N", title=None, scale=alt.Scale(domain=names, range=dashes)),
            tooltip=[
                alt.Tooltip("queue:N"),
                alt.Tooltip("share:Q", title="no longer than", format=".2%"),
                alt.Tooltip("ms:Q", title="ms", format=".4~g"),
                alt.Tooltip("requests:Q", title="of", format=","),
            ],
        )
    )
    band = (
        alt.Chart(alt.InlineData(values=band_table(result, side).to_dicts()))
        .mark_rect(color=QUEUEING, opacity=0.12, clip=True)
        .encode(x=alt.X("lower:Q", scale=scale), x2=alt.X2("upper:Q"), y=alt.Y("share:Q"), y2=alt.Y2("until:Q"))
    )
    return (band + lines).properties(width=WIDTH, height=HEIGHT if side == "backend" else HEIGHT // 2)


def band_table(result: WireResult, side: str) -> pl.DataFrame:
    """Return columns share, until, lower, upper (ms): the bounds of the wait of that part of the requests."""
    schema = {"share": pl.Float64, "until": pl.Float64, "lower": pl.Float64, "upper": pl.Float64}
    if side != "backend" or _hides_bounds(result):
        return pl.DataFrame(schema=schema)
    both = result.timeline.select(BOUNDS).drop_nulls()
    if both.is_empty():
        return pl.DataFrame(schema=schema)
    cuts = np.linspace(0, 1, 41)
    middle = (cuts[:-1] + cuts[1:]) / 2
    bound = {
        name: np.quantile(both[f"accept_wait_{name}"].to_numpy() * 1e3, middle).clip(SHORTEST)
        for name in ("lower", "upper")
    }
    return pl.DataFrame({"share": cuts[:-1], "until": cuts[1:], **bound}).with_columns(
        pl.col("lower", "upper").round_sig_figs(5)
    )


def steps_chart(result: WireResult) -> alt.Chart:
    """Draw connections with repeated SYNs by the time from the first SYN to the last."""
    table = step_table(result)
    domain = [ANSWERED, NEVER]
    return (
        alt.Chart(alt.InlineData(values=table.to_dicts()))
        .mark_bar(size=min(60, WIDTH / (1.5 * max(table["step"].n_unique(), 1))))
        .encode(
            x=alt.X(
                "step:O",
                title="the last SYN was sent after",
                sort=table["step"].unique(maintain_order=True).to_list(),
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y("connections:Q", title="connections", axis=alt.Axis(tickMinStep=1, format=",d")),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=domain, range=[BEFORE_ACCEPT, RESPONSE])),
            tooltip=[alt.Tooltip("step:N"), alt.Tooltip("what:N"), alt.Tooltip("connections:Q", format=",")],
        )
        .properties(width=WIDTH, height=HEIGHT * 2 // 3)
    )


def step_table(result: WireResult) -> pl.DataFrame:
    """Return columns step ("+1 s"), what (answered or never answered), connections; of both sides together."""
    schema = {"step": pl.String, "what": pl.String, "connections": pl.Int64}
    if "step" not in result.steps.columns:
        return pl.DataFrame(schema=schema)
    return (
        result.steps.group_by("step", "answered")
        .agg(pl.col("connections").sum().cast(pl.Int64))
        .sort("step", "answered", descending=[False, True])
        .select(
            pl.format("+{} s", pl.col("step").map_elements(lambda s: f"{s:g}", return_dtype=pl.String)).alias("step"),
            pl.when("answered").then(pl.lit(ANSWERED)).otherwise(pl.lit(NEVER)).alias("what"),
            "connections",
        )
    )


def agreement_chart(result: WireResult) -> alt.LayerChart:
    """Draw log minus wire per figure: median, middle half and 98 % of the requests; the band is nginx's resolution."""
    table = agreement_table(result)
    names = table["figure"].to_list()
    reach = max(2.0, *(abs(float(table[column].abs().max() or 0)) for column in ("p1", "p99")))  # type: ignore[arg-type]
    # One request that is a second off must not compress all the others to a line.
    scale = alt.Scale(type="symlog", constant=1, domain=[-1.2 * reach, 1.2 * reach], nice=False)
    axis = alt.Axis(format=",~f", values=_ticks(reach))
    x = alt.X("p1:Q", title="log minus wire (ms)", scale=scale, axis=axis)
    y = alt.Y("figure:N", title=None, sort=names)
    base = alt.Chart(alt.InlineData(values=table.to_dicts())).encode(
        y=y,
        tooltip=[
            alt.Tooltip("figure:N"),
            alt.Tooltip("requests:Q", format=","),
            *(alt.Tooltip(f"{name}:Q", title=f"{name} (ms)", format=".3~f") for name in ("p1", "p50", "p99")),
        ],
    )
    band = (
        alt.Chart(alt.InlineData(values=[{"from": -1, "to": 1}]))
        .mark_rect(color=OTHER, opacity=0.2)
        .encode(x=alt.X("from:Q", scale=scale, axis=axis, title="log minus wire (ms)"), x2=alt.X2("to:Q"))
    )
    whisker = base.mark_rule(color=SERVICE, strokeWidth=1.5).encode(x=x, x2=alt.X2("p99:Q"))
    box = base.mark_bar(color=SERVICE, height=12).encode(x=alt.X("p25:Q"), x2=alt.X2("p75:Q"))
    middle = base.mark_tick(color=RESPONSE, thickness=3, height=20).encode(x=alt.X("p50:Q"))
    return (band + whisker + box + middle).properties(width=WIDTH, height=30 + 30 * len(names))


def agreement_table(result: WireResult) -> pl.DataFrame:
    """Return columns figure, requests, p1, p25, p50, p75, p99 (ms): log minus wire."""
    rows = []
    for name in result.differences.columns:
        values = result.differences[name].drop_nulls() * 1e3
        if len(values):
            cuts = {f"p{q}": round(float(np.quantile(values.to_numpy(), q / 100)), 4) for q in (1, 25, 50, 75, 99)}
            rows.append({"figure": name.replace("_", " "), "requests": len(values), **cuts})
    return pl.DataFrame(rows)


def _ticks(reach: float) -> list[float]:
    ups = [tick for tick in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 1e5) if tick <= 1.2 * reach]
    return [-tick for tick in reversed(ups)] + [0.0, *ups]
