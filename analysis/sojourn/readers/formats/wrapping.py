"""Lines that stand inside the lines of another log, as shippers of logs and runtimes of containers write them."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from sojourn.readers.formats.detect import LINES, MAJORITY, TEXT_FORMATS, detected_format, has_own_records
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.line_time import line_time

_HOST, _TAG = r"\S*[^\s:] ", r"[^\s:\[{\"]+(?:\[\d+\])?: "
_PROGRAM = "\ufeff?" + r"(?:[\w.-]+ *\| )?(?:\[pod/[^\]\s]+\] )?"
_INSTANT = r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) "
_SYSLOG = (
    rf"(?:<\d{{1,3}}>)?(?:1(?: \S+){{5}} (?:-|(?:\[[^\]]*\])+) "
    rf"|\w{{3}} [ \d]\d [\d:]{{8}} (?:{_HOST})?{_TAG})?"
)
# Headers that shippers put before a line: docker compose, kubectl, container runtimes, syslog (RFC 3164 and 5424).
HEADER = rf"{_PROGRAM}(?:{_INSTANT}(?:(?:stdout|stderr) [FP] |{_HOST}{_TAG})?)?{_SYSLOG}"
# Container runtimes (CRI) mark all parts of a line but the last with P instead of F.
UNFINISHED = rf"{_PROGRAM}{_INSTANT}(?:stdout|stderr) P "
_HEADER, _SYSLOG_HEADER = re.compile(HEADER), re.compile(_SYSLOG)
_CRI = re.compile(rf"{_PROGRAM}{_INSTANT}(?P<stream>stdout|stderr) (?P<tag>[FP]) ")
# Fluentd, Fluent Bit and Docker; Filebeat, Logstash and Vector; and journald.
_KEYS = ("log", "message", "msg", "MESSAGE")
_OF_DOCKER = frozenset(("log", "stream", "time"))
_ALL_OF_DOCKER = _OF_DOCKER | {"attrs"}
_LAYERS = 3  # as in: a line behind a header of syslog, in Docker's file, shipped by Filebeat
_UNKNOWN, _OBJECTS, _LACKING, _WHOLE = range(4)  # what is recognised of lines


@dataclass(frozen=True)
class Part:
    """A line, or a part of one.

    Attributes:
        text: without a line end, if another part follows.
        stream: its parts are of one stream: stdout or stderr.
        is_last: no part follows.
    """

    text: str
    stream: str
    is_last: bool


@dataclass(frozen=True)
class Layer:
    """What is around lines.

    Attributes:
        key: the key of a JSON object that holds the line; empty: a header before the line.
        partial: a line may be written in parts: a header says so, or a value has no line end.
    """

    key: str = ""
    partial: bool = False

    def bare(self, line: str) -> str:
        """Return the line within a line; the line itself if there is none."""
        if not self.key:
            return without_header(line)
        value = self.value(line)
        return line if value is None else value

    def value(self, line: str) -> str | None:
        """Return the value of the key in a line; None if the line is no such object."""
        (value,) = self.values([line])
        return value

    def values(self, lines: Iterable[str | None]) -> Iterator[str | None]:
        """Yield the value of the key in each line; None for one that is no such object."""
        decode = _decoder(self.key).decode
        for line in lines:
            try:
                value = None if line is None else decode(line).line
                # journald writes the bytes of a text that is not UTF-8.
                yield bytes(value).decode("utf-8", "replace") if isinstance(value, list) else value
            except (ValueError, RecursionError):  # also those of msgspec
                yield None

    def part(self, line: str) -> Part | None:
        """Return the part of a line that a line holds; None if it is bare."""
        if not self.key:
            match = _CRI.match(line)
            return None if match is None else _part(line[match.end() :], match["stream"], match["tag"] == "F")
        value = self.value(line)
        if value is None:
            return None
        return _part(value, str(_decoder(self.key).decode(line).stream), value.endswith("\n"))

    def whole(self, text: str) -> str:
        """Return a line whose parts were joined, without what is around it as a whole."""
        return text if self.key else _SYSLOG_HEADER.sub("", text, count=1)


Wrapping = tuple[Layer, ...]
"""What is around lines, the outermost first."""


def _part(text: str, stream: str, is_last: bool) -> Part:
    return Part(text if is_last else text.rstrip("\n"), stream, is_last)


@functools.cache
def _decoder(key: str) -> msgspec.json.Decoder[Any]:
    fields = [("line", str | list[int] | None, None), ("stream", Any, None)]
    return msgspec.json.Decoder(msgspec.defstruct("Wrapped", fields, rename={"line": key}, gc=False))


def without_header(line: str) -> str:
    """Return a line without the header of a shipper of logs."""
    match = _HEADER.match(line)
    return line[match.end() :] if match else line


def bare_line(line: str, wrapping: Wrapping) -> str:
    """Return the line within a line."""
    for layer in wrapping:
        line = layer.bare(line)
    return line


def bare_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines within the first lines of a log; blank ones are left out."""
    wrapping, _ = recognised_wrapping(lines)
    return [text for line in lines if (text := bare_line(line, wrapping).strip())]


def recognised_wrapping(lines: Iterable[str]) -> tuple[Wrapping, bool]:
    """Return what is around most of the lines, and whether their format, or Sojourn's own record, is recognised.

    A key is taken as one that holds lines if these are objects or have a format, and the objects around them are no
    requests themselves.
    """
    sample = _sample(lines)
    if len(sample) == LINES and not _header(sample) and not _key_layers(sample):
        return (), True
    wrapping, recognised = _wrapping_of(sample)
    return wrapping, recognised >= _LACKING


def fitting_wrapping(lines: Iterable[str], form: LineFormat | None) -> tuple[Wrapping, bool]:
    """Return what is around most lines of a format (None: Sojourn's own record), and whether any line has the format.

    Lines have a format if they have an instant in it.
    """
    sample = _sample(lines)
    time_of = line_time(form)
    most, wrapping = 0, None
    for each, inner in _wrappings(sample):
        fitting = sum(time_of(line.encode("utf-8", "replace")) is not None for line in inner)
        # An object may look like a text whose first and last variables are anything.
        is_text_within = form is not None and not form.json and each and each[-1].key
        if fitting > most or (fitting == most > 0 and is_text_within):
            most, wrapping = fitting, each
    return (_wrapping_of(sample)[0], False) if wrapping is None else (wrapping, True)


def _sample(lines: Iterable[str]) -> list[str]:
    return list(islice((text for line in lines if (text := line.strip())), LINES))


def _wrappings(lines: list[str], depth: int = 0) -> Iterator[tuple[Wrapping, list[str]]]:
    """Yield everything that may be around lines with the lines within, the nearest first."""
    yield (), lines
    if depth < _LAYERS:
        for layer in (*_header(lines), *_key_layers(lines)):
            for wrapping, inner in _wrappings(_within(lines, layer), depth + 1):
                yield (layer, *wrapping), inner


def _wrapping_of(lines: list[str], depth: int = 0, *, headed: bool = False) -> tuple[Wrapping, int]:
    """Return what is around lines, and what is recognised of the lines within.

    ``headed``: the lines stood behind a header, and have no other one.
    """
    if depth == _LAYERS:
        return (), _recognised(lines)
    for layer in [] if headed else _header(lines):
        wrapping, recognised = _wrapping_of(_within(lines, layer), depth + 1, headed=True)
        # A line may begin as a header does.
        if layer.partial or (recognised >= max(_recognised(lines), _OBJECTS) and not _has_name(lines)):
            return (layer, *wrapping), recognised
    best: tuple[Wrapping, int] = ((), _UNKNOWN)
    for layer in _key_layers(lines):
        around = _recognised([line for line in lines if layer.value(line) is not None])
        if around == _WHOLE:
            return (), around
        wrapping, recognised = _wrapping_of(_within(lines, layer), depth + 1)
        if (recognised > best[1] and recognised >= around) or (layer.key == "log" and _is_docker(lines)):
            best = (layer, *wrapping), recognised
    return best if best[0] else ((), _recognised(lines))


def _within(lines: list[str], layer: Layer) -> list[str]:
    return [layer.bare(line).strip() for line in lines]


def _recognised(lines: Sequence[str]) -> int:
    """Return what is recognised of lines."""
    if has_own_records(lines):
        return _WHOLE
    form = detected_format(lines)
    if form is not None:
        return _LACKING if form.lacks else _WHOLE
    return _OBJECTS if len(_objects(lines)) > MAJORITY * len(lines) else _UNKNOWN


def _header(lines: Sequence[str]) -> list[Layer]:
    """Return the layer of a header that most of the lines have; none without one."""
    if sum(len(without_header(line)) < len(line) for line in lines) <= MAJORITY * len(lines):
        return []
    return [Layer(partial=sum(_CRI.match(line) is not None for line in lines) > MAJORITY * len(lines))]


def _has_name(lines: Sequence[str]) -> bool:
    """Return whether most of the lines have a format with a name, header and all."""
    form = detected_format(lines)
    if form is None or form.name not in TEXT_FORMATS:
        return False
    return sum(form.pattern.match(line) is not None for line in lines) > MAJORITY * len(lines)


def _key_layers(lines: Sequence[str]) -> list[Layer]:
    """Return a layer for each key that may hold the lines: its value is a text in most of them."""
    objects = _objects(lines)
    texts = Counter(key for each in objects for key in _KEYS if isinstance(each.get(key), str | list))
    of_docker = [str(each["log"]) for each in objects if _OF_DOCKER <= each.keys() <= _ALL_OF_DOCKER]
    # Fluentd and others strip the line ends.
    in_parts = any(text.endswith("\n") for text in of_docker) and len(of_docker) > MAJORITY * len(objects)
    return [Layer(key, partial=in_parts and key == "log") for key in _KEYS if texts[key] > MAJORITY * len(lines)]


def _is_docker(lines: Sequence[str]) -> bool:
    """Return whether most of the lines have the keys of Docker's driver json-file."""
    return sum(each.keys() >= _OF_DOCKER for each in _objects(lines)) > MAJORITY * len(lines)


def _objects(lines: Sequence[str]) -> list[Mapping[str, object]]:
    return [value for line in lines if line.startswith("{") and (value := _object(line)) is not None]


def _object(line: str) -> Mapping[str, object] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
