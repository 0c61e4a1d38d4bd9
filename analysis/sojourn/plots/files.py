"""A chart as a file."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sojourn.model.errors import SojournError
from sojourn.present import drawing
from sojourn.present.files import written_whole
from sojourn.present.section import Chart, Picture

SUFFIXES = (".svg", ".png", ".pdf", ".json")


def save(
    chart: Chart | Picture,
    path: str | os.PathLike[str],
    *,
    theme: str = "light",
    width: int | None = None,
    height: int | None = None,
    scale: float = 2.0,
    title: str | None = None,
) -> None:
    """Write a chart to a file, whole or not at all.

    Args:
        chart: a chart, or a picture with a chart.
        path: the file; its suffix selects SVG, PNG, PDF, or JSON (the Vega-Lite specification).
        theme: light (on white) or dark.
        width: width between the axes, pixels; None: that of the chart.
        height: height between the axes, pixels, of all parts together; None: that of the chart.
        scale: pixels of a PNG per pixel of the chart.
        title: title above the chart.

    Raises:
        SojournError: the suffix is unknown, or the file cannot be written.
    """
    written = writer(path, scale)
    if theme not in ("light", "dark"):
        raise SojournError(f"theme: {theme!r} is not light or dark")
    drawn = chart.chart() if isinstance(chart, Picture) else chart
    spec = sized(drawing.specification(drawn, theme), width, height, title)
    if isinstance(chart, Picture):
        spec["description"] = drawing.safe(f"{chart.title}. {chart.reading}")
    content = written(spec)
    with written_whole(path) as partial:
        partial.write_bytes(content)


def writer(path: str | os.PathLike[str], scale: float = 2.0) -> Callable[[dict[str, Any]], bytes]:
    """Return the function from a specification to the bytes of a file with this suffix.

    Raises:
        SojournError: the suffix is not one of ``SUFFIXES``.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        suffixes = f"{', '.join(SUFFIXES[:-1])} and {SUFFIXES[-1]}"
        raise SojournError(f"{path}: charts are written as {suffixes}" + (f", not as {suffix}" if suffix else ""))
    writers: dict[str, Callable[[dict[str, Any]], bytes]] = {
        ".svg": lambda spec: _one_picture(spec).encode(),
        ".png": lambda spec: drawing.png(spec, scale),
        ".pdf": drawing.pdf,
        ".json": lambda spec: json.dumps(spec, ensure_ascii=False, indent=1).encode(),
    }
    return writers[suffix]


def sized(spec: dict[str, Any], width: int | None, height: int | None, title: str | None) -> dict[str, Any]:
    """Return a specification with another size and title.

    Parts of a compound chart keep their proportions; panels share the size.
    """
    parts, panels = spec.get("vconcat"), spec.get("concat")
    changed = dict(spec)
    if panels:
        columns = spec.get("columns", 1)
        lines = -(-len(panels) // columns)
        changed["concat"] = [
            sized(part, width and width // columns, height and height // lines, None) for part in panels
        ]
    elif parts:
        whole = sum(part.get("height", 1) for part in parts)
        changed["vconcat"] = [
            sized(part, width, height and round(height * part.get("height", 1) / whole), None) for part in parts
        ]
    else:
        changed |= {name: value for name, value in (("width", width), ("height", height)) if value is not None}
    if title:
        changed["title"] = drawing.safe(title)
    return changed


def _one_picture(spec: dict[str, Any]) -> str:
    """Return the SVG with one description instead of Vega's text for every mark, which would be most of the file."""
    config = {**spec.get("config", {}), "aria": False}
    drawn = drawing.svg({**spec, "config": config})
    label = html.escape(spec.get("description", ""), quote=True)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1) if label else drawn
