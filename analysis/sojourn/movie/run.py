"""``sojourn.write_movie``: write an animation of a queue."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sojourn.model.frame import Selection, apart_of
from sojourn.model.instants import Instant
from sojourn.movie.film import Film
from sojourn.movie.write import film_of_rows, suffix_of, write_film
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where
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
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Film:
    """Write an animation of the recorded queue: ``sojourn movie``.

    >>> film = sojourn.write_movie("docs/examples/shop.jsonl.gz", "shop.html")  # doctest: +SKIP

    Args:
        requests: sources, a split, or a frame; or several by name, a scene for each.
        path: the file to write: a page (.html), an animation (.gif), or one instant of it (.png).
        by: a column: a scene for each of its values.
        backend: only requests to these addresses.
        workers: per backend, or the same for all; None: read off the worker values.
        seconds: playing time, s.
        speed: or the multiple of real time.
        fps: frames a second of an animation.
        width: of an animation or picture, pixels.
        at: the instant of a picture, s; None: the middle.
        theme: light or dark; for a page also auto, its default.
        title: of the movie.
        spans: as for ``sojourn.depth``.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: begin, including requests already in the system.
        until: end.
        where: as for ``sojourn.depth``.

    Returns:
        The film; its ``notes`` list what it leaves out.

    Raises:
        SojournError: a source cannot be read, there is no queue to draw, or the file cannot be written.
    """
    suffix_of(path)
    window = Selection.of(since, until, None)
    several = requests if isinstance(requests, Mapping) else {"": requests}
    columns = (by,) if by else ()
    # Including requests from before ``since``: they may still be in the queue.
    source = {
        name: requests_from(one, columns=columns, spans=spans, app_log=app_log, where=where)
        for name, one in several.items()
    }
    rows = {name: one.rows for name, one in source.items()}
    film = film_of_rows(
        rows, title=title, by=by, workers=workers, backends=backend, since=window.since, until=window.until,
        notes=apart_of({name: one.records for name, one in source.items()}),
    )  # fmt: skip
    write_film(film, path, seconds=seconds, speed=speed, theme=theme, fps=fps, width=width, at=at)
    return film
