"""Create a film from rows of a split, and write it to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from sojourn.analyses.split.result import SplitResult
from sojourn.components.inferred.rows import inferred_note
from sojourn.estimation.inferred import INFERRED
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.extras import needed_for
from sojourn.model.formatting import counted, duration, iso, printable
from sojourn.movie.film import MOST, MOST_SCENES, Film, film_of
from sojourn.movie.page import page_of
from sojourn.movie.scenes import PHASE_ENDS, Scene, scene_of
from sojourn.movie.theme import theme_of
from sojourn.present.files import written_whole
from sojourn.present.section import Section, Table
from sojourn.sources.frame_measures import without_upgraded
from sojourn.timeline.phases import AFTER, BODY, PHASES, READ
from sojourn.timeline.request_timelines import GIVEN_UP, SERVED, TURNED_AWAY, timelines_of_visits
from sojourn.timeline.request_timelines import READ as COLUMNS
from sojourn.timeline.services import Services, services_of
from sojourn.timeline.visits import Visits, visits

HEADINGS = ("scene", "requests", "served", "given up", "turned away", "most waiting", "workers")
KINDS = (".html", ".gif", ".png")
LEAST_SHARE = 0.001  # of the time for which workers are held: a shorter phase is not drawn

Rows = SplitResult | pl.LazyFrame


def film_of_rows(
    queues: Rows | Mapping[str, Rows],
    *,
    title: str,
    by: str | None = None,
    workers: int | Mapping[str, int] | None = None,
    only: Sequence[str] = (),
    backends: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    most: int = MOST,
    notes: Sequence[str] = (),
) -> Film:
    """Create the film of a split or of its rows; or of several by name, a scene for each.

    Args:
        queues: the requests to draw.
        title: of the film.
        by: a column of the rows: a scene for each of its values, at most ``MOST_SCENES``.
        workers: of each backend; None: read off the worker values.
        only: these scenes, in this order.
        backends: only requests to these.
        since: as for ``sojourn.movie.film.film_of``.
        until: as for ``film_of``.
        most: as for ``film_of``.
        notes: on the requests, before those on the film.

    Raises:
        SojournError: there is no queue to draw, ``by`` is not a column, or ``only`` names no scene.
    """
    by_name = queues if isinstance(queues, Mapping) else {"": queues}
    groups: list[tuple[str, pl.LazyFrame]] = []
    remarks = list(notes)
    for name, one in by_name.items():
        # Upgraded connections have no visit: a value with nothing else gets no scene.
        rows = without_upgraded(one.rows if isinstance(one, SplitResult) else one)
        rows = rows.filter(pl.col("upstream").is_in(list(backends))) if backends else rows
        if by is None:
            groups.append((name, rows))
            continue
        values, more = _values(rows, by, [each.removeprefix(f"{name} ") for each in only])
        groups += [(f"{name} {value}".strip(), part) for value, part in values]
        remarks += [f"{more} further values of {by} are not shown, only the {MOST_SCENES} busiest."] if more else []
    if only:
        places = dict(groups)
        missing = [each for each in only if each not in places]
        if missing:
            raise SojournError(f"--scene: there is no scene {missing[0]!r}; choose from {', '.join(places) or 'none'}")
        groups = [(each, places[each]) for each in only]
    if len(groups) > MOST_SCENES:
        raise SojournError(
            f"{counted(len(groups), 'scene is', 'scenes are')} more than the maximum of {MOST_SCENES}; "
            "choose with --scene"
        )
    scenes = [_scene(name, rows, workers) for name, rows in groups]
    drawable = [scene for scene in scenes if scene is not None]
    if not drawable:
        raise SojournError(
            "no request went to a backend, so there is no queue to draw"
            + (f"; --backend named {', '.join(backends)}" if backends else "")
        )
    inferred = next(filter(None, (inferred_note(rows) for _, rows in groups)), "")
    remarks += [inferred] if inferred else []
    title = f"{title} (inferred)" if inferred else title
    return film_of(drawable, title=title, since=since, until=until, most=most, notes=remarks)


def write_film(
    film: Film,
    path: str | os.PathLike[str],
    *,
    seconds: float | None = None,
    speed: float | None = None,
    theme: str | None = None,
    fps: float | None = None,
    width: int | None = None,
    at: float | None = None,
) -> None:
    """Write a film in the format of the suffix of ``path``; arguments as of ``sojourn.write_movie``.

    Raises:
        SojournError: the suffix is none of ``KINDS``, something cannot be drawn, or the file cannot be written.
    """
    suffix = suffix_of(path)
    if suffix == ".html":
        page = page_of(film, seconds=seconds, speed=speed, theme=theme or "auto")
        with written_whole(path) as partial:
            partial.write_text(page, encoding="utf-8")
        return
    with needed_for(f"a {suffix[1:].upper()}"):
        from sojourn.movie import gif  # noqa: PLC0415 - Pillow is loaded for pictures only
    paper = theme_of(theme or "light")
    if suffix == ".png":
        gif.write_still(film, path, theme=paper, at=film.seconds / 2 if at is None else at, width=width or gif.WIDTH)
        return
    length = film.seconds / speed if speed else seconds or gif.SECONDS
    gif.write_gif(film, path, theme=paper, seconds=length, fps=fps or gif.FPS, width=width or gif.WIDTH)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of the file, one of ``KINDS``.

    Raises:
        SojournError: it is another.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in KINDS:
        raise SojournError(f"{os.fspath(path)}: a movie is written as .html or .gif, one instant of it as .png")
    return suffix


def _values(rows: pl.LazyFrame, by: str, only: Sequence[str]) -> tuple[list[tuple[str, pl.LazyFrame]], int]:
    """Return (value, its rows) of a column's busiest or named values, and the number of further values.

    Values are in order of their first request.
    """
    if by not in (names := rows.collect_schema().names()):
        raise SojournError(not_read(by, names))
    counts = rows.filter(pl.col("proxied")).group_by(by).agg(count=pl.len(), first=pl.col("start").min()).collect()
    titles = [
        ("–" if value is None else printable(value, 60), value) for value in counts.sort("first", by)[by].to_list()
    ]
    busiest = counts.sort("count", "first", descending=[True, False])[by].head(MOST_SCENES).to_list()
    chosen = [each for each in titles if (each[0] in only if only else each[1] in busiest)] or titles[:MOST_SCENES]
    kind = counts[by].dtype
    values = [(name, rows.filter(pl.col(by).eq_missing(pl.lit(value, kind)))) for name, value in chosen]
    return values, 0 if only else len(titles) - len(chosen)


def _scene(name: str, rows: pl.LazyFrame, workers: int | Mapping[str, int] | None) -> Scene | None:
    if not rows.select(pl.col("proxied").any()).collect().item():
        return None
    arrivals = visits(rows, columns=COLUMNS, workers=workers, waits_unknown=True)
    services = services_of(arrivals)
    timelines = timelines_of_visits(arrivals, services)
    exact: list[str | None] = []
    if "queue_source" in rows.collect_schema().names():
        inferred = rows.filter(pl.col("queue_source") == INFERRED).select(pl.col("upstream").unique())
        exact = inferred.collect().to_series().to_list()
    return scene_of(
        name or "all requests",
        timelines.table.with_columns(phases_of(arrivals, services)),
        first=timelines.first,
        workers=timelines.workers,
        exact=exact,
    )


def phases_of(arrivals: Visits, services: Services) -> pl.DataFrame:
    """Return when the phases of each request end, columns ``sojourn.movie.scenes.PHASE_ENDS``.

    Instants as of the timelines of these visits. A phase that takes less than ``LEAST_SHARE`` of the time for which
    workers are held counts as service.
    """
    pieces, begin, end = services.pieces, services.begin, services.end
    started, headers, answered = begin.copy(), end.copy(), end.copy()
    if pieces.request is not None and pieces.phase is not None:
        least = LEAST_SHARE * np.nansum(end - begin)
        for phase in (BODY, AFTER, READ):
            chosen = np.flatnonzero(pieces.phase == PHASES.index(phase))
            request, first, last = pieces.request[chosen], pieces.begin[chosen], pieces.end[chosen]
            if (last - first).sum() < least:
                continue
            if phase == READ:
                started[request] = last
            else:
                headers[request] = np.minimum(headers[request], first)
            if phase == AFTER:
                answered[request] = first
    doubt_end = np.full(len(begin), np.nan)
    if arrivals.phases is not None:
        doubtful = arrivals.phases.in_doubt > 0
        doubt_end[doubtful] = (arrivals.phases.evident_end + arrivals.phases.in_doubt)[doubtful]
        headers[doubtful] = arrivals.phases.headers[doubtful]
    ends = (started, headers, answered, doubt_end)
    return pl.DataFrame({name: each - arrivals.arrival[0] for name, each in zip(PHASE_ENDS, ends, strict=True)})


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
