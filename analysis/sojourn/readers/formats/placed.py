"""Lines of text in which nginx's variables stand in any order: before the status, first of all, behind labels.

The line is taken apart at its blanks, quotes and brackets, or at one sign between all values; what each part is
follows from its values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.readers.formats.appended import columns_format, meanings_of
from sojourn.readers.formats.behaviour import Context
from sojourn.readers.formats.columns import DAMAGED, Column, columns_of_lines
from sojourn.readers.formats.fields import CLF
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.line_time import instant

_STAMPS = (
    ("msec", "s", re.compile(r"\d{10}\.\d{3}")),
    ("time_iso8601", "iso", re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}(?:Z|[+-]\d\d:\d\d)")),
    ("time_local", "clf", re.compile(CLF)),
)
_REQUEST = re.compile(r"[A-Z]{3,10} \S.* HTTP/\d(?:\.\d)?|-|(?:\\x[0-9A-F]{2}.*)|")
_METHOD, _URI, _PROTOCOL = (
    re.compile(r"[A-Z]{3,10}|-"),
    re.compile(r"/\S*|-|\*|https?://\S+"),
    re.compile(r"HTTP/\d\S*|-"),
)
_STATUS, _SIZE = re.compile(r"[1-5]\d\d"), re.compile(r"\d+|-")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:]*:[0-9a-f:]+|unix:|-")
_SENT = "body_bytes_sent"
_HOST = re.compile(r"(?:[\w-]+\.)*[A-Za-z][\w-]*\.[a-z]{2,}(?::\d+)?|localhost(?::\d+)?")


def placed_format(lines: Sequence[str]) -> LineFormat | None:
    """Return the format of lines with an instant and a status somewhere; None without these."""
    formats = (_of_columns(columns) for columns in columns_of_lines(lines))
    return next((log for log in formats if log is not None), None)


def _of_columns(columns: Sequence[Column]) -> LineFormat | None:
    settled = settled_columns(columns)
    stamps = [name for name, _, _ in _STAMPS if name in settled.values()]
    if not stamps or "status" not in settled.values():
        return None
    meanings, doubts = meanings_of(columns, settled)
    if "request_time" not in meanings and not set(settled.values()) & {"request", "request_uri"}:
        return None
    unit = next(unit for name, unit, _ in _STAMPS if name == stamps[0])
    instants = [instant(value, unit) for value in columns[meanings.index(stamps[0])].values]
    sizes = columns[meanings.index(_SENT)].values if _SENT in meanings else ["0"] * len(instants)
    context = [Context(at, "", int(size) if size.isdecimal() else 0) for at, size in zip(instants, sizes, strict=True)]
    return columns_format("", "nginx's log", columns, meanings, doubts, context)


def settled_columns(columns: Sequence[Column]) -> dict[int, str]:
    """Return number of a column -> its variable, of those whose values say it."""
    settled: dict[int, str] = {}

    def settle(name: str, pattern: re.Pattern[str], *, among: range | None = None, quoted: bool = False) -> int | None:
        for k in among or range(len(columns)):
            column = columns[k]
            if k not in settled and column.opening != "[" and (not quoted or column.opening == '"') and _is_of(
                column, pattern
            ):  # fmt: skip
                settled[k] = name
                return k
        return None

    for name, _, pattern in _STAMPS:
        number = next((k for k, column in enumerate(columns) if k not in settled and _is_of(column, pattern)), None)
        if number is not None:
            settled[number] = name
    request = settle("request", _REQUEST, quoted=True)
    if request is None and (method := settle("request_method", _METHOD)) is not None:
        request = settle("request_uri", _URI, among=range(method + 1, min(method + 2, len(columns))))
        if request is not None:
            settle("server_protocol", _PROTOCOL, among=range(request + 1, min(request + 2, len(columns))))
    after = (request or 0) + 1
    status = settle("status", _STATUS, among=range(after, len(columns))) if request is not None else None
    if status is None:
        status = settle("status", _STATUS)
    if status is not None and status + 1 < len(columns):
        settle(_SENT, _SIZE, among=range(status + 1, status + 2))
    settle("remote_addr", _ADDRESS)
    settle("host", _HOST)
    return settled


def _is_of(column: Column, pattern: re.Pattern[str]) -> bool:
    values = [value for value in column.values if value != "-"]
    return bool(values) and column.all(pattern) and sum(
        pattern.fullmatch(value) is None for value in values
    ) <= DAMAGED * len(values)  # fmt: skip
