"""Which part of a format the refused lines of a log do not fit, and the piece of the line that stands there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from sojourn.model.formatting import counted, printable
from sojourn.readers.formats.dividing import divided, values_of
from sojourn.readers.formats.fields import DURATIONS, INSTANTS
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.template import Part, Variable, value_pattern

LENGTH = 2_000  # characters of a line
PIECE = 40  # characters
# Reasons of refusal -> fields of which one has another value.
_OF_REASON = {
    "missing_time": INSTANTS,
    "invalid_time": INSTANTS,
    "missing_status": ("status",),
    "invalid_status": ("status",),
    "missing_request_time": ("request_time", "service_time"),
    "invalid_request_time": ("request_time", "service_time"),
    "invalid_upstream_time": ("response", "header", "connect"),
}
_OF_FORM = ("other_format", "invalid_json", "incomplete_line")
_EXPECTED = {"status": "three digits", "remote_addr": "a value without blanks"}


def misfit(form: LineFormat, refused: Iterable[tuple[str, str]], count: int) -> str:
    """Return a sentence about the part that most of these lines do not fit; empty without one.

    Args:
        form: the format.
        refused: reason and text of refused lines.
        count: how many lines of the log were refused.
    """
    causes = Counter(cause for reason, line in refused if (cause := _cause(form, reason, line[:LENGTH])))
    if not causes:
        return ""
    (part, expected), _ = causes.most_common(1)[0]
    example = next(
        piece for reason, line in refused if (piece := _piece(form, reason, line[:LENGTH], part)) is not None
    )
    return f"Refused: {counted(count, 'line')}. {part} expects {expected}, the line has {example}."


def _cause(form: LineFormat, reason: str, line: str) -> tuple[str, str] | None:
    each = _misfit(form, reason, line)
    return None if each is None else each[:2]


def _piece(form: LineFormat, reason: str, line: str, part: str) -> str | None:
    each = _misfit(form, reason, line)
    return each[2] if each is not None and each[0] == part else None


def _misfit(form: LineFormat, reason: str, line: str) -> tuple[str, str, str] | None:
    """Return the part that a line does not fit, what it expects, and what the line has there."""
    if reason in _OF_FORM:
        parts = form.parts or form.as_text
        if not parts or form.prefix or any(each.field.optional or each.field.quoted for each in form.variables):
            return None
        return _first_misfit(parts, line)
    values = values_of(form)(line)
    variable = next((each for each in form.variables if each.field.name in _OF_REASON.get(reason, ())), None)
    if values is None or variable is None:
        return None
    value = values.get(variable.field.name)
    return f"`{variable.text}`", _expected(variable, reason), "none" if value is None else _quoted(value)


def _first_misfit(parts: Sequence[Part], line: str) -> tuple[str, str, str] | None:
    division = divided(parts, line)
    if division.values is not None:
        return None
    rest = line[division.place :].rstrip("\r\n")
    if division.part >= len(parts):
        return "the end of the format", "the end of the line", _quoted(rest)
    part = parts[division.part]
    if isinstance(part, str):
        return f"`{_cut(part)}`", "itself", _quoted(rest)
    following = parts[division.part + 1] if division.part + 1 < len(parts) else ""
    end = rest.find(following) if isinstance(following, str) and following else -1
    if isinstance(following, str) and following and end < 0:
        value = re.match(value_pattern(parts, division.part), rest, re.DOTALL)
        return f"`{_cut(following)}` behind `{part.text}`", "itself", _quoted(rest[value.end() :] if value else rest)
    return f"`{part.text}`", _expected(part), _quoted(rest[:end] if end > 0 else rest)


def _expected(variable: Variable, reason: str = "") -> str:
    name = variable.field.name
    if reason == "invalid_request_time" and variable.field.unit == "s":
        return "seconds after the year 2001"
    if name in DURATIONS:
        return "a number"
    if name in INSTANTS:
        return "an instant"
    return _EXPECTED.get(name, "another value")


def _cut(text: str) -> str:
    return printable(text, PIECE)


def _quoted(text: str) -> str:
    return f"`{_cut(text)}`" if text else "nothing"
