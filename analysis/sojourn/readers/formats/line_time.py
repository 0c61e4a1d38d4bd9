"""The instant of a single line, for a search in a log by time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime

from sojourn.readers.formats.dividing import values_of
from sojourn.readers.formats.line_format import STAMPS, LineFormat
from sojourn.readers.formats.pairs import pairs_of
from sojourn.readers.formats.template import EVERY_ELEMENT, path_keys

_STRPTIME = {
    "clf": "%d/%b/%Y:%H:%M:%S %z",
    "clf_ms": "%d/%b/%Y:%H:%M:%S.%f",
    "ctime": "%a %b %d %H:%M:%S %Y",
    "gin": "%Y/%m/%d - %H:%M:%S",
    "ruby": "%d/%b/%Y %H:%M:%S",
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
    if form.from_user:
        read = values_of(form)

        def of_values(line: bytes) -> float | None:
            values = read(line.decode("utf-8", "replace"))
            return None if values is None else instant(values.get(stamp, ""), unit)

        return of_values
    if not form.parts:
        paths = [path for path, field in zip(form.paths, form.fields, strict=True) if field.name == stamp]
        each = [_of_pairs(path, unit, form.pairs) if form.pairs else _of_path(path, unit) for path in paths]
        return lambda line: next((time for of_object in each if (time := of_object(line)) is not None), None)

    def of_text(line: bytes) -> float | None:
        match = form.pattern.match(line.decode("utf-8", "replace"))
        return None if match is None else instant(match[stamp], unit)

    return of_text


def _of_path(path: str, unit: str) -> Callable[[bytes], float | None]:
    keys = [0 if key == EVERY_ELEMENT else key for key in path_keys(path)]

    def of_object(line: bytes) -> float | None:
        try:
            value = json.loads(line)
            for key in keys:
                value = value[key]
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None
        return instant(str(value), unit)

    return of_object


def _of_pairs(key: str, unit: str, sign: str) -> Callable[[bytes], float | None]:
    def of_pairs(line: bytes) -> float | None:
        pairs = pairs_of(line.decode("utf-8", "replace"), sign)
        return instant(pairs[key], unit) if key in pairs else None

    return of_pairs


def instant(text: str, unit: str) -> float | None:
    """Return the instant (unix s) of a text in one of the ``CLOCKS``; None if it is none."""
    try:
        if unit in _PER_SECOND:
            at = float(text) / _PER_SECOND[unit]
        else:
            form = _STRPTIME.get(unit)
            text = text.strip("[]").replace(",", ".").replace("\t", " ")
            moment = datetime.strptime(text, form) if form else datetime.fromisoformat(text)
            at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return at if math.isfinite(at) else None
