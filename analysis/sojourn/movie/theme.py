"""Colours of the movie: the project's palette on a light or dark background."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.model.errors import SojournError
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

INK = "#ffffff"
"""Colour of numbers on coloured squares."""
STROKE = "#000000"
"""Colour of the lines on squares that show a phase: mixed half and half with the square's colour."""

ROUTE_COLOURS = ("#F0E442", "#A6DEFF", "#8CE6C0", "#F7B6D8")
"""Colours of the routes that hold workers for the longest, in stripes: light, to be seen on every square."""


@dataclass(frozen=True)
class Theme:
    """Colours of background, text and lines as ``#rrggbb``; the data colours are the same in both themes."""

    name: str
    paper: str
    text: str
    dim: str
    line: str
    panel: str


LIGHT = Theme("light", "#ffffff", "#1b1f24", "#59636e", "#d1d9e0", "#f6f8fa")
DARK = Theme("dark", "#0d1117", "#e6edf3", "#9aa4ae", "#30363d", "#161b22")
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_of(name: str) -> Theme:
    """Return the theme of this name.

    Raises:
        SojournError: it is unknown.
    """
    if name not in THEMES:
        raise SojournError(f"unknown theme {name!r}; choose {' or '.join(THEMES)}")
    return THEMES[name]


def colours_of(theme: Theme, *, strokes: bool = False, routes: int = 0) -> list[tuple[int, int, int]]:
    """Return the palette of a frame: colours of the theme and the data, and mixtures of those that meet at edges.

    ``strokes``: with those of phases; ``routes``: with the stripes of so many routes.
    """
    palette = [rgb(each) for each in (theme.paper, theme.text, theme.dim, theme.line, theme.panel)]
    palette += [rgb(each) for each in (QUEUEING, SERVICE, OTHER, INK)]
    palette += [rgb(each) for each in ROUTE_COLOURS[:routes]]
    palette += [mixed(each, STROKE, share) for each in (SERVICE, OTHER) for share in (0.5, 0.25) if strokes]
    meeting = [(theme.paper, each) for each in (theme.text, theme.dim, theme.line, QUEUEING, SERVICE, OTHER)]
    meeting += [(theme.panel, each) for each in (theme.line, QUEUEING, SERVICE, OTHER, theme.dim)]
    meeting += [(ground, INK) for ground in (QUEUEING, SERVICE, OTHER)]
    for one, other in meeting:
        for step in range(1, 8):
            between = mixed(one, other, step / 8)
            # Pillow distinguishes colours by their upper six bits.
            if all(max(abs(a - b) for a, b in zip(between, each, strict=True)) >= 8 for each in palette):
                palette.append(between)
    return palette[:256]


def rgb(colour: str) -> tuple[int, int, int]:
    """Convert ``#rrggbb`` to three numbers from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mixed(one: str, other: str, share: float) -> tuple[int, int, int]:
    """Mix ``share`` of ``other`` with the rest of ``one``."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(rgb(one), rgb(other), strict=True))
    return red, green, blue
