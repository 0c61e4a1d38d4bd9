"""Directives of Apache's ``LineFormat`` (mod_log_config), and of varnishncsa, which has the same language."""

from __future__ import annotations

import re

from sojourn.model.errors import SojournError
from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.template import Part, parts_of

# %, conditions (!200,304), < or > (first or last request of a redirect), {argument}, letter.
VARIABLE = re.compile(r"%(?:!?[0-9,]+)?[<>]?(?:\{([^}]*)\})?(\^t[io]|[a-zA-Z%])")
_PLAIN = {
    "a": Field("remote_addr"), "h": Field("remote_addr"), "u": Field("remote_user", pattern=".*?"),
    "l": Field("logname"),
    "r": Field("request"), "m": Field("method"), "U": Field("uri"), "q": Field("query"), "H": Field("protocol"),
    "s": Field("status"), "b": Field("body_bytes_sent"), "B": Field("body_bytes_sent"), "O": Field("bytes_sent"),
    "I": Field("request_length"), "v": Field("host"), "V": Field("host"), "L": Field("log_id"),
    "P": Field("pid"), "k": Field("keepalive_requests"), "X": Field("connection_status"), "f": Field("filename"),
    "p": Field("port"), "A": Field("local_addr"), "R": Field("handler"), "S": Field("bytes_transferred"),
    "D": Field("request_time", "us"), "T": Field("request_time", "s"), "t": Field("start", "clf"),
}  # fmt: skip
_REQUEST_TIME_UNITS = ("s", "ms", "us")
_CLOCKS = {"sec": "whole_s", "msec": "ms", "usec": "us"}
_HEADERS_IN = {"x-request-id": Field("request_id"), "host": Field("host")}
_HEADERS_OUT = {
    "x-queueing-delay": Field("queueing_delay", "s"), "x-service-time": Field("service_time", "s"),
    "x-worker": Field("worker"), "x-route": Field("route"),
}  # fmt: skip
_ENVIRONMENT = {"balancer_worker_name": Field("upstream_addr"), "unique_id": Field("request_id")}
_VARNISH = {
    "varnish:time_firstbyte": Field("header", "s"),
    "varnish:handling": Field("handling"),
    "varnish:hitmiss": Field("hitmiss"),
}


def field_of(letter: str, argument: str | None) -> Field:
    """Return the field of a directive.

    Raises:
        SojournError: a time has a format that cannot be read back.
    """
    if letter == "t" and argument:
        return _instant(argument)
    if letter == "T" and argument:
        if argument not in _REQUEST_TIME_UNITS:
            raise SojournError(f"%{{{argument}}}T: Apache has the units {', '.join(_REQUEST_TIME_UNITS)}")
        return Field("request_time", argument)
    if argument is None:
        return _PLAIN.get(letter, Field(f"directive_{letter}"))
    name = argument.lower()
    fields = {"i": _HEADERS_IN, "o": _HEADERS_OUT, "e": _ENVIRONMENT, "x": _VARNISH}.get(letter, {})
    return fields.get(name, Field(re.sub(r"\W", "_", name)))


def _instant(argument: str) -> Field:
    begin, _, form = argument.rpartition(":") if argument.startswith(("begin", "end")) else ("", "", argument)
    if argument in ("begin", "end"):
        begin, form = argument, ""
    name = "end" if begin == "end" else "start"
    if form in _CLOCKS:
        return Field(name, _CLOCKS[form])
    if form in ("", "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%T %z", "[%d/%b/%Y:%H:%M:%S %z]"):
        pattern = r"\[[^\]]*\]" if form.startswith("[") else r"\d\d/\w{3}/\d{4}:[0-9:]{8} [+-]\d{4}"
        return Field(name, "clf", pattern)
    if form in ("%Y-%m-%dT%H:%M:%S%z", "%FT%T%z", "%Y-%m-%dT%H:%M:%SZ", "%FT%TZ", "%Y-%m-%d %H:%M:%S", "%F %T"):
        return Field(name, "iso", r"\d{4}-\d\d-\d\d[T ][0-9:]{8}(?:Z|[+-]\d\d:?\d\d)?")
    raise SojournError(
        f"%{{{argument}}}t: this format of a time is not read; use %t, %{{msec}}t, %{{usec}}t or "
        "%{%Y-%m-%dT%H:%M:%S%z}t"
    )


def apache_parts(text: str) -> list[Part]:
    """Split the text of a ``LineFormat``; %t writes its own brackets."""

    def part(match: re.Match[str]) -> Field | str:
        if match[2] == "%":
            return "%"
        return field_of(match[2], match[1])

    text = re.sub(r"%[<>]?t(?![io])", "[%t]", text.replace(r"\"", '"').replace(r"\t", "\t"))
    return parts_of(text, VARIABLE, part)
