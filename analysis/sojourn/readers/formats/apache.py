"""Directives of Apache's ``LineFormat`` (mod_log_config), and of varnishncsa, which has the same language."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sojourn.model.errors import SojournError
from sojourn.readers.formats.fields import CLF, INSTANTS, Field
from sojourn.readers.formats.fields import FIELDS as QUANTITIES
from sojourn.readers.formats.template import FREE, NUMBER, WORD, Part, Variable, parts_of

# %, conditions (!200,304), < or > (first or last request of a redirect), {argument}, letter.
VARIABLE = re.compile(r"%(?:!?[0-9,]+)?[<>]?(?:\{([^}]*)\})?(\^t[io]|\^FB|[a-zA-Z%])")
_STATUS = r"\d{3}|-"
_PLAIN = {
    "a": Field("remote_addr", pattern=WORD), "h": Field("remote_addr", pattern=WORD),
    "u": Field("remote_user", pattern=r'""|.*?'), "l": Field("logname", pattern=FREE),
    "r": Field("request", pattern=FREE), "m": Field("method", pattern=FREE), "U": Field("uri", pattern=FREE),
    "q": Field("query", pattern=FREE), "H": Field("protocol", pattern=WORD), "s": Field("status", pattern=_STATUS),
    "b": Field("body_bytes_sent", pattern=NUMBER), "B": Field("body_bytes_sent", pattern=NUMBER),
    "O": Field("bytes_sent", pattern=NUMBER), "I": Field("request_length", pattern=NUMBER),
    "v": Field("host", pattern=WORD), "V": Field("host", pattern=WORD), "L": Field("log_id", pattern=WORD),
    "P": Field("pid", pattern=NUMBER), "k": Field("keepalive_requests", pattern=NUMBER),
    "X": Field("connection_status", pattern=WORD), "f": Field("filename", pattern=FREE),
    "p": Field("port", pattern=NUMBER), "A": Field("local_addr", pattern=WORD), "R": Field("handler", pattern=FREE),
    "S": Field("bytes_transferred", pattern=NUMBER), "D": Field("request_time", "us", NUMBER),
    "T": Field("request_time", "s", NUMBER), "t": Field("start", "clf"),
    "^FB": Field("first_byte_us", pattern=NUMBER),
}  # fmt: skip
_REQUEST_TIME_UNITS = ("s", "ms", "us")
_UNREAD = "unread_time"
_CLOCKS = {"sec": "whole_s", "%s": "whole_s", "msec": "ms", "usec": "us"}
_HEADERS_IN = {"x-request-id": Field("request_id", pattern=FREE), "host": Field("host", pattern=FREE)}
_HEADERS_OUT = {
    "x-queueing-delay": Field("queueing_delay", "s", FREE), "x-service-time": Field("service_time", "s", FREE),
    "x-worker": Field("worker", pattern=FREE), "x-route": Field("route", pattern=FREE),
}  # fmt: skip
_ENVIRONMENT = {
    "balancer_worker_name": Field("upstream_addr", pattern=WORD),
    "unique_id": Field("request_id", pattern=WORD),
}
_VARNISH = {
    "varnish:time_firstbyte": Field("header", "s", WORD),
    "varnish:handling": Field("handling", pattern=WORD),
    "varnish:hitmiss": Field("hitmiss", pattern=WORD),
}


def field_of(letter: str, argument: str | None) -> Field:
    """Return the field of a directive.

    Raises:
        SojournError: a response time has a unit that Apache does not have.
    """
    if letter == "t" and argument:
        return _instant(argument)
    if letter == "T" and argument:
        if argument not in _REQUEST_TIME_UNITS:
            raise SojournError(f"%{{{argument}}}T: Apache has the units {', '.join(_REQUEST_TIME_UNITS)}")
        return Field("request_time", argument, NUMBER)
    if letter in ("h", "a", "p", "P", "B", "b"):  # %{c}h, %{remote}p, %{tid}P
        argument = None
    if argument is None:
        return _PLAIN.get(letter, Field(f"directive_{letter}", pattern=FREE))
    name = argument.lower()
    fields = {"i": _HEADERS_IN, "o": _HEADERS_OUT, "e": _ENVIRONMENT, "x": _VARNISH}.get(letter, {})
    return fields.get(name) or column(name)


def column(name: str) -> Field:
    """Return the field of a value of the user's own, with a name that no quantity has."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII)
    return Field(f"own_{name}" if name in QUANTITIES or not name or name[0].isdigit() else name, pattern=FREE)


def _instant(argument: str) -> Field:
    """Return the field of %{format}t; a column where the format cannot be read back."""
    begin, _, form = argument.rpartition(":") if argument.startswith(("begin", "end")) else ("", "", argument)
    if argument in ("begin", "end"):
        begin, form = argument, ""
    name = "end" if begin == "end" else "start"
    if form in _CLOCKS:
        return Field(name, _CLOCKS[form], NUMBER)
    if form in ("", "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%T %z", "[%d/%b/%Y:%H:%M:%S %z]"):
        pattern = r"\[[^\]]*\]" if form.startswith("[") else CLF
        return Field(name, "clf", pattern)
    if form in ("%Y-%m-%dT%H:%M:%S%z", "%FT%T%z", "%Y-%m-%dT%H:%M:%SZ", "%FT%TZ", "%Y-%m-%d %H:%M:%S", "%F %T"):
        return Field(name, "iso", r"\d{4}-\d\d-\d\d[T ][0-9:]{8}(?:Z|[+-]\d\d:?\d\d)?")
    return Field(_UNREAD, pattern=FREE)


def apache_parts(text: str) -> list[Part]:
    """Split the text of a ``LineFormat``; %t writes its own brackets.

    Raises:
        SojournError: no time that it has can be read back.
    """

    def part(match: re.Match[str]) -> Field | str:
        if match[2] == "%":
            return "%"
        return field_of(match[2], match[1])

    text = re.sub(r"%(!?[0-9,]+)?[<>]?t(?![io])", "[%t]", text.replace(r"\"", '"').replace(r"\t", "\t"))
    parts = parts_of(text, VARIABLE, part)
    _require_instant(parts)
    return parts


def _require_instant(parts: Sequence[Part]) -> None:
    every = [part for part in parts if isinstance(part, Variable)]
    unread = next((each for each in every if each.field.name == _UNREAD), None)
    if unread and not any(each.field.name in INSTANTS for each in every):
        raise SojournError(
            f"{unread.text}: this format of a time is not read; use %t, %{{msec}}t, %{{usec}}t or "
            "%{%Y-%m-%dT%H:%M:%S%z}t"
        )
