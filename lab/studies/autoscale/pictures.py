"""A picture per load: for each signal the workers over the offered load, and the queueing delay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sojourn.present.chart_libraries import alt
from sojourn.present.drawing import specification, svg
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

from studies.autoscale.recorded import Measured, Measurement

WIDTH, HEIGHT = 380, 90  # px
DELAYS = (0.001, 5.0)
"""Ends of the axis of delays, s; a delay outside is drawn at its end."""


def write_pictures(measurement: Measurement, folder: Path) -> list[Path]:
    """Write ``autoscale-LOAD.svg`` for each load, and return the files."""
    paths = []
    for load, signals in measurement.cases.items():
        path = folder / f"autoscale-{load}.svg"
        path.write_text(svg(specification(picture(signals))), encoding="utf-8")
        paths.append(path)
    return paths


def picture(signals: Mapping[str, Measured]) -> alt.VConcatChart:
    """Return the chart of one load; yardsticks with a fixed number of workers are left out."""
    rows = {name: each for name, each in signals.items() if not name.startswith("fixed")} or signals
    most = max(look["wanted"] for each in rows.values() for look in each.looks)
    return alt.vconcat(
        *(_row(name, each, most, last=number == len(rows)) for number, (name, each) in enumerate(rows.items(), 1)),
        spacing=8,
    )


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
