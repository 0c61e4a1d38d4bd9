"""Divide single lines into the values of their format, and find the place that does not fit.

Python's regular expressions can take time without bound for a format with several texts that may hold anything; here
every place of a line is tried once for each part.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.pairs import pairs_of
from sojourn.readers.formats.template import (
    EVERY_ELEMENT,
    FREE,
    RAW,
    Part,
    Variable,
    path_keys,
    value_pattern,
)

Values = Mapping[str, str]


@dataclass(frozen=True)
class Division:
    """What of a line fits a sequence of parts.

    Attributes:
        values: field -> value; None if the line does not fit.
        part: number of the first part that does not fit, wherever the parts before it are; the number of parts if it is
            the end of the line.
        place: the place in the line of that part.
    """

    values: Values | None
    part: int
    place: int


def divided(parts: Sequence[Part], line: str) -> Division:
    """Divide a line without a header."""
    search = _Search(tuple(parts), line.rstrip("\r\n"))
    ends = search.ends_from(0, 0)
    return Division(None if ends is None else search.values(ends), *search.farthest)


class _Search:
    def __init__(self, parts: tuple[Part, ...], line: str) -> None:
        self._parts, self._line = parts, line
        self._patterns = _patterns(parts)
        self._free = {k for k, (pattern, _) in enumerate(self._patterns) if pattern.pattern in (FREE, RAW)}
        self._failed: set[tuple[int, int]] = set()
        self._free_failed: dict[int, int] = {}
        self.farthest = (0, 0)

    def ends_from(self, part: int, at: int) -> list[int] | None:
        """Return where each part from this one on ends, the last first; None if they do not fit the rest."""
        # A value that may hold anything fits nowhere behind a place where it did not.
        if (part, at) in self._failed or at >= self._free_failed.get(part, at + 1):
            return None
        if part > self.farthest[0]:
            self.farthest = (part, at)
        if part == len(self._parts):
            return [] if not self._line[at:].strip() else None
        for end in self._ends(part, at):
            rest = self.ends_from(part + 1, end)
            if rest is not None:
                rest.append(end)
                return rest
        self._failed.add((part, at))
        if part in self._free:
            self._free_failed[part] = at
        return None

    def values(self, ends: Sequence[int]) -> Values:
        """Return field -> value."""
        values: dict[str, str] = {}
        begin = 0
        for part, end in zip(self._parts, reversed(ends), strict=True):
            if isinstance(part, Variable):
                values.setdefault(part.field.name, self._line[begin:end])
            begin = end
        return values

    def _ends(self, part: int, at: int) -> Iterator[int]:
        each = self._parts[part]
        if isinstance(each, str):
            if self._line.startswith(each, at):
                yield at + len(each)
            return
        pattern, is_lazy = self._patterns[part]
        places = self._places(part, at)
        for end in places if is_lazy else reversed(list(places)):
            if part in self._free or pattern.fullmatch(self._line, at, end):
                yield end

    def _places(self, part: int, at: int) -> Iterator[int]:
        """Yield the places where the following part may begin."""
        line, following = self._line, self._parts[part + 1] if part + 1 < len(self._parts) else None
        if following is None:
            yield from sorted({max(len(line.rstrip()), at), len(line)})
        elif isinstance(following, str):
            place = line.find(following, at)
            while place >= 0:
                yield place
                place = line.find(following, place + 1)
        else:
            yield from range(at, len(line) + 1)


@functools.lru_cache(maxsize=64)
def _patterns(parts: tuple[Part, ...]) -> list[tuple[re.Pattern[str], bool]]:
    """Return the expression of each variable's value, and whether the shortest value is the first choice."""
    texts = [value_pattern(parts, k) if isinstance(part, Variable) else "" for k, part in enumerate(parts)]
    return [(re.compile(text, re.DOTALL), text.endswith(("*?", "*?)"))) for text in texts]


def values_of(form: LineFormat) -> Callable[[str], Values | None]:
    """Return a function from a line to field -> value; None where the line does not have the format."""
    if form.json:
        return functools.partial(_values_of_json, form)
    if form.pairs:
        return functools.partial(_values_of_pairs, form)
    if form.prefix or any(variable.field.optional or variable.field.quoted for variable in form.variables):
        return functools.partial(_values_by_pattern, form)

    def of_text(line: str) -> Values | None:
        return divided(form.parts, line).values

    return of_text


def _values_by_pattern(form: LineFormat, line: str) -> Values | None:
    match = form.pattern.match(line)
    return None if match is None else {name: value or "" for name, value in match.groupdict().items()}


def _values_of_pairs(form: LineFormat, line: str) -> Values:
    pairs = pairs_of(line, form.pairs)
    return {field.name: pairs[path] for path, field in zip(form.paths, form.fields, strict=True) if path in pairs}


def _values_of_json(form: LineFormat, line: str) -> Values | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return divided(form.as_text, line).values if form.as_text and line.startswith("{") else None
    if not isinstance(value, dict):
        return None
    values: dict[str, str] = {}
    for path, field in zip(form.paths, form.fields, strict=True):
        if (text_there := text_at(value, path)) is not None:
            values.setdefault(field.name, text_there)
    for path, parts in form.composed:
        if (whole := text_at(value, path)) is not None:
            values = {**(divided(parts, whole).values or {}), **values}
    return values


def text_at(value: object, path: str) -> str | None:
    """Return the text at a path of a JSON value, elements of an array as nginx joins attempts; None without one."""
    for key in path_keys(path):
        if isinstance(key, int):
            if not isinstance(value, list):
                return None
            if key == EVERY_ELEMENT:
                return ", ".join(map(str, value))
            if key >= len(value):
                return None
            value = value[key]
        elif not isinstance(value, dict) or key not in value:
            return None
        else:
            value = value[key]
    return None if value is None else str(value)
