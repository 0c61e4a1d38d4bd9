"""The instant of a single line, for a search in a log by time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime

from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.pairs import pairs_of
from sojourn.readers.formats.paths import keys_of
from sojourn.readers.formats.template import without_header

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
    stamp = form.first("end", "start")
    if stamp is None:
        return lambda _: None
    unit = form.by_field[stamp].unit
    if not form.parts:
        path = next(variable.text for variable in form.variables if variable.field.name == stamp)
        return _of_pairs(path, unit, form) if form.pairs else _of_path(path, unit, header=form.header)

    def of_text(line: bytes) -> float | None:
        match = form.pattern.match(line.decode("utf-8", "replace"))
        return None if match is None else instant(match[stamp], unit)

    return of_text


def _of_path(path: str, unit: str, *, header: bool = False) -> Callable[[bytes], float | None]:
    keys = keys_of(path)

    def of_object(line: bytes) -> float | None:
        try:
            value = json.loads(without_header(line.decode("utf-8", "replace")) if header else line)
            for key in keys:
                value = value[key]
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None
        return instant(str(value), unit)

    return of_object


def _of_pairs(key: str, unit: str, form: LineFormat) -> Callable[[bytes], float | None]:
    def of_pairs(line: bytes) -> float | None:
        text = line.decode("utf-8", "replace")
        pairs = pairs_of(without_header(text) if form.header else text, form.pairs)
        return instant(pairs[key], unit) if key in pairs else None

    return of_pairs


def instant(text: str, unit: str) -> float | None:
    """Return an instant (unix s) from a text of one of ``CLOCKS``; None if it is none."""
    try:
        if unit in _PER_SECOND:
            at = float(text) / _PER_SECOND[unit]
        else:
            form = _STRPTIME.get(unit)
            moment = (
                datetime.strptime(text.strip("[]"), form)
                if form
                else datetime.fromisoformat(text.replace(",", ".").replace("\t", " "))
            )
            at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return at if math.isfinite(at) else None
