"""The sequence chart, laid out for people."""

from __future__ import annotations

import functools

import polars as pl

from sojourn.explain.result import SplitResult
from sojourn.explain.stays import GIVEN_UP, READ, SERVED
from sojourn.explain.visits import visits
from sojourn.explain.waiting.scene import Scene, scene_of
from sojourn.sections.section import Chart, Picture
from sojourn.words import briefly, printable

SHOWN = 24  # requests: of more the chart is longer than a screen


def sequence_picture(result: SplitResult) -> Picture:
    """Each of a few requests on its way from the client through nginx to a worker and back.

    Raises:
        SojournError: no request went to a backend.
    """
    names = result.rows.collect_schema().names()
    found = visits(result.rows, columns=[name for name in READ if name in names], waits_unknown=True)
    scene = scene_of(found, SHOWN, one_backend=True)
    at = f" at {printable(backend, 60)}" if (backend := scene.stays.table["backend"][0]) else ""
    which = (
        f"All {scene.requests:,} requests{at}"
        if scene.whole
        else f"{len(scene.stays.table):,} of {scene.requests:,} requests{at}, those around the deepest queue (another "
        "window is chosen by since and until)"
    )
    return Picture(
        "sequence",
        "Each request on its way",
        f"{which}. Time goes down: a bar beside the worker's line is a request that waits, a bar on it one in service, "
        "grey is work for nobody; the mark at the client says how it ended.",
        functools.partial(_drawn, scene),
        reading(scene),
    )


def reading(scene: Scene) -> str:
    """How many were served, and who waited longest."""
    table = scene.stays.table.with_columns(
        wait=pl.min_horizontal(pl.col("begin").fill_null(pl.col("left")), "left") - pl.col("arrival")
    )
    served = table.filter(pl.col("outcome") == SERVED).height
    gone = table.filter(pl.col("outcome") == GIVEN_UP).height
    longest = table.sort("wait", "number", descending=[True, False]).row(0, named=True)
    were = "was" if served == 1 else "were"
    given = f", {gone:,} given up on" if gone else ""
    return (
        f"Of {len(table):,} requests {served:,} {were} served{given}; #{longest['number']} waited longest, "
        f"{briefly(max(longest['wait'], 0.0))} ({longest['outcome']})."
    )


def _drawn(scene: Scene) -> Chart:
    from sojourn.charts.sequence import sequence_chart  # noqa: PLC0415 - drawn for pages and files only

    return sequence_chart(scene.stays.table)
