"""Charts of depth, and the finding of each in one sentence."""

from __future__ import annotations

import functools

import polars as pl

from sojourn.analyses.depth.analysis import ALL, DepthResult
from sojourn.analyses.depth.charts import depth_on_arrival, depth_over_time
from sojourn.analyses.depth.charts_workers import workers_gantt
from sojourn.model.formatting import counted, duration, percent, printable
from sojourn.present.section import Picture
from sojourn.timeline.busiest_excerpt import Scene
from sojourn.timeline.classes import NO_VALUE
from sojourn.timeline.request_timelines import SERVED, WAITED


def depth_pictures(result: DepthResult) -> tuple[Picture, ...]:
    """Return the charts over time, on arrival, and of each worker; empty without requests."""
    if not result.requests:
        return ()
    pictures = [
        Picture(
            "depth-over-time",
            "Waiting and in service over time",
            f"Requests waiting (above) and in service (below), averages over {duration(result.width)}; the dashed line "
            "is the number of workers.",
            functools.partial(depth_over_time, result),
            over_time_reading(result),
        ),
        Picture(
            "depth-on-arrival",
            "Queue length on arrival",
            "Requests by the number waiting at their backend when they arrived, and their mean wait.",
            functools.partial(depth_on_arrival, result),
            on_arrival_reading(result),
        ),
    ]
    if result.scene is not None:
        pictures.append(
            Picture(
                "workers",
                "Workers and waiting requests, one by one",
                f"{_drawn(result.scene)} Each thick bar is a request in service, one lane per worker; each thin line "
                "above the workers of a backend is a request that waits for one of them. Grey: nginx or the client "
                "had given up. Of many backends, those with the most waiting are drawn.",
                functools.partial(workers_gantt, result.scene),
                workers_reading(result.scene),
            )
        )
    return tuple(pictures)


def over_time_reading(result: DepthResult) -> str:
    """Describe the window with the most waiting, and the average."""
    whole = result.over_time.filter(pl.col("upstream") == ALL).sort("waiting", descending=True)
    if whole.is_empty():
        return "No windows: 0 requests."
    top = whole.row(0, named=True)
    overall = result.overall
    workers = f"{overall['workers']:,} {'worker was' if overall['workers'] == 1 else 'workers were'} busy"
    if top["waiting"] <= 0:
        return f"No request waited; on average {overall['in_service']:.2f} of {workers}."
    return (
        f"The longest queue was in the {duration(result.width)} from {top['begin']:%H:%M:%S} UTC on: "
        f"{top['waiting']:.1f} requests on average, while {top['in_service']:.1f} of {workers}; the average over the "
        f"whole time is {overall['waiting']:.2f}."
    )


def on_arrival_reading(result: DepthResult) -> str:
    """Describe arrivals at an empty queue, and arrivals at the longest queue."""
    rows = result.seen.to_dicts()
    if not rows:
        return "No arrivals: 0 requests."
    first, last = rows[0], rows[-1]
    if first["high"] > 0:
        text = "No request arrived at an empty queue"
    else:
        text = (
            f"{percent(first['share'])} of requests arrived at an empty queue and waited {duration(first['wait'])} on "
            "average"
        )
    if len(rows) == 1:
        return text + "."
    deepest = f"{last['low']:,}" if last["low"] == last["high"] else f"{last['low']:,} to {last['high']:,}"
    return f"{text}; the {last['requests']:,} that arrived behind {deepest} waited {duration(last['wait'])}."


def workers_reading(scene: Scene) -> str:
    """State the busy time of the workers in the picture, its abandoned share, and the longest queue."""
    table = scene.timelines.table
    worked = table.filter(pl.col("begin").is_not_null() & pl.col("end").is_not_null())
    held = float(worked.select((pl.col("end") - pl.col("begin")).sum()).item())
    until = pl.min_horizontal("end", pl.max_horizontal("left", "begin"))
    lost = worked.filter(pl.col("outcome") != SERVED).select((pl.col("end") - until).sum()).item()
    sums = table.group_by("backend").agg(wait=WAITED.sum()).sort("wait", "backend", descending=[True, False])
    backend, waited = sums.row(0)
    abandoned = f", {percent(float(lost) / held)} of it for clients already gone" if held > 0 and lost > 0 else ""
    most = f"the most waiting was at {printable(backend or NO_VALUE, 60)}, {duration(waited)} in all"
    served = f"{counted(len(table), 'request')} held workers for {duration(held)}{abandoned}"
    return f"{served}; {most if waited > 0 else 'no request waited'}."


def _drawn(scene: Scene) -> str:
    if scene.whole:
        return f"{counted(scene.requests, 'request')}, all that went to a backend."
    return (
        f"{len(scene.timelines.table):,} of {counted(scene.requests, 'request')}, those around the deepest queue, from "
        f"{scene.begin:%H:%M:%S} to {scene.end:%H:%M:%S} UTC; since and until select another window."
    )
