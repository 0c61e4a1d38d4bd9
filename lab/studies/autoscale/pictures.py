"""The pictures of a load: each signal over the time, and the front of attainment and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sojourn.present.chart_libraries import alt
from sojourn.present.drawing import specification, svg
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

from studies.autoscale.recorded import FLOOR, Cell, Measured, Measurement, Point
from studies.autoscale.simulated import SimulatedSetting

WIDTH, HEIGHT = 380, 90  # px
DELAYS = (0.001, 5.0)
"""Ends of the axis of delays, s; a delay outside is drawn at its end."""


FRONT_WIDTH, FRONT_HEIGHT = 520, 340  # px

COLOURS = {
    "cpu": "#bbbbbb",
    "cpu_of_busy": "#E69F00",
    "in_flight": "#56B4E9",
    "queueing_delay": QUEUEING,
    "knative": "#009E73",
    "aws_tracking": "#CC79A7",
    "workers_needed": "#8c7a00",
    "workers_live": SERVICE,
}


def write_pictures(
    measurement: Measurement, simulated: Mapping[str, Sequence[SimulatedSetting]], folder: Path
) -> list[Path]:
    """Write ``autoscale-LOAD.svg`` for each load and, where signals have settings, the fronts; return the files."""
    charts: dict[str, alt.VConcatChart | alt.LayerChart] = {}
    for load, cells in measurement.cases.items():
        charts[f"autoscale-{load}.svg"] = picture(cells)
        if has_front(measurement.lines(load)):
            autoscaled = [cell for cell in cells.values() if not cell.is_fixed]
            charts[front_name(load)] = front_picture([Point(cell, cell.within, cell.cost) for cell in autoscaled])
        if simulated.get(load):
            charts[front_name(load, "simulated")] = front_picture([each.point for each in simulated[load]])
    for name, chart in charts.items():
        (folder / name).write_text(svg(specification(chart)), encoding="utf-8")
    return [folder / name for name in charts]


def front_name(load: str, of: str = "measured") -> str:
    """Return the name of the file with the front of a load, ``of`` the measured or the simulated settings."""
    return f"autoscale-{load}-front-{of}.svg"


def has_front(lines: Mapping[str, Sequence[Cell]]) -> bool:
    """Return whether any series has more than one setting, with points in the picture."""
    return any(sum(cell.within.mean >= FLOOR for cell in line) > 1 for line in lines.values())


def picture(cells: Mapping[str, Cell]) -> alt.VConcatChart:
    """Return the chart of one load, with the default settings; fixed numbers of workers are left out."""
    defaults = {name: cell for name, cell in cells.items() if not cell.setting} or cells
    rows = {name: cell.first for name, cell in defaults.items() if not cell.is_fixed}
    rows = rows or {name: cell.first for name, cell in defaults.items()}
    most = max(look["wanted"] for each in rows.values() for look in each.looks)
    return alt.vconcat(
        *(_row(name, each, most, last=number == len(rows)) for number, (name, each) in enumerate(rows.items(), 1)),
        spacing=8,
    )


def front_picture(points: Sequence[Point]) -> alt.LayerChart:
    """Return attainment against cost: a line per series through its settings, with their ranges."""
    rows = [
        {
            "signal": point.cell.signal,
            "hold": f"hold {point.cell.hold:g} s",
            "order": point.cell.value,
            "default": not point.cell.setting,
            **{f"cost_{end}": getattr(point.cost, end) for end in ("mean", "low", "high")},
            **{f"within_{end}": getattr(point.within, end) for end in ("mean", "low", "high")},
        }
        for point in points
        if point.within.mean >= FLOOR
    ]
    signals = list(dict.fromkeys(row["signal"] for row in rows))
    scale = alt.Scale(domain=signals, range=[COLOURS[signal] for signal in signals])
    colour = alt.Color("signal:N", title=None, scale=scale)
    holds = list(dict.fromkeys(row["hold"] for row in rows))
    dash = alt.StrokeDash("hold:N", title=None, scale=alt.Scale(domain=holds, range=[[1, 0], [6, 3]][: len(holds)]))
    zero = alt.Scale(zero=False)
    percent = alt.Axis(format="%", labelFlush=False)
    x = alt.X("cost_mean:Q", title="worker-seconds, of the yardstick's", scale=zero, axis=percent)
    y = alt.Y("within_mean:Q", title="requests within the objective", scale=zero, axis=percent)
    base = _chart(rows)
    filled = alt.condition(alt.datum.default, colour, alt.value("white"))
    fixed = _chart(_fixed_rows(points[0].cell))
    return alt.LayerChart(layer=[
        fixed.mark_line(color=OTHER, strokeDash=[4, 3], point={"color": OTHER, "size": 15})
        .encode(x=x, y=y, order="order:Q"),
        base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour, strokeDash=dash, order="order:Q"),
        base.mark_rule().encode(x=alt.X("cost_low:Q"), x2="cost_high:Q", y=y, color=colour),
        base.mark_rule().encode(x=x, y=alt.Y("within_low:Q"), y2="within_high:Q", color=colour),
        base.mark_point(filled=True, size=55, opacity=1).encode(x=x, y=y, fill=filled, stroke=colour),
    ]).properties(width=FRONT_WIDTH, height=FRONT_HEIGHT)  # fmt: skip


def _fixed_rows(cell: Cell) -> list[dict[str, Any]]:
    """Return the points of the replayed fixed numbers; they are of the requests of the cell."""
    one = cell.first
    oracle = one.figures["oracle"]["mean"]
    return [
        {"order": each["workers"], "cost_mean": each["workers"] / oracle, "within_mean": each["within_share"]}
        for each in one.fixed
        if each["within_share"] >= FLOOR
    ]


def _row(name: str, measured: Measured, most: int, *, last: bool) -> alt.HConcatChart:
    end = sum(each["seconds"] for each in measured.windows)
    axis = alt.Axis(title="s" if last else None, labels=last, ticks=last)
    x = alt.X("at:Q", scale=alt.Scale(domain=[0.0, end], nice=False), axis=axis)
    return alt.hconcat(
        _workers(measured, most, x).properties(width=WIDTH, height=HEIGHT, title=alt.Title(name, anchor="start")),
        _delays(measured, x).properties(width=WIDTH, height=HEIGHT),
    )


def _workers(measured: Measured, most: int, x: alt.X) -> alt.LayerChart:
    """Return the number of workers that was set, over the workers needed (line) and the offered load (area)."""
    service = measured.case.mean_service_time
    windows = _stepped(measured.windows)
    y = alt.Y("workers:Q", title="workers", scale=alt.Scale(domain=[0, most + 1], nice=False))
    load = [{"at": each["at"], "workers": each["rate"] * service} for each in windows]
    needed = [{"at": each["at"], "workers": each["needed"]} for each in windows]
    looks = _clipped([{"at": each["time"], "workers": each["wanted"]} for each in measured.looks], windows[-1]["at"])
    return alt.LayerChart(layer=[
        _chart(load).mark_area(interpolate="step-after", color=OTHER, opacity=0.35).encode(x=x, y=y),
        _chart(needed).mark_line(interpolate="step-after", color=OTHER, strokeWidth=1.2).encode(x=x, y=y),
        _chart(looks).mark_line(interpolate="step-after", color=SERVICE, strokeWidth=2).encode(x=x, y=y),
    ])  # fmt: skip


def _delays(measured: Measured, x: alt.X) -> alt.LayerChart:
    """Return the 95th percentile of the queueing delay in each window, and the objective's threshold."""
    low, high = DELAYS
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    y = alt.Y("delay:Q", title="p95, s", scale=scale, axis=alt.Axis(values=[0.001, 0.01, 0.1, 1.0]))
    rows = [
        {"at": each["at"], "delay": high if each["delay"] is None else min(max(each["delay"], low), high)}
        for each in _stepped(measured.windows)
    ]
    threshold = [{"delay": measured.settings.threshold}]
    return alt.LayerChart(layer=[
        _chart(threshold).mark_rule(color=OTHER, strokeDash=[4, 3]).encode(y=y),
        _chart(rows).mark_line(interpolate="step-after", color=QUEUEING, strokeWidth=2).encode(x=x, y=y),
    ])  # fmt: skip


def _chart(rows: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=rows))


def _stepped(windows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the windows with `at` at their beginning, and the last one again at its end: steps need it."""
    steps = [{**each, "at": each["at"] - each["seconds"] / 2.0} for each in windows]
    return [*steps, {**windows[-1], "at": windows[-1]["at"] + windows[-1]["seconds"] / 2.0}]


def _clipped(steps: list[dict[str, Any]], end: float) -> list[dict[str, Any]]:
    """Return the steps from 0 to the end: the last one before 0 moves to 0, and the last one is there at the end."""
    before = [{**each, "at": 0.0} for each in steps if each["at"] <= 0.0][-1:]
    inside = before + [each for each in steps if 0.0 < each["at"] < end]
    return [*inside, {**inside[-1], "at": end}] if inside else []
