"""Recognise the format of a log by its first lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.appended import appended_format
from sojourn.readers.formats.envoy import MARKS as ENVOY_MARKS
from sojourn.readers.formats.haproxy import partial_note
from sojourn.readers.formats.json_keys import CLF, ISO, caddy_keys, nginx_keys, occurring_keys
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.line_time import line_time
from sojourn.readers.formats.template import without_header

LINES = 500
LENGTH = 4_000  # characters of a line of text
MAJORITY, FEW = 0.5, 0.05
# More specific ones first: a line of one may fit a later one as well.
TEXT_FORMATS = (
    "alb", "elb", "haproxy-https", "haproxy", "haproxy-clf", "istio", "envoy", "uwsgi", "traefik", "ingress-nginx",
)  # fmt: skip
# A log with one of these keys, or with all of REQUIRED, holds Sojourn's own records.
OWN_KEYS = frozenset(("request_start", "queueing_delay"))
REQUIRED = frozenset(("time", "status", "request_time"))


def detected_format(lines: Iterable[str]) -> LineFormat | None:
    """Return the format that more than half of these lines have; None for Sojourn's own record, or an unknown one.

    A log with any record of Sojourn's own is one of those. Lines may have a header of a shipper of logs.
    """
    sample = list(islice((text for line in lines if (text := line.strip())), LINES))
    if not sample:
        return None
    bare = [without_header(line) for line in sample]
    header = has_header(sample)
    objects = [line for line in bare if line.startswith("{")]
    decoded = [value for line in objects if isinstance(value := _decoded(line), dict)]
    if any(map(_is_own, decoded)):
        return None
    if len(objects) > MAJORITY * len(sample):
        log = _of_objects(decoded) if len(decoded) > MAJORITY * len(objects) else None
        return replace(log, header=header) if log else None
    sample = [line[:LENGTH] for line in sample]
    log = _of_name(sample, MAJORITY)  # a line may begin as a header does
    if log is None and header and (log := _of_text([line[:LENGTH] for line in bare])):
        log = replace(log, header=True)
    log = log or _of_text(sample)
    # Other lines are those of other programs, or of the start of the server.
    return log or _of_name(sample, FEW)


def has_header(lines: Sequence[str]) -> bool:
    """Return whether most of the lines have a header of a shipper of logs."""
    return sum(len(without_header(line)) < len(line) for line in lines) > MAJORITY * len(lines)


def with_header(log: LineFormat, lines: Sequence[str]) -> LineFormat:
    """Return a format that was given, with a header where these lines have one that the format does not include."""
    if log.prefix or log.header or not lines or not has_header(lines):
        return partial_note(log, lines)
    time_of = line_time(log)
    return log if _share(lines, lambda line: time_of(line[:LENGTH].encode())) > MAJORITY else replace(log, header=True)


def _of_text(lines: Sequence[str]) -> LineFormat | None:
    if log := _of_name(lines, MAJORITY):
        return log
    log = appended_format(lines)
    return log if log and _share(lines, log.pattern.match) > FEW else None


def _of_name(lines: Sequence[str], share: float) -> LineFormat | None:
    """Return the format with a name that more than this share of the lines has."""
    for name in TEXT_FORMATS:
        log = catalogue.format_by_name(name)
        if _share(lines, log.pattern.match) > share:
            return partial_note(log, lines)
    return None


def _share(lines: Sequence[str], fits: Callable[[str], object]) -> float:
    return sum(fits(line) is not None for line in lines) / len(lines)


def _of_objects(objects: Sequence[dict[str, object]]) -> LineFormat | None:
    keys = Counter(key for value in objects for key in value)
    common = {key for key, count in keys.items() if count > MAJORITY * len(objects)}
    if {"ts", "request"} <= common and any(isinstance(value.get("request"), dict) for value in objects):
        return caddy_keys(objects)
    if {"Duration", "RequestMethod"} <= common:
        return occurring_keys("traefik-json", objects)
    if {"response_code", "duration"} <= common and (
        "start_time" in common or ("@timestamp" in common and ENVOY_MARKS & common)
    ):
        return occurring_keys("envoy-json", objects)
    return nginx_keys(objects, common)


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
    return value.keys() >= REQUIRED and not ISO.match(time) and not CLF.match(time)
