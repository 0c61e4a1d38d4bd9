"""The sequence chart: every request from the client through nginx to a worker and back."""

from __future__ import annotations

from typing import Any

import polars as pl

from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import COARSE
from sojourn.present.palette import OTHER, QUEUEING, SERVICE, UNKNOWN_TIME
from sojourn.timeline.request_timelines import GIVEN_UP, SERVED, TURNED_AWAY
from sojourn.timeline.steps import Steps

MOST = 60
"""Maximum number of requests with their own labels."""

CLIENT, NGINX, WORKER = 0.0, 1.0, 2.0
LANES = {CLIENT: "client", NGINX: "nginx", WORKER: "worker"}
WAITING, WORKING, ABANDONED, UNKNOWN = "waiting", "work", "client gone", "unknown"
COLOURS = {WAITING: QUEUEING, WORKING: SERVICE, ABANDONED: OTHER, UNKNOWN: UNKNOWN_TIME}
WIDTH, LEAST_HEIGHT = 560, 320
SIDE = 0.05  # lanes between one waiting request and the next
SHORTEST = 1e-3  # s: the shortest time axis
ROOM = 0.85  # lanes for all requests that wait at one time, between nginx and the worker


def sequence_chart(timelines: pl.DataFrame, title: str = "") -> alt.LayerChart:
    """Draw requests one by one; time goes down.

    Each request is a line from the client through nginx to the worker, a bar next to the worker's line while it waits,
    a bar on the line while it is in service (several workers side by side), grey after the client has gone, and a line
    back: from the worker, or, for an abandoned request, from nginx. A bar of unknown time has a colour of its own.

    Args:
        timelines: columns of ``sojourn.timeline.request_timelines.TIMELINE``; the first ``MOST`` rows are drawn.
        title: title of the chart.
    """
    table = timelines.head(MOST)
    bars = _bars(table)
    arrows = _arrows(table)
    ends = [
        {"lane": CLIENT, "t": row["left"], "what": row["outcome"], "request": f"#{row['number']}"}
        for row in table.to_dicts()
    ]
    kinds = [what for what in COLOURS if what != UNKNOWN or any(bar["what"] == what for bar in bars)]
    last = max([bar["end"] for bar in bars] + [each["t"] for each in ends] + [SHORTEST])

    def down(field: str) -> alt.Y:
        scale = alt.Scale(domain=[0, last * 1.02], reverse=True, nice=False)
        return alt.Y(field, scale=scale, title="seconds since the first request")

    labels = " || ".join(f"datum.value == {int(lane)} ? '{name}'" for lane, name in LANES.items())
    x = alt.X(
        "lane:Q",
        scale=alt.Scale(domain=[-0.6, 2.3], nice=False),
        axis=alt.Axis(values=list(LANES), labelExpr=labels.replace(" || ", " : ") + " : ''", grid=True, orient="top"),
        title=None,
    )
    waits = (
        alt.Chart(alt.InlineData(values=bars))
        .mark_bar(width=6, tooltip=True)
        .encode(
            x=x,
            y=down("begin:Q"),
            y2=alt.Y2("end:Q"),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=kinds, range=[COLOURS[w] for w in kinds])),
            tooltip=[alt.Tooltip("request:N"), alt.Tooltip("what:N"), alt.Tooltip("seconds:Q", format=".4~g")],
        )
    )
    ways = (
        alt.Chart(alt.InlineData(values=arrows))
        .mark_rule(color="#808080", strokeWidth=1)
        .encode(x=x, x2=alt.X2("to:Q"), y=down("t:Q"), y2=alt.Y2("until:Q"))
    )
    numbers = (
        alt.Chart(alt.InlineData(values=_names(table)))
        .mark_text(align="right", fontSize=11)
        .encode(x=x, y=down("t:Q"), text=alt.Text("request:N"))
    )
    crosses = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_point(size=70, filled=False, strokeWidth=2)
        .encode(
            x=x,
            y=down("t:Q"),
            shape=alt.Shape(
                "what:N",
                title=None,
                scale=alt.Scale(domain=[SERVED, GIVEN_UP, TURNED_AWAY], range=["circle", "cross", "triangle-down"]),
            ),
            color=alt.value("#808080"),
            tooltip=[alt.Tooltip("request:N"), alt.Tooltip("what:N"), alt.Tooltip("t:Q", format=".4~g")],
        )
    )
    height = max(LEAST_HEIGHT, 40 * len(table))
    return (ways + waits + numbers + crosses).properties(width=WIDTH, height=height, title=title)


def _bars(table: pl.DataFrame) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    ends = table.select(pl.coalesce("begin", "left")).to_series()
    most_waiting = int(Steps.of(table["arrival"].to_numpy(), ends.to_numpy()).level.max(initial=0))
    side = min(SIDE, ROOM / (most_waiting + 2))

    def add(what: str, lane: float, begin: float, end: float, number: int) -> None:
        if end > begin:
            bars.append(
                {
                    "what": what,
                    "lane": lane,
                    "begin": begin,
                    "end": end,
                    "seconds": end - begin,
                    "request": f"#{number}",
                }
            )

    # Requests that wait at one time are drawn side by side.
    places: list[float] = []
    workers: list[float] = []
    for row in table.to_dicts():
        number, begin, end, left = row["number"], row["begin"], row["end"], row["left"]
        until = left if begin is None else begin
        place = next((n for n, free in enumerate(places) if free <= row["arrival"]), len(places))
        places[place : place + 1] = [until]
        lane = WORKER - side * (place + 2)
        add(UNKNOWN if row.get("wait_known") is False else WAITING, lane, row["arrival"], min(until, left), number)
        add(ABANDONED, lane, max(row["arrival"], left), until, number)
        if begin is not None and end is not None:
            at = next((n for n, free in enumerate(workers) if free <= begin + COARSE), len(workers))
            workers[at : at + 1] = [end]
            worker = WORKER + SIDE * at
            add(WORKING, worker, begin, min(end, max(left, begin)), number)
            add(ABANDONED, worker, max(begin, left), end, number)
    return bars


def _names(table: pl.DataFrame) -> list[dict[str, Any]]:
    # Labels of requests that arrive at nearly one time would overlap.
    columns, apart = (6, 0.09) if max(table["number"].to_list(), default=0) < 100 else (4, 0.15)
    return [
        {
            "lane": CLIENT - 0.03 - apart * ((row["number"] - 1) % columns),
            "t": row["arrival"],
            "request": f"#{row['number']}",
        }
        for row in table.to_dicts()
    ]


def _arrows(table: pl.DataFrame) -> list[dict[str, Any]]:
    arrows = []
    for row in table.to_dicts():
        come, left, name = row["arrival"], row["left"], f"#{row['number']}"
        arrows.append({"lane": CLIENT, "to": NGINX, "t": come, "until": come, "request": name})
        arrows.append({"lane": NGINX, "to": WORKER - SIDE, "t": come, "until": come, "request": name})
        # The backend's response, or nginx's own after it gave up.
        start = NGINX if row["outcome"] == GIVEN_UP else WORKER
        arrows.append({"lane": start, "to": CLIENT, "t": left, "until": left, "request": name})
        if row["outcome"] == GIVEN_UP and row["end"] is not None:
            arrows.append({"lane": WORKER, "to": NGINX + 0.1, "t": row["end"], "until": row["end"], "request": name})
    return arrows
