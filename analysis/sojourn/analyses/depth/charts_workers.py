"""The Gantt chart of workers: the requests each of them served, and above them the requests that waited."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt
from sojourn.present.chart_sizes import COARSE, WIDTH
from sojourn.present.palette import OTHER, QUEUEING, SERVICE, UNKNOWN_TIME
from sojourn.timeline.busiest_excerpt import Scene
from sojourn.timeline.request_timelines import SERVED

WAITING, WORKING, ABANDONED, UNKNOWN = "waiting", "in service", "client gone", "unknown"
COLOURS = {WAITING: QUEUEING, WORKING: SERVICE, ABANDONED: OTHER, UNKNOWN: UNKNOWN_TIME}
BACKENDS = 8
LANES = 24  # of workers, of all backends
LINE, GAP, BETWEEN = 14, 3, 20  # pixels: a worker's lane, between two of them, between two backends
QUEUE = 260  # pixels for waiting requests, of all backends
THIN, THICK, FEW_THICK = 1.5, 7.0, 13.0  # pixels of a waiting request: least, most, most of few requests
FEW = 24  # maximum number of requests with number labels
APART = 0.0015  # of the chart's width, between one request of a worker and the next
NUMBERED = 0.04  # of the chart's width: the shortest bar with a number in it

Bar = dict[str, Any]


@dataclass
class Block:
    """A backend: bars of waiting requests with their place in the queue, and lanes of workers."""

    name: str
    waiting: list[tuple[int, Bar]] = field(default_factory=list)
    lanes: dict[str, list[Bar]] = field(default_factory=dict)

    @property
    def places(self) -> int:
        """The longest queue."""
        return max((place + 1 for place, _ in self.waiting), default=0)


def blocks_of(scene: Scene) -> list[Block]:
    """Return the backends of a scene, those with the most waiting, by name; bars in seconds after the scene's begin.

    A request waits in the first free place of its backend's queue. A worker that serves several requests at a time
    (threads) has as many lanes. A request without a worker name (its response came too late) is drawn on the lane of a
    worker that was free, or else on a lane of its own.
    """
    shift = (scene.timelines.first - scene.begin).total_seconds()
    until = (scene.end - scene.begin).total_seconds()
    blocks: dict[str | None, Block] = {}
    for (name,), table in scene.timelines.table.sort("arrival").group_by("backend", maintain_order=True):
        text = None if name is None else str(name)
        rows = [_shifted(row, shift) for row in table.to_dicts()]
        block = blocks[text] = Block(printable(text or "–", 40))
        block.waiting = _line(rows, until)
        block.lanes = _lanes(rows, until)
    waited = {name: sum(bar["seconds"] for _, bar in block.waiting) for name, block in blocks.items()}
    chosen: list[Block] = []
    for name in sorted(blocks, key=lambda name: (-waited[name], name or "")):
        lanes = sum(len(block.lanes) for block in [*chosen, blocks[name]])
        if not chosen or (len(chosen) < BACKENDS and lanes <= LANES):
            chosen.append(blocks[name])
    return sorted(chosen, key=lambda block: block.name)


def _shifted(row: Bar, shift: float) -> Bar:
    """Return a row with its instants in seconds after the scene's begin."""
    instants = ("arrival", "begin", "end", "left")
    return {**row, **{name: row[name] + shift for name in instants if row[name] is not None}}


def _line(rows: list[Bar], until: float) -> list[tuple[int, Bar]]:
    """Return the bars of waiting requests with their places in the queue."""
    places: list[float] = []
    line = []
    for row in rows:
        come, left = row["arrival"], row["left"]
        leave = left if row["begin"] is None else row["begin"]
        place = next((number for number, free in enumerate(places) if free <= come), len(places))
        places[place : place + 1] = [leave]
        what = WAITING if row["wait_known"] else UNKNOWN
        bars = (_bar(row, what, come, min(leave, left), until), _bar(row, ABANDONED, max(come, left), leave, until))
        line += [(place, bar) for bar in bars if bar]
    return line


def _lanes(rows: list[Bar], until: float) -> dict[str, list[Bar]]:
    """Return worker -> bars of its requests, by the names of the workers."""
    served = sorted(
        (row for row in rows if row["begin"] is not None and row["end"] is not None), key=lambda r: r["begin"]
    )
    occupied: dict[tuple[str, int], list[tuple[float, float]]] = {}
    lanes: dict[tuple[str, int], list[Bar]] = {}
    for has_name in (True, False):
        for row in served:
            if (row["worker"] is not None) != has_name:
                continue
            worker, begin, end = printable(row["worker"] or ""), row["begin"], row["end"]
            able = [lane for lane in occupied if not has_name or lane[0] == worker]
            free = [lane for lane in able if not _meets(occupied[lane], begin, end)]
            own = (worker, 1 + max((number for name, number in occupied if name == worker), default=0))
            # A named worker keeps its first lane; other requests go to the worker that became free last.
            lane = (
                min(free, default=own)
                if has_name
                else max(free, key=lambda x: _free_since(occupied[x], begin), default=own)
            )
            occupied.setdefault(lane, []).append((begin, end))
            good = end if row["outcome"] == SERVED else min(end, max(row["left"], begin))
            bars = (_bar(row, WORKING, begin, good, until), _bar(row, ABANDONED, good, end, until))
            lanes.setdefault(lane, []).extend(bar for bar in bars if bar)
    # Next to names, a plain number would look like a name.
    unnamed = "–" if any(name for name, _ in lanes) else ""
    return {
        (f"{name or unnamed} ({number})" if number > 1 else name or unnamed) if name or unnamed else f"{number}": bars
        for (name, number), bars in sorted(lanes.items())
        if bars
    }


def _free_since(intervals: list[tuple[float, float]], begin: float) -> float:
    """Return the end of the last interval that began before an instant."""
    return max((last for first, last in intervals if first < begin), default=float("-inf"))


def _meets(intervals: list[tuple[float, float]], begin: float, end: float) -> bool:
    """Return whether an interval overlaps this one by more than the resolution of the clocks explains."""
    return any(
        min(end, last) - max(begin, first) > min(COARSE, (end - begin) / 2, (last - first) / 2)
        for first, last in intervals
    )


def _bar(row: Bar, what: str, begin: float, end: float, until: float) -> Bar | None:
    """Return a bar of one request, clipped to the chart; None outside of it."""
    first, last = max(begin, 0.0), min(end, until)
    if last <= first:
        return None
    labels = {"request": f"#{row['number']}", "route": printable(row["route"] or "–", 40)}
    seconds = float(f"{end - begin:.4g}")
    return {"what": what, "from": round(first, 4), "to": round(last, 4), "seconds": seconds, **labels}


def workers_gantt(scene: Scene) -> alt.LayerChart:
    """Draw a lane per worker, blue while it is held, and above a backend's lanes a thin line per waiting request."""
    blocks = blocks_of(scene)
    few = len(scene.timelines.table) <= FEW
    thick = FEW_THICK if few else THICK
    thin = min(max(QUEUE / max(sum(block.places for block in blocks), 1), THIN), thick)
    whole = (scene.end - scene.begin).total_seconds()
    bars, names, y = [], [], 0.0
    for block in blocks:
        names.append({"name": block.name, "y": y + 7, "bold": 1})
        room = max(block.places * thin, LINE)
        for place, bar in block.waiting:
            # The first request of the queue is next to the workers.
            bottom = y + room - place * thin
            bars.append({**bar, "y": round(bottom - thin, 1), "y2": round(bottom - min(0.3, thin / 5), 1)})
        y += room + GAP
        for lane, services in block.lanes.items():
            bars += [{**_apart(bar, APART * whole), "y": y, "y2": y + LINE} for bar in services]
            names.append({"name": f"worker {lane}", "y": y + LINE / 2, "bold": 0})
            y += LINE + GAP
        y += BETWEEN
    height = max(y - BETWEEN, LINE)
    scale = alt.Scale(domain=[0, height], reverse=True, nice=False)
    begun = round(scene.begin.timestamp() * 1000)
    x = alt.X("begin:T", title="time (UTC)", scale=alt.Scale(type="utc", nice=False))
    kinds = [what for what in COLOURS if any(bar["what"] == what for bar in bars)]
    drawn = (
        alt.Chart(alt.InlineData(values=bars))
        .mark_rect(stroke=None)
        .transform_calculate(begin=f"{begun} + 1000 * datum.from", end=f"{begun} + 1000 * datum.to")
        .encode(
            x=x,
            x2=alt.X2("end:T"),
            y=alt.Y("y:Q", scale=scale, axis=None),
            y2=alt.Y2("y2:Q"),
            color=alt.Color("what:N", title=None, scale=alt.Scale(domain=kinds, range=[COLOURS[w] for w in kinds])),
            tooltip=[
                alt.Tooltip("request:N"),
                alt.Tooltip("route:N"),
                alt.Tooltip("what:N"),
                alt.Tooltip("seconds:Q", title="seconds", format=".4~g"),
                alt.Tooltip("begin:T", title="from", format="%H:%M:%S.%L"),
            ],
        )
    )
    labels = [
        alt.Chart(
            alt.InlineData(values=[{"name": each["name"], "y": each["y"]} for each in names if each["bold"] == bold])
        )
        .mark_text(align="right", dx=-8, baseline="middle", fontWeight="bold" if bold else "normal", limit=190)
        .encode(x=alt.value(0), y=alt.Y("y:Q", scale=scale, axis=None), text=alt.Text("name:N"))
        for bold in (1, 0)
    ]
    chart = drawn + labels[0] + labels[1]
    if few:
        chart += (
            alt.Chart(alt.InlineData(values=_numbered(bars, NUMBERED * whole)))
            .mark_text(align="left", dx=3, baseline="middle", fontSize=10)
            .transform_calculate(begin=f"{begun} + 1000 * datum.from")
            .encode(
                x=alt.X("begin:T", title="time (UTC)"),
                y=alt.Y("middle:Q", scale=scale, axis=None),
                text=alt.Text("request:N"),
                color=alt.condition(f"datum.what == '{WORKING}'", alt.value("#ffffff"), alt.value("#000000")),
            )
        )
    return chart.properties(width=WIDTH - 40, height=round(height))


def _apart(bar: Bar, gap: float) -> Bar:
    """Return a bar that ends a little before the next one begins, unless it is too short to spare that."""
    return {**bar, "to": round(bar["to"] - gap, 4)} if bar["to"] - bar["from"] > 3 * gap else bar


def _numbered(bars: list[Bar], least: float) -> list[Bar]:
    """Return the places of the number labels: bars with room for them."""
    return [
        {"from": bar["from"], "middle": (bar["y"] + bar["y2"]) / 2, "request": bar["request"], "what": bar["what"]}
        for bar in bars
        if bar["to"] - bar["from"] >= least and bar["what"] != ABANDONED
    ]
