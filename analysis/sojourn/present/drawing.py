"""A chart as a specification in the colours of a theme, and as SVG, PNG or PDF, for reports and files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sojourn.model.formatting import printable
from sojourn.present.chart_libraries import alt, vl_convert
from sojourn.present.chart_parts import COUNTS
from sojourn.present.palette import THEMES, Theme
from sojourn.present.section import Chart

LONGEST = 10_000  # characters of one text
_PAIRS = re.compile(r"[\U00010000-\U0010ffff]+")


# Labels of a time axis by its resolution; hours from 0 to 23. Each is complete by itself, because Vega leaves out
# labels that are too close.
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


def specification(chart: Chart, theme: str = "light", *, validate: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart in the colours of a theme, with its texts safe to draw.

    ``validate``: compare it with Vega-Lite's schema first, which takes longer than everything else.
    """
    spec = _merged(safe(chart.to_dict(validate=validate)), {"config": _config(THEMES[theme])})
    _direct_counts(spec, theme)
    return spec


def _direct_counts(part: dict[str, Any], theme: str) -> None:
    """Let larger numbers of requests contrast more with the background: darker on light, lighter on dark.

    In a page they are as on light, under a name by which its style inverts them on dark.
    """
    for name in ("layer", "concat", "vconcat", "hconcat"):
        for inner in part.get(name, ()):
            _direct_counts(inner, theme)
    colour = part.get("encoding", {}).get("color", {})
    if isinstance(scale := colour.get("scale"), dict) and scale.get("range") == COUNTS:
        scale["reverse"] = theme == "dark"
        if theme == "page":
            part["name"] = "counts"


def legends_above(chart: Chart) -> Chart:
    """Return a chart with its legends above it, also without a theme.

    The config of the chart is not used for that: a chart with a config cannot be layered.
    """
    above = chart.copy(deep=True)
    parts: list[Any] = [above]
    while parts:
        part = parts.pop()
        for name in ("layer", "vconcat", "hconcat", "concat"):
            parts += getattr(part, name, None) or []
        encoding = getattr(part, "encoding", None)
        for channel in ("color", "strokeDash", "shape"):
            field = getattr(encoding, channel, None)
            if not isinstance(field, alt.Color | alt.StrokeDash | alt.Shape):
                continue
            # By item: the attribute is a method.
            legend = field["legend"]
            if legend is alt.Undefined:
                field["legend"] = alt.Legend(orient="top")
            elif isinstance(legend, alt.Legend) and legend["orient"] is alt.Undefined:
                legend["orient"] = "top"
    return above


def svg(spec: dict[str, Any]) -> str:
    """Return a specification drawn as SVG."""
    return str(vl_convert.vegalite_to_svg(drawable(spec), vl_version=vega_lite_version()))


def png(spec: dict[str, Any], scale: float = 2.0) -> bytes:
    """Return a specification drawn as PNG, with ``scale`` pixels per pixel of the chart."""
    return bytes(vl_convert.vegalite_to_png(drawable(spec), vl_version=vega_lite_version(), scale=scale))


def pdf(spec: dict[str, Any]) -> bytes:
    """Return a specification drawn as a PDF of one page of the chart's size; lines and texts remain vectors."""
    return bytes(vl_convert.vegalite_to_pdf(drawable(spec), vl_version=vega_lite_version()))


def tables_of(spec: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the rows that the parts of a specification are drawn from, in the order of the parts."""
    return list(spec.get("datasets", {}).values())


def vega_lite_version() -> str:
    """Return the version of Vega-Lite that the charts are written for, such as 5.20."""
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
    """Merge ``other`` into ``one``, group by group; values of ``other`` take precedence."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        merged[key] = _merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def safe(value: Any) -> Any:
    """Return a chart's specification without control characters in texts: one of them ends the drawing engine."""
    return _with_texts(value, lambda text: printable(text, LONGEST))


def drawable(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification without characters outside the basic plane, such as emoji.

    Vega cuts long texts, and a cut inside a surrogate pair ends the drawing engine.
    """
    drawn: dict[str, Any] = _with_texts(spec, lambda text: _PAIRS.sub(_escaped, text))
    return drawn


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with each text replaced by a function of it."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _with_texts(inner, change) for key, inner in value.items()}
    return [_with_texts(inner, change) for inner in value] if isinstance(value, list) else value
