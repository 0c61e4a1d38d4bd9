"""Text that defines a log format, as literals and variables, and the regular expression that its lines match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sojourn.readers.formats.fields import Field

QUOTED = r'(?:[^"\\]|\\.)*'
ANYTHING = "(?:.{0,300}?[ :])??"  # before a line of HAProxy


@dataclass(frozen=True)
class Variable:
    """A variable of a format: its text there, and its field."""

    text: str
    field: Field


Part = str | Variable


def parts_of(text: str, variable: re.Pattern[str], field_of: Callable[[re.Match[str]], Field | str]) -> list[Part]:
    """Split the text of a format into literals and variables.

    ``field_of``: the field of a match of ``variable``, or a literal that stands for itself.
    """
    parts: list[Part] = []
    end = 0
    for match in variable.finditer(text):
        parts.append(text[end : match.start()])
        field = field_of(match)
        parts.append(field if isinstance(field, str) else Variable(match[0], field))
        end = match.end()
    parts.append(text[end:])
    return _finest(joined(parts))


def _finest(parts: list[Part]) -> list[Part]:
    """Return the parts, of which only the finest of several instants or durations of one field keeps the field."""
    best: dict[str, Variable] = {}
    for part in parts:
        if isinstance(part, Variable) and part.field.unit:
            finest = best.setdefault(part.field.name, part)
            if part.field.step < finest.field.step:
                best[part.field.name] = part
    return [
        Variable(part.text, replace(part.field, name=f"coarse_{part.field.name}"))
        if isinstance(part, Variable) and part.field.unit and best[part.field.name] is not part
        else part
        for part in parts
    ]


def joined(parts: Iterable[Part]) -> list[Part]:
    """Return parts with neighbouring literals as one, and none empty."""
    result: list[Part] = []
    for part in parts:
        if isinstance(part, str) and result and isinstance(result[-1], str):
            result[-1] += part
        elif part:
            result.append(part)
    return result


def variables(parts: Iterable[Part]) -> list[Variable]:
    """Return the variables, the first of each field."""
    first: dict[str, Variable] = {}
    for part in parts:
        if isinstance(part, Variable):
            first.setdefault(part.field.name, part)
    return list(first.values())


def pattern_of(parts: Sequence[Part], captured: Iterable[str] | None = None, *, before: str = "") -> str:
    """Return the regular expression (for RE2 and Python) of a line.

    ``captured``: fields to capture as groups; None: all, named. ``before``: expression of what may precede the line.
    """
    groups = None if captured is None else set(captured)
    names: set[str] = set()
    text = f"^{before}"
    for k, part in enumerate(parts):
        if isinstance(part, str):
            following = parts[k + 1] if k + 1 < len(parts) else ""
            optional = isinstance(following, Variable) and following.field.optional and part.endswith(" ")
            text += re.escape(part[:-1] if optional else part)
            continue
        value = part.field.pattern or ('[^" ]*' if part.field.quoted else _until(parts, k))
        name = part.field.name
        group = f"(?:{value})"
        if name not in names and (groups is None or name in groups):
            group = f"(?P<{name}>{value})" if groups is None else f"({value})"
        names.add(name)
        if part.field.quoted:
            group = f'"?{group}"?'
        preceding = parts[k - 1] if k else ""
        blank = " " if isinstance(preceding, str) and preceding.endswith(" ") else ""
        text += f"(?:{blank}{group})?" if part.field.optional else group
    return text + r"\s*$"


def captured_names(parts: Sequence[Part], names: Iterable[str]) -> list[str]:
    """Return the fields among ``names``, in the order of their groups."""
    chosen = set(names)
    return [variable.field.name for variable in variables(parts) if variable.field.name in chosen]


def _until(parts: Sequence[Part], k: int) -> str:
    """Return the expression of a value without a pattern of its own: all up to the next literal."""
    following = parts[k + 1] if k + 1 < len(parts) else ""
    before = parts[k - 1] if k else ""
    if isinstance(following, Variable):
        return ".*?"
    if following.startswith('"') and isinstance(before, str) and before.endswith('"'):
        return QUOTED
    return f"[^{re.escape(following[0])}]*" if following else ".*?"
