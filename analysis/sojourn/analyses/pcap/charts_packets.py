"""The packet sequence chart: one request across client, proxy and backend, with its queues shaded."""

from __future__ import annotations

import math
from typing import Any, Literal

import polars as pl

from sojourn.analyses.pcap.charts_packet_request import Sequence, sequence_of
from sojourn.analyses.pcap.charts_packet_steps import APP, BACKEND, NOWHERE, Step
from sojourn.analyses.pcap.frames import seconds_on_wire
from sojourn.model.formatting import counted
from sojourn.present.chart_libraries import alt
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

WIDTH = 800
ADDRESS = 34
LINE = "#808080"  # visible on light and on dark backgrounds
# Places from left to right, in pixels of the chart's own width.
TIMES, CLIENT_AT, PROXY_IN, PROXY_OUT, BACKEND_AT = 64.0, 84.0, 268.0, 424.0, 620.0
BAR = 12.0
SIZE = 11.5
STEP, HIDDEN_STEP, DECADE, SHORTEST = 20.0, 6.0, 4.0, 1e5  # px, px, px, ns
COLOURS = {
    "dropped": (QUEUEING, 0.3),
    "syn_queue": (QUEUEING, 0.6),
    "accept_queue": (QUEUEING, 1.0),
    "accept_queue_at_most": (QUEUEING, 0.4),
    "waiting": (QUEUEING, 1.0),
    "proxy": (OTHER, 0.6),
    "service": (SERVICE, 1.0),
}
ALIGNED: tuple[tuple[Literal["left", "center", "right"], bool], ...] = (
    ("left", False),
    ("left", True),
    ("center", False),
    ("right", False),
)
HEAD = 2.2 * STEP  # px, above the lines
CROSS = "M-1,-1L1,1M1,-1L-1,1"


def packet_sequence(
    timeline: pl.DataFrame, row: int, connections: pl.DataFrame, exchanges: pl.DataFrame, remark: str = ""
) -> alt.VConcatChart:
    """Draw a request as arrows between client, proxy and backend; time goes down.

    Arrows are horizontal because a capture has one time per packet. Relevant times range from 0.05 ms to 3 s, so the
    distance of two packets grows with the squared logarithm of the time between them; each packet's time is written.
    ``remark``: why this request is shown; the subtitle. Other arguments as of ``sequence_of``.
    """
    sequence = sequence_of(timeline, row, connections, exchanges)
    down = _heights(sequence)
    height = max(down.values(), default=STEP) + STEP
    arrows, heads, labels = _arrows(sequence, down)
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, WIDTH], nice=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[-HEAD, height], reverse=True, nice=False), axis=None)

    def layer(values: list[dict[str, Any]]) -> alt.Chart:
        return alt.Chart(alt.InlineData(values=values))

    bars = _bars(sequence, down)
    opacity = alt.Opacity("opacity:Q", scale=None, legend=None)
    layers = [
        layer([{"x": PROXY_IN, "to": PROXY_OUT, "y": 0, "until": height}])
        .mark_rect(color=OTHER, opacity=0.1)
        .encode(x=x, x2=alt.X2("to:Q"), y=y, y2=alt.Y2("until:Q")),
        layer([{"x": TIMES + 4, "to": BACKEND_AT, "y": down[step.key]} for step in _timed(sequence)])
        .mark_rule(color=LINE, opacity=0.25, strokeDash=[1, 3])
        .encode(x=x, x2=alt.X2("to:Q"), y=y),
        layer([{"x": at, "y": 0, "until": height} for at in (CLIENT_AT, PROXY_IN, PROXY_OUT, BACKEND_AT)])
        .mark_rule(color=LINE, strokeWidth=1.5)
        .encode(x=x, y=y, y2=alt.Y2("until:Q")),
        layer(bars)
        .mark_rect(tooltip=True)
        .encode(
            x=x,
            x2=alt.X2("to:Q"),
            y=y,
            y2=alt.Y2("until:Q"),
            color=alt.Color("colour:N", scale=None, legend=None),
            opacity=opacity,
            tooltip=[alt.Tooltip("where:N"), alt.Tooltip("what:N")],
        ),
        layer(arrows)
        .mark_rule(color=LINE, strokeWidth=1.5)
        .encode(x=x, x2=alt.X2("to:Q"), y=y, strokeDash=alt.StrokeDash("dash:N", scale=None, legend=None)),
        layer(heads)
        .mark_point(filled=True, opacity=1, strokeWidth=2)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("shape:N", scale=None, legend=None),
            color=alt.Color("colour:N", scale=None, legend=None),
            stroke=alt.Stroke("colour:N", scale=None, legend=None),
            size=alt.Size("size:Q", scale=None, legend=None),
        ),
    ]
    texts = [*labels, *_bar_labels(bars), *_times(sequence, down), *_lanes(sequence)]
    layers += [
        layer([text for text in texts if (text["align"], text.get("bold", False)) == (align, bold)])
        .mark_text(
            align=align,
            baseline="middle",
            fontSize=SIZE,
            lineBreak="\n",
            fontWeight="bold" if bold else 400,
        )
        .encode(x=x, y=y, text=alt.Text("text:N"))
        for align, bold in ALIGNED
    ]
    title = alt.TitleParams(sequence.title, subtitle=remark, anchor="start", offset=8)
    drawn = alt.LayerChart(layer=layers).properties(width=WIDTH, height=height + HEAD, title=title)
    # A single chart would get the page's width; its texts have fixed places, so it may only scale as a whole.
    return alt.vconcat(drawn)


def _heights(sequence: Sequence) -> dict[str, float]:
    """Return key of each step -> pixels from the top."""
    down: dict[str, float] = {}
    y, before = 0.0, 0
    for step in sequence.steps:
        least = HIDDEN_STEP if step.where == NOWHERE else STEP
        y += least + DECADE * math.log10(1 + (step.at - before) / SHORTEST) ** 2
        down[step.key] = round(y, 1)
        before = step.at
    return down


def _timed(sequence: Sequence) -> list[Step]:
    return [step for step in sequence.steps if step.where != NOWHERE]


def _arrows(
    sequence: Sequence, down: dict[str, float]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    arrows, heads, labels = [], [], []
    for step in _timed(sequence):
        y = down[step.key]
        if step.where == APP:
            heads.append(
                {"x": BACKEND_AT, "y": y, "shape": "circle", "colour": SERVICE, "size": 50, "what": step.label}
            )
            labels.append({"x": BACKEND_AT - 9, "y": y, "text": step.label, "align": "right"})
            continue
        left, right = (PROXY_OUT, BACKEND_AT) if step.where == BACKEND else (CLIENT_AT, PROXY_IN)
        if step.lost:
            # Packets do not show where it was lost: the arrow ends before its target.
            right -= 0.2 * (right - left)
        begin, end = (left, right) if step.to_server else (right, left)
        shape = CROSS if step.lost else "triangle-right" if step.to_server else "triangle-left"
        arrows.append({"x": begin, "to": end, "y": y, "dash": [4, 3] if step.lost else [1, 0], "what": step.label})
        heads.append(
            {
                "x": end if step.lost else end + (-5 if step.to_server else 5),
                "y": y,
                "shape": shape,
                "colour": QUEUEING if step.lost else LINE,
                "size": 40 if step.lost else 60,
                "what": step.label,
            }
        )
        labels.append({"x": (left + right) / 2, "y": y - 7, "text": step.label, "align": "center"})
    return arrows, heads, labels


def _bars(sequence: Sequence, down: dict[str, float]) -> list[dict[str, Any]]:
    bars = []
    for span in sequence.spans:
        colour, opacity = COLOURS[span.kind]
        x = (PROXY_IN if span.at_proxy else BACKEND_AT) + BAR * span.column
        bars.append(
            {
                "x": x,
                "to": x + BAR,
                "y": down[span.begin],
                "until": down[span.end],
                "colour": colour,
                "opacity": opacity,
                "kind": span.kind,
                "column": span.column,
                "where": "proxy" if span.at_proxy else "backend",
                "what": span.label,
                "ms": span.length / 1e6,
            }
        )
    return bars


def _bar_labels(bars: list[dict[str, Any]]) -> list[dict[str, Any]]:
    longest = max((bar["ms"] for bar in bars if bar["what"]), default=None)
    beside = {place: any(bar["column"] for bar in bars if bar["where"] == place) for place in ("proxy", "backend")}
    return [
        {
            # Two bars side by side have their labels under one another.
            "x": (PROXY_IN if bar["where"] == "proxy" else BACKEND_AT) + (2 if beside[bar["where"]] else 1) * BAR + 6,
            # y is the position of the first of two lines.
            "y": (bar["y"] + bar["until"]) / 2 - 7 * bar["what"].count("\n"),
            "text": bar["what"],
            "align": "left",
            "bold": bar["ms"] == longest,
        }
        for bar in bars
        if bar["what"]
    ]


def _times(sequence: Sequence, down: dict[str, float]) -> list[dict[str, Any]]:
    rows = [{"x": TIMES, "y": 0, "text": "ms", "align": "right"}]
    before: int | None = None
    for step in _timed(sequence):
        if step.at != before:
            rows.append({"x": TIMES, "y": down[step.key], "text": f"{step.at / 1e6:,.3f}", "align": "right"})
        before = step.at
    return rows


def _lanes(sequence: Sequence) -> list[dict[str, Any]]:
    lanes = (
        (CLIENT_AT, "client", sequence.client, "left"),
        ((PROXY_IN + PROXY_OUT) / 2, "proxy", "", "center"),
        (BACKEND_AT, "backend", sequence.backend, "center"),
    )
    return [
        {
            "x": at - 20 if align == "left" else at,
            "y": -1.6 * STEP,
            "text": f"{name}\n{_short(address)}",
            "align": align,
        }
        for at, name, address, align in lanes
    ]


def _short(address: str) -> str:
    """Return an address cut to ``ADDRESS`` characters; its end, with the port, remains."""
    return address if len(address) <= ADDRESS else "…" + address[1 - ADDRESS :]


def example_rows(timeline: pl.DataFrame) -> list[tuple[int, str]]:
    """Return the request that waited longest to reach the app and the median one: row of ``timeline``, remark.

    They are selected from requests on both sides of the proxy that opened their connection to the backend; if there are
    none, from those on a kept connection, then from those on one side only. Empty without requests.
    """
    waited = pl.coalesce("accept_wait", "accept_wait_upper", pl.lit(0.0)) + pl.col("syn_dropped").fill_null(0.0)
    answering = seconds_on_wire("backend_request_first", "backend_response_first")
    whole = seconds_on_wire("request_first", "response_first")
    both = pl.col("client_exchange").is_not_null() & pl.col("backend_exchange").is_not_null()
    opened = pl.col("backend_syn").is_not_null()
    choices = (
        (both & opened, waited, "queue before the app"),
        (opened, waited, "queue before the app"),
        (both, answering, "wait for the backend"),
        (pl.lit(True), pl.coalesce(answering, whole), "wait for an answer"),
    )
    rows = timeline.with_row_index("row")
    for among, measure, name in choices:
        candidates = rows.filter(among).select("row", seconds=measure).drop_nulls().sort("seconds", maintain_order=True)
        if len(candidates):
            of = f"of {counted(len(candidates), 'request')}"
            longest, middle = (
                int(candidates["row"][place]) for place in (len(candidates) - 1, (len(candidates) - 1) // 2)
            )
            examples = [(longest, f"the longest {name} {of}")]
            return examples if middle == longest else [*examples, (middle, f"the median {name} {of}, for comparison")]
    return []
