"""A picture of a page: SVG, description, figures as tables, and the specification for the script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from sojourn.present.chart_libraries import alt
from sojourn.present.drawing import drawable, specification, svg, vega_lite_version
from sojourn.present.drawing_process import DrawingProcess
from sojourn.present.drawing_program import compact
from sojourn.present.page_libraries import built_libraries, save_libraries, saved_libraries
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


@dataclass(frozen=True)
class _Begun:
    spec: dict[str, Any]
    svg: Callable[[], str]


class Drawings:
    """Draws pictures, each once.

    Args:
        process: draws SVGs while this process computes; None: this process draws them.
    """

    def __init__(self, process: DrawingProcess | None = None) -> None:
        self._process = process
        self._begun: dict[Picture, _Begun] = {}
        self._building: Future[str] | None = None

    def begin(self, pictures: Iterable[Picture]) -> None:
        """Compute the specifications of pictures, and let the drawing process draw them."""
        if self._process is not None and self._building is None and saved_libraries(vega_lite_version()) is None:
            self._building = self._process.libraries(vega_lite_version())
        for picture in pictures:
            self._begin(picture)

    def of(self, picture: Picture) -> Drawing:
        """Return a picture as SVG, which a script replaces by one with the width of the page.

        Raises:
            SojournError: the drawing process has ended unexpectedly.
        """
        begun = self._begin(picture)
        spec = begun.spec
        fits = not _is_diagram(spec)
        return Drawing(
            picture.key,
            picture.title,
            picture.caption,
            picture.reading,
            begun.svg(),
            script_json(with_short_rows(_as_wide_as_the_page(spec) if fits else spec)),
            tuple(figures_of(spec)),
            fits,
        )

    def libraries(self) -> str:
        """Return the script that draws the charts of a page.

        Raises:
            SojournError: as of ``of``.
        """
        version = vega_lite_version()
        script = saved_libraries(version)
        if script is None:
            script = built_libraries(version) if self._building is None else self._building.result()
            save_libraries(version, script)
        return script

    def _begin(self, picture: Picture) -> _Begun:
        if picture not in self._begun:
            # Every chart of a report is compared with Vega-Lite's schema by the tests.
            with alt.utils.schemapi.debug_mode(False):
                spec = specification(picture.chart(), "page", validate=False)
            self._begun[picture] = _Begun(spec, self._svg(spec))
        return self._begun[picture]

    def _svg(self, spec: dict[str, Any]) -> Callable[[], str]:
        if self._process is None:
            return lambda: compact(svg(spec))
        return self._process.svg(drawable(spec), vega_lite_version()).result


def with_short_rows(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification whose data name their columns once, not in every row: half the bytes.

    A set of data becomes ``{"names": [...], "rows": [[...], ...]}``; one whose rows differ in columns remains a list.
    """
    if "datasets" not in spec:
        return spec
    return {**spec, "datasets": {name: _short(rows) for name, rows in spec["datasets"].items()}}


def _short(rows: list[dict[str, Any]]) -> Any:
    names = list(rows[0]) if rows else []
    if not names or any(list(row) != names for row in rows):
        return rows
    return {"names": names, "rows": [list(row.values()) for row in rows]}


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
