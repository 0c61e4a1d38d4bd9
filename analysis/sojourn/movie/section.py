"""The section of ``sojourn movie``."""

from __future__ import annotations

import os

from sojourn.model.formatting import duration, iso
from sojourn.movie.film import Film
from sojourn.present.section import Section, Table
from sojourn.timeline.request_timelines import GIVEN_UP, SERVED, TURNED_AWAY

HEADINGS = ("scene", "requests", "served", "given up", "turned away", "most waiting", "workers")


def movie_section(film: Film, path: str | os.PathLike[str]) -> Section:
    """Return the section of ``movie``: the file and its contents."""
    begun = f" from {iso(film.begun)} on" if film.begun else ""
    rows = []
    for scene in film.scenes:
        ended = scene.counts(0.0, film.seconds)
        rows.append(
            (
                scene.name,
                f"{len(scene):,}",
                *(f"{ended[name]:,}" for name in (SERVED, GIVEN_UP, TURNED_AWAY)),
                f"{scene.most_waiting(0.0, film.seconds):,}",
                f"{sum(lane.workers for lane in scene.lanes):,}",
            )
        )
    return Section(
        key="movie",
        title="The queue as it happened",
        sentence=f"{os.fspath(path)} shows {duration(film.seconds)}{begun}.",
        tables=(Table(HEADINGS, tuple(rows)),),
        notes=film.notes,
    )
