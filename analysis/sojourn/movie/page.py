"""The film as one page with play, pause and a slider; it needs no network."""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable
from sojourn.model.version import version
from sojourn.movie.film import Film
from sojourn.movie.layout import FEW
from sojourn.movie.scenes import PHASE_ENDS, Scene
from sojourn.movie.theme import ROUTE_COLOURS
from sojourn.present.palette import OTHER, QUEUEING, SERVICE
from sojourn.present.templating import script_json, templates_of

THEMES = ("auto", "light", "dark")
LENGTHS = (60.0, 30.0, 15.0, 5.0)  # s to play the whole window
SPEEDS = (0.1, 1.0, 10.0, 100.0)  # multiples of real time
SECONDS = 30.0


def page_of(film: Film, *, seconds: float | None = None, speed: float | None = None, theme: str = "auto") -> str:
    """Return the page as text; ``seconds`` or ``speed`` is the initial choice, which the reader may change.

    Raises:
        SojournError: ``theme`` is none of ``THEMES``.
    """
    if theme not in THEMES:
        raise SojournError(f"unknown theme {theme!r}; choose from {', '.join(THEMES)}")
    data = {
        "seconds": round(film.seconds, 6),
        "begun": film.begun and film.begun.timestamp() * 1_000,
        "scenes": [_plain(scene, film) for scene in film.scenes],
        "routes": list(ROUTE_COLOURS[: len(film.routes)]),
    }
    return (
        templates_of("sojourn.movie")
        .get_template("movie.html")
        .render(
            title=printable(film.title, 200),
            theme=theme,
            data=script_json(data, allow_nan=False),
            phases=film.phases,
            routes=list(zip(film.routes, ROUTE_COLOURS, strict=False)),
            scenes=[{"name": scene.name, "reading": scene.reading(0.0, film.seconds)} for scene in film.scenes],
            notes=[printable(note, 1_000) for note in film.notes],
            unknown=any((~scene.wait_known).any() for scene in film.scenes),
            numbers=any(len(scene) <= FEW for scene in film.scenes),
            seconds=round(film.seconds, 6),
            speeds=speeds_of(seconds, speed),
            queueing=QUEUEING,
            service=SERVICE,
            other=OTHER,
            version=version(),
        )
    )


def speeds_of(seconds: float | None, speed: float | None) -> list[tuple[str, str, bool]]:
    """Return (value, label, selected) of each speed the page offers, the slowest of either kind first."""
    lengths = {*LENGTHS, *([seconds] if seconds else [])}
    speeds = {*SPEEDS, *([speed] if speed else [])}
    chosen = f"x {speed:g}" if speed else f"s {seconds or SECONDS:g}"
    offered = [(f"s {each:g}", f"all in {each:g} s") for each in sorted(lengths, reverse=True)]
    offered += [(f"x {each:g}", "real time" if each == 1 else f"× {each:g}") for each in sorted(speeds)]
    return [(value, label, value == chosen) for value, label in offered]


def _plain(scene: Scene, film: Film) -> dict[str, object]:
    phases = list(scene.held(0.0, film.seconds))
    numbers = {route: number for number, route in enumerate(film.routes)}
    ends = PHASE_ENDS if len(phases) > 1 else ()
    return {
        "name": scene.name,
        "lanes": [{"name": lane.name, "workers": lane.workers} for lane in scene.lanes],
        **{name: _instants(getattr(scene, name)) for name in ("arrival", "until", "begin", "end", "left", *ends)},
        "phases": phases,
        **{name: getattr(scene, name).tolist() for name in ("outcome", "lane", "place", "number")},
        "known": scene.wait_known.astype(np.int64).tolist(),
        **({"route": [numbers.get(route, -1) for route in scene.route]} if scene.route and numbers else {}),
    }


def _instants(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else round(value, 6) for value in values.tolist()]
