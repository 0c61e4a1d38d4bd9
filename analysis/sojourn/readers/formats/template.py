"""Text that defines a log format, as literals and variables, and the regular expression that its lines match."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sojourn.readers.formats.fields import DURATIONS, INSTANTS, UNITS, Field

QUOTED = r'(?:[^"\\]|\\.)*'
# Patterns of fields: a text that may hold blanks and, outside of quotes, anything; the same where quotes are not
# escaped; a text without blanks; a number.
FREE, RAW, WORD, NUMBER = ".*?", "(?:.*?)", r"\S*", r"-?[0-9.]*"
EVERY_ELEMENT = -1
ANYTHING = "(?:.{0,300}?[ :])??"  # before a line of HAProxy
_UNIT = re.compile(rf"=({'|'.join(UNITS)})(?!\w)")
_STEP = re.compile(r"\[(\d+|\*)\]|((?:[^.\\\[]|\\.)+)\.?|\.", re.DOTALL)


@dataclass(frozen=True)
class Variable:
    """A variable of a format: its text there, and its field."""

    text: str
    field: Field


Part = str | Variable


def parts_of(text: str, variable: re.Pattern[str], field_of: Callable[[re.Match[str]], Field | str]) -> list[Part]:
    """Split the text of a format into literals and variables.

    A duration may have its unit behind it (``=ms``), which is no part of the lines.
    ``field_of``: the field of a match of ``variable``, or a literal that stands for itself.
    """
    parts: list[Part] = []
    end = 0
    for match in variable.finditer(text):
        parts.append(text[end : match.start()])
        field = field_of(match)
        end = match.end()
        if isinstance(field, str):
            parts.append(field)
            continue
        if not field.unit and field.name in (*INSTANTS, *DURATIONS):  # a value of the user's own
            field = replace(field, name=f"own_{field.name}")
        if field.name in DURATIONS and (unit := _UNIT.match(text, end)):
            field, end = replace(field, unit=unit[1]), unit.end()
        parts.append(Variable(text[match.start() : end], field))
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
        value = value_pattern(parts, k)
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


def value_pattern(parts: Sequence[Part], k: int) -> str:
    """Return the regular expression of the value of the variable ``parts[k]``, which depends on what surrounds it."""
    field = cast("Variable", parts[k]).field
    if field.pattern in ("", FREE) and field.quoted:
        return '[^" ]*'
    if field.pattern == FREE:
        return _free(parts, k)
    if field.pattern == WORD:
        return _word(parts, k)
    return field.pattern or _until(parts, k)


def _until(parts: Sequence[Part], k: int) -> str:
    """Return the expression of a value without a pattern of its own: all up to the next literal."""
    following = parts[k + 1] if k + 1 < len(parts) else ""
    before = parts[k - 1] if k else ""
    if isinstance(following, Variable):
        return ".*?"
    if following.startswith('"') and isinstance(before, str) and before.endswith('"'):
        return QUOTED
    return f"[^{re.escape(following[0])}]*" if following else ".*?"


def _free(parts: Sequence[Part], k: int) -> str:
    """Return the expression of a value that may hold anything; within quotes, anything but a quote."""
    following = parts[k + 1] if k + 1 < len(parts) else ""
    if isinstance(following, Variable) and following.field.name == "uri":  # it begins with a slash
        return '[^/"]*' if _in_quotes(parts, k) else "[^/]*"
    if not _in_quotes(parts, k):
        return ".*?"
    return QUOTED if isinstance(following, str) and following.startswith('"') else f"{QUOTED}?"


def _word(parts: Sequence[Part], k: int) -> str:
    """Return the expression of a value without blanks."""
    following = parts[k + 1] if k + 1 < len(parts) else ""
    characters = r'[^\s"]' if _in_quotes(parts, k) else r"\S"
    is_end = isinstance(following, str) and (not following or following[0] in ' "\t')
    return f"{characters}*" if is_end else f"{characters}*?"


def _in_quotes(parts: Sequence[Part], k: int) -> bool:
    """Return whether a part stands within quotes of the format."""
    return sum(part.count('"') for part in parts[:k] if isinstance(part, str)) % 2 == 1


def joined_path(keys: Iterable[str | int]) -> str:
    r"""Return a path of keys of JSON objects as a text: joined by ".", with a backslash before those in a key.

    A number is that of an element of an array; ``EVERY_ELEMENT``: all of them.

    >>> joined_path(["request", "http.status"]), joined_path(["times", 0]), joined_path(["times", EVERY_ELEMENT])
    ('request.http\\.status', 'times[0]', 'times[*]')
    """
    path = ""
    for key in keys:
        if isinstance(key, int):
            path += "[*]" if key == EVERY_ELEMENT else f"[{key}]"
        else:
            path += ("." if path else "") + re.sub(r"([\\.\[])", r"\\\1", key)
    return path


def leaves_of(
    value: Mapping[str, object], depth: int = sys.maxsize, before: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], object]]:
    """Return the keys on the way to each value of nested objects, and the value; no path has an empty key.

    Args:
        value: the object.
        depth: of the objects that are looked into; a deeper one is a value.
        before: the keys that lead to the object.

    >>> leaves_of({"req": {"id": "a"}, "http.status": 200})
    [(('req', 'id'), 'a'), (('http.status',), 200)]
    """
    leaves: list[tuple[tuple[str, ...], object]] = []
    for key, inner in value.items():
        if not key:
            continue
        path = (*before, key)
        if isinstance(inner, Mapping) and len(path) < depth:
            leaves += leaves_of(inner, depth, path)
        else:
            leaves.append((path, inner))
    return leaves


def path_keys(path: str) -> list[str | int]:
    r"""Return the keys of a path that ``joined_path`` has made.

    >>> path_keys("request.http\\.status"), path_keys("times[0].x")
    (['request', 'http.status'], ['times', 0, 'x'])
    """
    keys: list[str | int] = []
    for match in _STEP.finditer(path):
        if match[1]:
            keys.append(EVERY_ELEMENT if match[1] == "*" else int(match[1]))
        elif match[2]:
            keys.append(re.sub(r"\\(.)", r"\1", match[2], flags=re.DOTALL))
    return keys
