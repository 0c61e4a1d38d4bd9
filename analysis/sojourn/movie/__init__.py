"""The queue as it happened, moving: one self-contained page with play, pause and a slider."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

import jinja2
import polars as pl

from sojourn import __version__
from sojourn.files import written_whole
from sojourn.palette import OTHER, QUEUEING, SERVICE
from sojourn.words import printable

MOST = 2_000
"""Requests in one line; a browser draws no more of them in time."""


def write_movie(
    scenes: Mapping[str, pl.DataFrame],
    path: str | os.PathLike[str],
    *,
    title: str,
    workers: Mapping[str, int] | None = None,
) -> None:
    """Write the page, whole or not at all; it needs no network.

    Args:
        scenes: name -> stays (columns of ``sojourn.explain.stays.STAY``), shown one below the other on one clock, which
            begins with the first arrival of each.
        path: the file to write.
        title: heading.
        workers: name -> how many workers to draw; by default as many as were ever busy at one time.

    Raises:
        SojournError: the file cannot be written.
    """
    page = movie(scenes, title=title, workers=workers)
    with written_whole(path) as partial:
        partial.write_text(page, encoding="utf-8")


def movie(scenes: Mapping[str, pl.DataFrame], *, title: str, workers: Mapping[str, int] | None = None) -> str:
    """The page as text; arguments as of ``write_movie``."""
    told = workers or {}
    data = [scene(name, stays.head(MOST), told.get(name)) for name, stays in scenes.items()]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sojourn.movie", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("movie.html").render(
        title=printable(title, 200),
        # Inside <script>, "<" must not be able to end the element, whatever text the data hold.
        data=json.dumps(data).replace("<", "\\u003c"),
        queueing=QUEUEING,
        service=SERVICE,
        other=OTHER,
        version=__version__,
    )


def scene(name: str, stays: pl.DataFrame, workers: int | None = None) -> dict[str, object]:
    """What the page needs of one queue: every request with the worker's place it was served at, from 0.

    Places are given out in the order in which work began, the lowest free one first.
    """
    rows = stays.to_dicts()
    places = places_of([(row["begin"], row["end"]) for row in rows])
    requests = [
        {
            "n": row["number"],
            "arrival": row["arrival"],
            "begin": row["begin"],
            "end": row["end"],
            "left": row["left"],
            "outcome": row["outcome"],
            "place": place,
        }
        for row, place in zip(rows, places, strict=True)
    ]
    most = max([place + 1 for place in places if place is not None], default=1)
    return {"name": printable(name, 80), "requests": requests, "workers": max(most, workers or 1)}


def places_of(work: Sequence[tuple[float | None, float | None]]) -> list[int | None]:
    """For each (begin, end) the lowest place that is free at its begin; None for what was never begun."""
    free_at: list[float] = []
    places: list[int | None] = [None] * len(work)
    begun = sorted((begin, index) for index, (begin, end) in enumerate(work) if begin is not None and end is not None)
    for begin, index in begun:
        # A microsecond: instants are known no better.
        place = next((n for n, free in enumerate(free_at) if free <= begin + 1e-6), len(free_at))
        free_at[place : place + 1] = [work[index][1] or begin]
        places[index] = place
    return places
