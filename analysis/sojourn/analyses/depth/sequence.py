"""The sequence chart with its title, caption and finding."""

from __future__ import annotations

import functools

import polars as pl

from sojourn.analyses.depth.charts_sequence import sequence_chart
from sojourn.model.formatting import counted, duration, printable
from sojourn.present.section import Picture
from sojourn.timeline.busiest_excerpt import Scene, scene_of
from sojourn.timeline.request_timelines import GIVEN_UP, READ, SERVED, WAITED
from sojourn.timeline.visits import visits

DRAWN = 24  # requests: with more the chart is longer than a screen


def sequence_picture(rows: pl.LazyFrame) -> Picture:
    """Return the sequence chart of the busiest excerpt: client, nginx, worker and back, request by request.

    Args:
        rows: requests with the columns of ``sojourn.timeline.request_timelines.READ`` that were read.

    Raises:
        SojournError: no request went to a backend.
    """
    names = rows.collect_schema().names()
    visits_read = visits(rows, columns=[name for name in READ if name in names], waits_unknown=True)
    scene = scene_of(visits_read, DRAWN, one_backend=True)
    at = f" at {printable(backend, 60)}" if (backend := scene.timelines.table["backend"][0]) else ""
    which = (
        f"All requests{at} ({scene.requests:,})"
        if scene.whole
        else f"{len(scene.timelines.table):,} of {counted(scene.requests, 'request')}{at}, those around the deepest "
        "queue (since and until select another window)"
    )
    return Picture(
        "sequence",
        "Requests from client to worker and back",
        f"{which}. Time goes down. A bar next to the worker's line is a request that waits, a bar on the line is a "
        "request in service, grey is work after the client had gone, and the mark at the client is the outcome.",
        functools.partial(sequence_chart, scene.timelines.table),
        reading(scene),
    )


def reading(scene: Scene) -> str:
    """Describe how many requests were served, and the longest known wait."""
    table = scene.timelines.table.with_columns(wait=WAITED)
    served = table.filter(pl.col("outcome") == SERVED).height
    gone = table.filter(pl.col("outcome") == GIVEN_UP).height
    were = "was" if served == 1 else "were"
    abandoned = f", {gone:,} given up on" if gone else ""
    text = f"Of {counted(len(table), 'request')} {served:,} {were} served{abandoned}"
    waits = table.filter("wait_known")
    if waits.is_empty():
        return f"{text}; their queueing delay is unknown."
    longest = waits.sort("wait", "number", descending=[True, False]).row(0, named=True)
    if longest["wait"] <= 0:
        return f"{text}; no request is known to have waited."
    return f"{text}; #{longest['number']} waited longest, {duration(longest['wait'])} ({longest['outcome']})."
