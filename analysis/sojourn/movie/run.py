"""Requests in, an animation of their queue out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sojourn.model.frame import Selection
from sojourn.movie.film import Film
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Instant, Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike


def write_movie(
    requests: RequestsLike | Mapping[str, RequestsLike],
    path: str | os.PathLike[str],
    *,
    by: str | None = None,
    backend: Sequence[str] = (),
    workers: WorkersLike = None,
    seconds: float | None = None,
    speed: float | None = None,
    fps: float | None = None,
    width: int | None = None,
    at: float | None = None,
    theme: str | None = None,
    title: str = "The queue as it happened",
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Film:
    """Write the queue as it happened, moving: ``sojourn movie``.

    >>> film = sojourn.write_movie("docs/examples/shop.jsonl.gz", "shop.html")  # doctest: +SKIP

    Args:
        requests: sources, a split, or a frame; or several by name, each a scene of its own beside the others.
        path: the file to write: a page (.html), an animation (.gif), or one instant of it (.png).
        by: a column: a scene for each of its values.
        backend: only requests to these addresses.
        workers: per backend, or the same for all; None: read off the worker values.
        seconds, speed: how long it plays, s; or how many times as fast as it was.
        fps, width: of an animation, frames a second and pixels.
        at: the instant of a picture, s; None: the middle.
        theme: light or dark; a page also knows auto, its default.
        title: over all of it.
        spans, where: of sources, as of ``sojourn.depth``.
        since, until: begin and end then, with whoever was there already.

    Returns:
        The film; its ``notes`` say what is not in it.

    Raises:
        SojournError: a source cannot be read, there is no queue to be drawn, or the file cannot be written.
    """
    from sojourn.movie.write import film_of_rows, suffix_of, write_film  # noqa: PLC0415 - loaded when it is drawn

    suffix_of(path)
    window = Selection.of(since, until, None)
    several = requests if isinstance(requests, Mapping) else {"": requests}
    columns = (by,) if by else ()
    # All from before ``since``, too: whoever came then may still be in the line.
    source = {name: requests_from(one, columns=columns, spans=spans, where=where) for name, one in several.items()}
    rows = {name: one.rows for name, one in source.items()}
    film = film_of_rows(
        rows, title=title, by=by, workers=workers, backends=backend, since=window.since, until=window.until
    )
    write_film(film, path, seconds=seconds, speed=speed, theme=theme, fps=fps, width=width, at=at)
    return film
