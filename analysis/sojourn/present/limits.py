"""Limits of a chart's axes: the part of the data that is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sojourn.model.errors import ArgumentError
from sojourn.model.instants import instant_of
from sojourn.present.chart_libraries import alt
from sojourn.present.section import Chart

Limit = float | str | datetime | None
Limits = tuple[Limit, Limit]
"""The low and the high end of an axis in its unit, or instants where it is of time; None: as the data."""

SIDE_BY_SIDE = ("concat", "vconcat", "hconcat")


def limited(chart: Chart, *, x: Limits | None = None, y: Limits | None = None) -> Chart:
    """Return a chart whose axes end at limits; marks are cut there. All panels of a chart have the same ones.

    Args:
        chart: the chart.
        x: limits of the horizontal axis; None: as the data.
        y: limits of the vertical axis.

    Raises:
        SojournError: an axis has names instead of numbers, or there are several of different quantities; a limit is
            no number or instant, is not above 0 on a logarithmic axis, or the low one is not below the high one.
    """
    if x is None and y is None:
        return chart
    changed = chart.copy(deep=True)
    parts = [part for part in _parts(changed) if getattr(part, "encoding", alt.Undefined) is not alt.Undefined]
    for channel, limits in (("x", x), ("y", y)):
        if limits is None:
            continue
        fields = [field for part in parts if (field := _field(part, channel)) is not None]
        _checked(fields, channel)
        for field in fields:
            _limit(field, channel, limits)
        for part in parts:
            if isinstance(part.mark, str):
                part.mark = alt.MarkDef(type=part.mark)  # type: ignore[arg-type]
            part.mark["clip"] = True
    return changed


def _parts(chart: Any) -> Iterator[Any]:
    """Yield the charts of which a chart consists, those without parts of their own."""
    inner = [each for name in ("layer", *SIDE_BY_SIDE) for each in getattr(chart, name, None) or []]
    inner += [chart.spec] if isinstance(chart, alt.FacetChart) else []
    if not inner:
        yield chart
    for each in inner:
        yield from _parts(each)


def _field(part: Any, channel: str) -> Any:
    """Return the encoding of an axis by a field of the data; None: there is none, or it is a constant."""
    field = getattr(part.encoding, channel, alt.Undefined)
    return field if isinstance(field, alt.X | alt.Y) else None


def _type(field: Any) -> str:
    kind = field["type"]
    if kind is not alt.Undefined:
        return str(kind)[:1].upper()
    return str(field["shorthand"]).rpartition(":")[2]


def _checked(fields: list[Any], channel: str) -> None:
    axis = "horizontal" if channel == "x" else "vertical"
    types = {_type(field) for field in fields}
    if not fields or types & {"N", "O"}:
        raise ArgumentError(f"{channel}lim: the {axis} axis of this chart has names, not numbers: it has no limits")
    titles = {str(title) for field in fields if (title := field["title"]) is not alt.Undefined and title is not None}
    if len(types) > 1 or len(titles) > 1:
        raise ArgumentError(
            f"{channel}lim: this chart has {axis} axes of several quantities ({', '.join(sorted(titles))}): limits "
            "would not fit all of them"
        )


def ends_of(
    limits: Limits | None, channel: str, kind: str = "Q", *, logarithmic: bool = True
) -> tuple[float | None, ...]:
    """Return the low and the high end of an axis as its scale takes them; None: as the data.

    Args:
        limits: of the axis.
        channel: x or y.
        kind: ``Q`` for quantities, ``T`` for instants, which become unix milliseconds.
        logarithmic: whether the axis is.

    Raises:
        SojournError: as ``limited``.
    """
    if limits is None:
        return None, None
    low, high = (_end(each, kind, channel) for each in limits)
    if logarithmic and kind == "Q" and any(end is not None and end <= 0 for end in (low, high)):
        raise ArgumentError(f"{channel}lim: the axis is logarithmic: limits are above 0")
    if low is not None and high is not None and low >= high:
        raise ArgumentError(f"{channel}lim: {limits[0]!r} is not below {limits[1]!r}")
    return low, high


def _limit(field: Any, channel: str, limits: Limits) -> None:
    """Set the ends of the scale of one axis."""
    scale = field["scale"]
    scale = alt.Scale() if scale is alt.Undefined or scale is None else scale
    low, high = ends_of(limits, channel, _type(field), logarithmic=scale["type"] == "log")
    scale["nice"] = False
    if scale["type"] is alt.Undefined and _type(field) == "Q":
        scale["zero"] = False
    # One end beside a whole domain overrides that end of it.
    for name, end in (("domainMin", low), ("domainMax", high)):
        if end is not None:
            scale[name] = end
    field["scale"] = scale


def _end(value: Limit, kind: str, channel: str) -> float | None:
    """Return one end as the scale takes it: a number, of instants the unix milliseconds."""
    if value is None:
        return None
    if kind == "T":
        return instant_of(value, f"{channel}lim").timestamp() * 1e3
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{channel}lim: {value!r} is not a number")
    return number
