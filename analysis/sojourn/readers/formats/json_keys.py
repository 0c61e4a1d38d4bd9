"""The fields of logs in JSON, by their keys and the values of these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from sojourn.readers.formats import catalogue, nginx
from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.line_format import ASSUMED, LIKELY, LineFormat
from sojourn.readers.formats.template import joined_path, path_keys

DAMAGED = 0.01
ALWAYS = ("ServiceURL",)  # Traefik leaves it out where it answers a request itself
SMALLEST_NS = 100_000  # of a request; a median of that many ms is not plausible
CLF = re.compile(r"\d\d/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}")
ISO = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:]{8}([.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DECIMAL, _THIRTEEN = re.compile(r"\d{9,11}(?:\.\d+)?"), re.compile(r"\d{13}")
_WHOLE = re.compile(r"\d+")
_TIME_KEYS = ("msec", "time_msec", "ts", "timestamp", "@timestamp", "time_iso8601", "time_local", "time", "date")
# Names that JSON formats commonly give nginx's variables, beside the variables' own.
_ALIASES = {
    "method": "request_method", "path": "request_uri", "url": "request_uri", "remote_ip": "remote_addr",
    "client_ip": "remote_addr", "code": "status", "response_code": "status", "req_time": "request_time",
    "upstream_time": "upstream_response_time", "upstream": "upstream_addr", "bytes": "body_bytes_sent",
    "size": "body_bytes_sent", "proto": "server_protocol", "vhost": "host", "x_request_id": "request_id",
}  # fmt: skip
_UPSTREAM_TIMES = ("connect", "header", "response")

Objects = Sequence[Mapping[str, object]]


def occurring_keys(name: str, objects: Objects) -> LineFormat:
    """Return the format of that name with the paths that occur in these objects, be it with null."""
    log = catalogue.format_by_name(name)
    pairs = [
        (path, field)
        for path, field in zip(log.paths, log.fields, strict=True)
        if path in ALWAYS or any(_has(value, path) for value in objects)
    ]
    return replace(log, paths=tuple(path for path, _ in pairs), fields=tuple(field for _, field in pairs))


def caddy_keys(objects: Objects) -> LineFormat:
    """Return Caddy's format with the paths, the clock (``time_format``) and the unit (``duration_format``) it has."""
    log = occurring_keys("caddy", objects)
    clock = _clock_of([value.get("ts") for value in objects])
    whole = [value for each in objects if isinstance(value := each.get("duration"), int)]
    unit = "s" if len(whole) < (1 - DAMAGED) * len(objects) else "ms" if median(whole) < SMALLEST_NS else "ns"
    fields = [
        replace(field, unit=clock or field.unit) if field.name == "end"
        else replace(field, unit=unit) if field.unit == "s" else field
        for field in log.fields
    ]  # fmt: skip
    if unit == "s":
        return replace(log, fields=tuple(fields))
    note = f"Its durations are whole numbers, which are taken as {unit} (duration_format)."
    return replace(log, fields=tuple(fields), certainty=LIKELY, notes=(*log.notes, note))


def nginx_keys(objects: Objects, keys: set[str]) -> LineFormat | None:
    """Return the format of JSON whose keys are called after nginx's variables; None if it holds no time or status."""
    paths: dict[str, Field] = {}
    # A variable's own name counts more than an alias.
    for key in sorted(keys, key=lambda key: (key.lower() in _ALIASES, key)):
        field = nginx.FIELDS.get(_ALIASES.get(key.lower(), key.lower()))
        if field is not None and field.name != "end":
            paths[key] = replace(field, pattern="")
        elif field is None:
            paths[key] = Field(key)
    lower = {key.lower(): key for key in keys}
    for name in _TIME_KEYS:
        if name in lower and (clock := _clock_of([value.get(lower[name]) for value in objects])):
            paths[lower[name]] = Field("end", clock)
            break
    notes = _in_milliseconds(paths, objects)
    fields = {field.name for field in paths.values()}
    if not {"status", "request_time"} & fields or not fields & {"end", "request_time"}:
        return None
    return LineFormat(
        "json", "JSON lines of nginx's variables", paths=tuple(joined_path([key]) for key in paths),
        fields=tuple(paths.values()), lists=True, certainty=ASSUMED if notes else LIKELY, notes=notes,
    )  # fmt: skip


def _in_milliseconds(paths: dict[str, Field], objects: Objects) -> tuple[str, ...]:
    """Take a response time in whole numbers as milliseconds: nginx writes seconds with three digits behind the point.

    Return a sentence on it, and change ``paths``: no time of the upstream is read then; none where they are seconds.
    """
    key = next((key for key, field in paths.items() if field.name == "request_time"), "")
    texts = [str(value) for each in objects if (value := each.get(key)) not in (None, "", "-")]
    if not texts or not all(map(_WHOLE.fullmatch, texts)) or not any(map(int, texts)):
        return ()
    paths[key] = Field("request_time", "ms")
    unread = [name for name, field in paths.items() if field.name in _UPSTREAM_TIMES]
    for name in unread:
        paths[name] = Field(name)
    more = f" {' and '.join(unread)} not read." if unread else ""
    return (f"{key} holds whole numbers, which are taken as milliseconds.{more} Give --log-format if it is not so.",)


def _has(value: object, path: str) -> bool:
    for key in path_keys(path):
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _clock_of(values: Sequence[object]) -> str:
    """Return the format of instants; empty if they have none of the known ones. A value in a hundred may be damaged."""
    texts = [str(value) for value in values if value not in (None, "")]
    if not texts:
        return ""

    def all_are(pattern: re.Pattern[str]) -> bool:
        return sum(pattern.fullmatch(text) is None for text in texts) <= DAMAGED * len(texts)

    if all_are(_DECIMAL):
        return "s" if any("." in text for text in texts) else "whole_s"
    if all_are(_THIRTEEN):
        return "ms"
    if all_are(CLF):
        return "clf"
    if all_are(ISO):
        digits = max(len(match[1] or "") for text in texts if (match := ISO.fullmatch(text)))
        return "iso" if not digits else "iso_ms" if digits <= 4 else "iso_us"
    return ""
