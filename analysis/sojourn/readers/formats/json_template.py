"""JSON objects: those of lines, and the values of a log format that is the text of one, with variables for values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sojourn.readers.formats.template import EVERY_ELEMENT, joined_path

_SPACE = re.compile(r"\s*")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
# Names of variables may hold braces, brackets and commas: ${name}, %{name}i, %!200,304{name}i, %[expression].
_BARE = re.compile(r"(?:\$\{\w+\}|%(?:!?[0-9,]+)?[<>]?\{[^}]*\}|%\[[^\]]*\]|[^\s,{}\[\]\"])+")
_DEEPEST = 50


@dataclass(frozen=True)
class JsonValue:
    """A text or a bare value of a JSON template.

    Attributes:
        path: as from ``joined_path``.
        text: the value, without its quotes.
    """

    path: str
    text: str


def json_values(text: str) -> list[JsonValue] | None:
    """Return the values of a template, at any depth; None if it is not the text of an object."""
    reader = _Reader(text)
    try:
        reader.value((), 0)
    except _NoJsonError:
        return None
    return reader.values if reader.at_end() else None


def object_in(line: str) -> dict[str, object] | None:
    """Return the JSON object that a line is; None if it is none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _NoJsonError(Exception):
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self.values: list[JsonValue] = []
        self._text, self._at = text, 0

    def at_end(self) -> bool:
        return not self._peek()

    def value(self, path: tuple[str | int, ...], depth: int) -> None:
        """Read a value of any kind."""
        first = self._peek()
        if depth > _DEEPEST:
            raise _NoJsonError
        if first == "{":
            self._object(path, depth)
        elif first == "[":
            self._array(path, depth)
        elif path:
            self.values.append(JsonValue(joined_path(path), self._scalar()))
        else:
            raise _NoJsonError

    def _object(self, path: tuple[str | int, ...], depth: int) -> None:
        self._take("{")
        while self._peek() != "}":
            key = self._match(_TEXT)[1]
            self._take(":")
            self.value((*path, _decoded(key)), depth + 1)
            if self._peek() != ",":
                break
            self._take(",")
        self._take("}")

    def _array(self, path: tuple[str | int, ...], depth: int) -> None:
        self._take("[")
        first, number = len(self.values), 0
        bare = self._peek() not in '"[{]'
        while self._peek() != "]":
            self.value((*path, number), depth + 1)
            number += 1
            if self._peek() != ",":
                break
            self._take(",")
        self._take("]")
        if bare and number == 1:  # a variable that is a list becomes several elements
            self.values[first] = JsonValue(joined_path((*path, EVERY_ELEMENT)), self.values[first].text)

    def _scalar(self) -> str:
        if self._peek() == '"':
            return self._match(_TEXT)[1]
        return self._match(_BARE)[0]

    def _peek(self) -> str:
        self._at = self._match(_SPACE).end()
        return self._text[self._at : self._at + 1]

    def _take(self, mark: str) -> None:
        if self._peek() != mark:
            raise _NoJsonError
        self._at += 1

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise _NoJsonError
        self._at = match.end()
        return match


def _decoded(key: str) -> str:
    try:
        return str(json.loads(f'"{key}"'))
    except ValueError:
        return key
