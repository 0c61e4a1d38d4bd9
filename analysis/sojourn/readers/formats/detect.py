"""Recognise the format of a log by its first lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from sojourn.readers.formats import catalogue, nginx
from sojourn.readers.formats.appended import appended_format
from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.line_format import LIKELY, LineFormat

LINES = 500
LENGTH = 4_000  # characters of a line of text
MAJORITY = 0.5
# More specific ones first: a line of one may fit a later one as well.
TEXT_FORMATS = ("alb", "elb", "haproxy-https", "haproxy", "envoy", "uwsgi", "traefik", "ingress-nginx")
# A log with one of these keys, or with all of REQUIRED, holds Sojourn's own records.
OWN_KEYS = frozenset(("request_start", "queueing_delay"))
REQUIRED = frozenset(("time", "status", "request_time"))

_DECIMAL = re.compile(r"\d{9,11}(?:\.\d+)?")
_CLF = re.compile(r"\d\d/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}")
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:]{8}(\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_TIME_KEYS = ("msec", "time_msec", "ts", "timestamp", "@timestamp", "time_iso8601", "time_local", "time", "date")
# Names that JSON formats commonly give nginx's variables, beside the variables' own.
_ALIASES = {
    "method": "request_method", "path": "request_uri", "url": "request_uri", "remote_ip": "remote_addr",
    "client_ip": "remote_addr", "code": "status", "response_code": "status", "req_time": "request_time",
    "upstream_time": "upstream_response_time", "upstream": "upstream_addr", "bytes": "body_bytes_sent",
    "size": "body_bytes_sent", "proto": "server_protocol", "vhost": "host", "x_request_id": "request_id",
}  # fmt: skip


def detected_format(lines: Iterable[str]) -> LineFormat | None:
    """Return the format that more than half of these lines have; None for Sojourn's own record, or an unknown one.

    A log with any record of Sojourn's own is one of those.
    """
    sample = list(islice((text for line in lines if (text := line.strip())), LINES))
    if not sample:
        return None
    objects = [line for line in sample if line.startswith("{")]
    decoded = [value for line in objects if isinstance(value := _decoded(line), dict)]
    if any(map(_is_own, decoded)):
        return None
    if len(objects) > MAJORITY * len(sample):
        return _of_objects(decoded) if len(decoded) > MAJORITY * len(objects) else None
    sample = [line[:LENGTH] for line in sample]
    for name in TEXT_FORMATS:
        log = catalogue.named(name)
        if _share(sample, log.pattern.match) > MAJORITY:
            return log
    return appended_format(sample)


def _share(lines: Sequence[str], fits: Callable[[str], object]) -> float:
    return sum(fits(line) is not None for line in lines) / len(lines)


def _of_objects(objects: Sequence[dict[str, object]]) -> LineFormat | None:
    keys = Counter(key for value in objects for key in value)
    common = {key for key, count in keys.items() if count > MAJORITY * len(objects)}
    if {"ts", "request"} <= common and any(isinstance(value.get("request"), dict) for value in objects):
        return _with_known_keys("caddy", objects)
    if {"Duration", "RequestMethod"} <= common:
        return _with_known_keys("traefik-json", objects)
    if {"start_time", "response_code", "duration"} <= common:
        return _with_known_keys("envoy-json", objects)
    return _of_nginx_keys(objects, common)


def _decoded(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_own(value: dict[str, object]) -> bool:
    """Return whether an object is a record of Sojourn's own, be it a damaged one."""
    if value.keys() & OWN_KEYS:
        return True
    time = str(value.get("time"))
    return value.keys() >= REQUIRED and not _ISO.match(time) and not _CLF.match(time)


def _with_known_keys(name: str, objects: Sequence[Mapping[str, object]]) -> LineFormat:
    """Return a format of JSON with the paths that occur in these objects."""
    log = catalogue.named(name)
    pairs = [
        (path, field)
        for path, field in zip(log.paths, log.fields, strict=True)
        if any(_at(value, path) is not None for value in objects)
    ]
    return replace(log, paths=tuple(path for path, _ in pairs), fields=tuple(field for _, field in pairs))


def _at(value: object, path: str) -> object:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _of_nginx_keys(objects: Sequence[Mapping[str, object]], keys: set[str]) -> LineFormat | None:
    """Return the format of JSON whose keys are called after nginx's variables; None if it holds no time or status."""
    paths: dict[str, Field] = {}
    for key in sorted(keys):
        known = nginx.FIELDS.get(_ALIASES.get(key.lower(), key.lower()))
        if known is not None and known.name != "end":
            paths[key] = replace(known, pattern="")
        elif known is None:
            paths[key] = Field(key)
    lower = {key.lower(): key for key in keys}
    for name in _TIME_KEYS:
        if name in lower and (clock := _clock_of([value.get(lower[name]) for value in objects])):
            paths[lower[name]] = Field("end", clock)
            break
    fields = {field.name for field in paths.values()}
    if not {"status", "request_time"} & fields or not fields & {"end", "request_time"}:
        return None
    log = LineFormat(
        "json", "JSON lines of nginx's variables", paths=tuple(paths), fields=tuple(paths.values()), lists=True
    )
    return replace(log, certainty=LIKELY)


def _clock_of(values: Sequence[object]) -> str:
    """Return the format of instants; empty if they have none of the known ones."""
    texts = [str(value) for value in values if value not in (None, "")]
    if not texts:
        return ""
    if all(_DECIMAL.fullmatch(text) for text in texts):
        return "s" if any("." in text for text in texts) else "whole_s"
    if all(re.fullmatch(r"\d{13}", text) for text in texts):
        return "ms"
    if all(_CLF.fullmatch(text) for text in texts):
        return "clf"
    matches = [_ISO.fullmatch(text) for text in texts]
    if all(matches):
        digits = max(len(match[1] or "") for match in matches if match)
        return "iso" if not digits else "iso_ms" if digits <= 4 else "iso_us"
    return ""
