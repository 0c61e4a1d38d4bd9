"""The instant of a single line, for a search in a log by time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime

from sojourn.readers.formats.line_format import STAMPS, LineFormat
from sojourn.readers.formats.template import without_header

_STRPTIME = {
    "clf": "%d/%b/%Y:%H:%M:%S %z",
    "clf_ms": "%d/%b/%Y:%H:%M:%S.%f",
    "ctime": "%a %b %d %H:%M:%S %Y",
}
_PER_SECOND = {"s": 1.0, "whole_s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def line_time(form: LineFormat | None) -> Callable[[bytes], float | None]:
    """Return a function from a line to its instant (unix s), or None where it has none.

    The instant is that of the line's stamp: the end of the request, or its beginning where the format has that one.

    Args:
        form: the format; None: Sojourn's own record.
    """
    if form is None:
        return _of_path("time", "s")
    stamp = form.first(*STAMPS)
    if stamp is None:
        return lambda _: None
    unit = form.by_field[stamp].unit
    if form.json:
        paths = [path for path, field in zip(form.paths, form.fields, strict=True) if field.name == stamp]
        each = [_of_path(path, unit, header=form.header) for path in paths]
        return lambda line: next((time for of_object in each if (time := of_object(line)) is not None), None)

    def of_text(line: bytes) -> float | None:
        match = form.pattern.match(line.decode("utf-8", "replace"))
        return None if match is None else _instant(match[stamp], unit)

    return of_text


def _of_path(path: str, unit: str, *, header: bool = False) -> Callable[[bytes], float | None]:
    keys = path.split(".")

    def of_object(line: bytes) -> float | None:
        try:
            value = json.loads(without_header(line.decode("utf-8", "replace")) if header else line)
            for key in keys:
                value = value[key]
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None
        return _instant(str(value), unit)

    return of_object


def _instant(text: str, unit: str) -> float | None:
    try:
        if unit in _PER_SECOND:
            instant = float(text) / _PER_SECOND[unit]
        else:
            form = _STRPTIME.get(unit)
            moment = datetime.strptime(text.strip("[]"), form) if form else datetime.fromisoformat(text)
            instant = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return instant if math.isfinite(instant) else None
