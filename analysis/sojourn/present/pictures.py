"""A picture of a page: SVG, description, figures as tables, and the specification for the script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.present.drawing import specification, svg
from sojourn.present.picture_tables import Figures, figures_of
from sojourn.present.section import Picture
from sojourn.present.templating import script_json

FACET = 60  # px next to the panels of a chart by rows, for their headings


@dataclass(frozen=True)
class Drawing:
    """A drawn picture.

    Attributes:
        key: unique in the page after ``with_unique_ids``.
        title, caption, reading: texts of the picture.
        svg: for readers without scripts, and for paper.
        spec: JSON of Vega-Lite, safe inside a script element.
        figures: the drawn data as tables.
        fits: whether it can be drawn in any width; a diagram with texts at fixed positions cannot.
    """

    key: str
    title: str
    caption: str
    reading: str
    svg: str
    spec: str
    figures: tuple[Figures, ...]
    fits: bool

    @property
    def label(self) -> str:
        """The description of the picture for screen readers."""
        return f"{self.title.rstrip('.')}. {self.reading or self.caption}"


def drawn(picture: Picture) -> Drawing:
    """Return a picture as SVG, which a script replaces by one with the width of the page."""
    spec = specification(picture.chart(), "page")
    fits = not _is_diagram(spec)
    return Drawing(
        picture.key,
        picture.title,
        picture.caption,
        picture.reading,
        _without_roles(svg(spec)),
        script_json(_as_wide_as_the_page(spec) if fits else spec),
        tuple(figures_of(spec)),
        fits,
    )


def with_unique_ids(drawings: Sequence[Drawing], used: set[str]) -> list[Drawing]:
    """Return the drawings with unique keys and ids.

    A script finds its chart by the key, and a reference finds the first id of a name in the page.

    Args:
        drawings: the drawings.
        used: keys already in the page; the new ones are added.
    """
    apart = []
    for each in drawings:
        key, number = each.key, 2
        while key in used:
            key = f"{each.key}-{number}"
            number += 1
        used.add(key)
        apart.append(replace(each, key=key, svg=_with_own_ids(each.svg, key)))
    return apart


def _without_roles(drawing: str) -> str:
    """Return an SVG without descriptions of single marks, a third of the file: the picture has one description."""
    # Only inside of tags: a text may look like an attribute.
    return re.sub(r"<[^<>]+>", lambda tag: re.sub(r' (?:role|aria-[a-z]+|pointer-events)="[^"]*"', "", tag[0]), drawing)


def _with_own_ids(drawing: str, key: str) -> str:
    """Return an SVG whose ids begin with the key."""
    prefix = re.sub(r"[^A-Za-z0-9-]", "-", key)
    drawing = re.sub(r'\bid="([A-Za-z_]+\d+)"', rf'id="{prefix}-\1"', drawing)
    return re.sub(r"url\(#([A-Za-z_]+\d+)\)", rf"url(#{prefix}-\1)", drawing)


def _as_wide_as_the_page(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the chart with the width of its container; a compound chart is marked for the page's script."""
    single = ("mark" in spec or "layer" in spec) and not _is_faceted(spec)
    if single:
        return {**spec, "width": "container"}
    return {**spec, "usermeta": {"fit": True, "labels": FACET if _is_faceted(spec) else 0}}


def _is_faceted(spec: dict[str, Any]) -> bool:
    return "facet" in spec or any(channel in spec.get("encoding", {}) for channel in ("row", "column", "facet"))


def _is_diagram(spec: Any) -> bool:
    """Return whether a chart has marks at fixed positions, without an axis."""
    if isinstance(spec, dict):
        x = spec["encoding"].get("x") if isinstance(spec.get("encoding"), dict) else None
        if isinstance(x, dict) and "axis" in x and x["axis"] is None:
            return True
        return any(_is_diagram(inner) for key, inner in spec.items() if key != "values")
    return any(_is_diagram(inner) for inner in spec) if isinstance(spec, list) else False
