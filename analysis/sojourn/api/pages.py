"""Whole files: the report and the movie."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sojourn.analyses.split.analysis import with_wire
from sojourn.analyses.split.result import SplitResult
from sojourn.api.given import Instant, RequestsLike, Where, given, in_memory, split_given
from sojourn.api.waiting import WorkersLike
from sojourn.model.frame import Selection
from sojourn.model.verdict import SLO
from sojourn.readers.inputs import Source, listed

if TYPE_CHECKING:
    from sojourn.movie import Film


def write_report(
    requests: RequestsLike,
    path: str | os.PathLike[str],
    *,
    by: str = "route",
    workers: WorkersLike = None,
    slo: float = SLO,
    before: RequestsLike | None = None,
    captures: Sequence[Source] | Source = (),
    title: str | None = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> SplitResult:
    """Write one page with everything there is to say about these requests: ``sojourn report``.

    Args:
        requests: sources, a split, or a frame. Sources are best: all that the analyses need is read.
        path: the HTML file to write, whole or not at all.
        by: column that names victims and culprits, and divides wasted work and changes.
        workers: per backend, or the same for all; None: read off the worker values.
        slo: the p99 of the response time that must hold, s.
        before: the requests of before: what changed since.
        captures: packets of the same requests.
        title: heading; None: the names of the sources.
        spans, since, until, where: of sources and frames, as of ``sojourn.depth``.

    Returns:
        The split on the page.

    Raises:
        SojournError: a source cannot be read, or the file cannot be written.
    """
    from sojourn.analyses.wire.log_join import READ as WIRE_COLUMNS  # noqa: PLC0415 - late, as the whole report is
    from sojourn.report import write_html  # noqa: PLC0415
    from sojourn.report.build import COLUMNS, sections_of, traces_of  # noqa: PLC0415

    packets = listed(captures)
    columns = (*COLUMNS, *(WIRE_COLUMNS if packets else ()), by)
    result = split_given(requests, columns=columns, spans=spans, since=since, until=until, where=where)
    earlier = None if before is None else split_given(before, columns=columns, where=where)
    if packets:
        with_wire(result, packets)
    sources = [] if in_memory(requests) else listed(requests)  # type: ignore[arg-type]
    sections = sections_of(
        result, by=by, workers=workers, slo=slo, before=earlier, traces=traces_of(sources, listed(spans))
    )
    write_html(result, path, title=title, sections=sections)
    return result


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
    taken = {name: given(one, columns=columns, spans=spans, where=where) for name, one in several.items()}
    rows = {name: one.rows for name, one in taken.items()}
    film = film_of_rows(
        rows, title=title, by=by, workers=workers, backends=backend, since=window.since, until=window.until
    )
    write_film(film, path, seconds=seconds, speed=speed, theme=theme, fps=fps, width=width, at=at)
    return film
