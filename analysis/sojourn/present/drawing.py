"""A chart as a specification in the colours of a theme, and as SVG, PNG or PDF: one way for reports and for files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import altair as alt
import vl_convert

from sojourn.model.formatting import printable
from sojourn.present.palette import THEMES, Theme
from sojourn.present.section import Chart

LONGEST = 10_000  # characters of one text
_PAIRS = re.compile(r"[\U00010000-\U0010ffff]+")


# Labels of a time axis by how fine it is; hours from 0 to 23, as logs have them. Each says enough by itself: of labels
# that are too close every other is left out.
TIMES = {
    "milliseconds": ":%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "date": "%b %d",
    "week": "%b %d",
    "month": "%b %d",
    "year": "%b %d",
}


def specification(chart: Chart, theme: str = "light") -> dict[str, Any]:
    """The Vega-Lite specification of a chart, its texts safe to draw, in the colours of a theme of ``THEMES``."""
    return _merged(safe(chart.to_dict()), {"config": _config(THEMES[theme])})


def legends_above(chart: Chart) -> Chart:
    """A chart whose legends stand above it, whatever draws it: where a theme is not at hand they would be beside it.

    Not by its config: a chart that has one cannot be laid over another.
    """
    above = chart.copy(deep=True)
    parts: list[Any] = [above]
    while parts:
        part = parts.pop()
        for name in ("layer", "vconcat", "hconcat"):
            parts += getattr(part, name, None) or []
        encoding = getattr(part, "encoding", None)
        for channel in ("color", "strokeDash", "shape"):
            field = getattr(encoding, channel, None)
            if not isinstance(field, alt.Color | alt.StrokeDash | alt.Shape):
                continue
            # By item: as an attribute it is the method that sets it.
            legend = field["legend"]
            if legend is alt.Undefined:
                field["legend"] = alt.Legend(orient="top")
            elif isinstance(legend, alt.Legend) and legend["orient"] is alt.Undefined:
                legend["orient"] = "top"
    return above


def svg(spec: dict[str, Any]) -> str:
    """A specification drawn as SVG."""
    return str(vl_convert.vegalite_to_svg(_drawable(spec), vl_version=vega_lite_version()))


def png(spec: dict[str, Any], scale: float = 2.0) -> bytes:
    """A specification drawn as PNG, ``scale`` pixels of the picture for each of the chart."""
    return bytes(vl_convert.vegalite_to_png(_drawable(spec), vl_version=vega_lite_version(), scale=scale))


def pdf(spec: dict[str, Any]) -> bytes:
    """A specification drawn as a PDF of one page of the chart's size; lines and texts stay what they are."""
    return bytes(vl_convert.vegalite_to_pdf(_drawable(spec), vl_version=vega_lite_version()))


def tables_of(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The rows that the parts of a specification are drawn from, in the order of the parts."""
    return list(spec.get("datasets", {}).values())


def vega_lite_version() -> str:
    """The version of Vega-Lite that the charts are written for: 5.20 or the like."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def _config(theme: Theme) -> dict[str, Any]:
    words = {"labelColor": theme.text, "titleColor": theme.text}
    return {
        "background": theme.background,
        "view": {"stroke": None},
        "axis": {**words, "gridColor": theme.grid, "domainColor": theme.line, "tickColor": theme.line},
        "axisTemporal": {"format": TIMES},
        "legend": {**words, "orient": "top"},
        "header": words,
        "title": {"color": theme.text, "subtitleColor": theme.text},
        "text": {"color": theme.text},
    }


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """``one`` with what ``other`` has, group by group; where both have a value, that of ``other`` stands."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def safe(value: Any) -> Any:
    """A chart's specification with its texts safe to draw: a control character in one ends the drawing engine."""
    return _with_texts(value, lambda text: printable(text, LONGEST))


def _drawable(spec: dict[str, Any]) -> dict[str, Any]:
    """A specification without characters that JavaScript makes of two, an emoji say.

    Vega cuts a text that is too long for its place, and one cut through such a character ends the drawing engine.
    """
    drawn: dict[str, Any] = _with_texts(spec, lambda text: _PAIRS.sub(_escaped, text))
    return drawn


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A value of JSON with something else made of each text in it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_texts(inner, change) for key, inner in value.items()}
    return [_with_texts(inner, change) for inner in value] if isinstance(value, list) else value
