"""Recognise the format of a log by its first lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from sojourn.readers.formats import catalogue
from sojourn.readers.formats.appended import appended_format
from sojourn.readers.formats.envoy import MARKS as ENVOY_MARKS
from sojourn.readers.formats.haproxy import partial_note
from sojourn.readers.formats.json_keys import (
    Keyed,
    Objects,
    caddy_keys,
    cloudflare_keys,
    keyed_format,
    occurring_keys,
)
from sojourn.readers.formats.json_template import object_in
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.pairs import LOGFMT, LTSV, is_pairs, pairs_of
from sojourn.readers.formats.placed import placed_format
from sojourn.readers.formats.w3c import w3c_format

LINES = 500
LENGTH = 4_000  # characters of a line of text
MAJORITY, FEW = 0.5, 0.05
# More specific ones first: a line of one may fit a later one as well.
TEXT_FORMATS = (
    "alb", "elb", "haproxy-https", "haproxy", "haproxy-clf", "istio", "envoy", "uwsgi", "traefik", "ingress-nginx",
    "heroku", "squid", "gorouter", "gin", "lograge", "rack",
)  # fmt: skip
# A log with these keys holds Sojourn's own records.
OWN_KEYS = frozenset(("request_start", "queueing_delay"))


_PAIRS = (
    Keyed("ltsv", "LTSV (labels and values, tabs between)", LTSV),
    Keyed("logfmt", "logfmt (keys and values, blanks between)", LOGFMT),
)


def detected_format(lines: Iterable[str], units: Mapping[str, str] | None = None) -> LineFormat | None:
    """Return the format that more than half of these lines have; None for Sojourn's own record, or an unknown one.

    A log with any record of Sojourn's own is one of those. ``units``: those of durations that the user states.
    """
    sample = list(islice((text for line in lines if (text := line.strip())), LINES))
    if not sample:
        return None
    objects: list[dict[str, object]] = []
    for value in _objects_in(sample):
        if _is_own(value):
            return None
        objects.append(value)
    if (begun := sum(line.startswith("{") for line in sample)) > MAJORITY * len(sample):
        return _of_objects(objects, units) if len(objects) > MAJORITY * begun else None
    sample = [line[:LENGTH] for line in sample]
    # Other lines are those of other programs, or of the start of the server.
    return _of_text(sample, units) or _of_name(sample, FEW)


def has_own_records(lines: Sequence[str]) -> bool:
    """Return whether any line is a record of Sojourn's own."""
    return any(map(_is_own, _objects_in(lines)))


def _objects_in(lines: Sequence[str]) -> Iterator[dict[str, object]]:
    return (value for line in lines if line.startswith("{") and (value := object_in(line)) is not None)


def _of_text(lines: Sequence[str], units: Mapping[str, str] | None) -> LineFormat | None:
    if log := _of_name(lines, MAJORITY) or w3c_format(lines):
        return log
    for how in _PAIRS:
        alike = [line for line in lines if is_pairs(line, how.sign)]
        if len(alike) > MAJORITY * len(lines):
            return keyed_format([pairs_of(line, how.sign) for line in alike], units, how)
    for recognised in (appended_format, placed_format):
        log = recognised(lines)
        if log and _share(lines, log.pattern.match) > FEW:
            return log
    return None


def _of_name(lines: Sequence[str], share: float) -> LineFormat | None:
    """Return the format with a name that more than this share of the lines has."""
    for name in TEXT_FORMATS:
        log = catalogue.format_by_name(name)
        if _share(lines, log.pattern.match) > share:
            return partial_note(log, lines)
    return None


def _share(lines: Sequence[str], fits: Callable[[str], object]) -> float:
    return sum(fits(line) is not None for line in lines) / len(lines)


# Keys of which a log has all -> how its format is recognised.
_OF_KEYS: tuple[tuple[frozenset[str], Callable[[Objects], LineFormat]], ...] = (
    (frozenset(("Duration", "RequestMethod")), lambda objects: occurring_keys("traefik-json", objects)),
    (frozenset(("start_time", "response_code", "duration")), lambda objects: occurring_keys("envoy-json", objects)),
    (frozenset(("latencies", "started_at")), lambda objects: occurring_keys("kong", objects)),
    (frozenset(("EdgeResponseStatus",)), cloudflare_keys),
    (frozenset(("req_content_length", "target", "duration")), lambda objects: occurring_keys("kamal-proxy", objects)),
    (frozenset(("req_content_length", "cache", "dur")), lambda objects: occurring_keys("thruster", objects)),
)


def _of_objects(objects: Objects, units: Mapping[str, str] | None) -> LineFormat | None:
    keys = Counter(key for value in objects for key in value)
    common = {key for key, count in keys.items() if count > MAJORITY * len(objects)}
    if {"ts", "request"} <= common and any(isinstance(value.get("request"), dict) for value in objects):
        return caddy_keys(objects)
    within = (inner for value in objects for inner in value.values() if isinstance(inner, dict))
    if any(map(_is_own, within)):  # records of Sojourn's own that a collector put under a key
        return None
    requests = [value.get("httpRequest") for value in objects]
    if any(isinstance(request, dict) and str(request.get("latency", "")).endswith("s") for request in requests):
        return occurring_keys("gcp", objects)
    if {"@timestamp", "response_code", "duration"} <= common and ENVOY_MARKS & common:
        return occurring_keys("envoy-json", objects)
    recognised = next((of_objects for has, of_objects in _OF_KEYS if has <= common), None)
    return recognised(objects) if recognised else keyed_format(objects, units)


def _is_own(value: Mapping[str, object]) -> bool:
    """Return whether an object is a record of Sojourn's own, be it a damaged one."""
    return bool(value.keys() & OWN_KEYS)
