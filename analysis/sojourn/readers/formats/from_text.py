"""A log format that a user gives: a name, or a text in the language of nginx, Apache, HAProxy or another product."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sojourn.model.errors import SojournError
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.app_servers import GUNICORN_VARIABLE, UWSGI_VARIABLE, gunicorn_parts, uwsgi_parts
from sojourn.readers.formats.catalogue import FORMATS, format_by_name
from sojourn.readers.formats.dividing import text_at
from sojourn.readers.formats.envoy import VARIABLE as ENVOY_VARIABLE
from sojourn.readers.formats.envoy import envoy_parts
from sojourn.readers.formats.fields import FIELDS, TEXTS, Field
from sojourn.readers.formats.haproxy import FIELDS as HAPROXY_FIELDS
from sojourn.readers.formats.haproxy import VARIABLE as HAPROXY_VARIABLE
from sojourn.readers.formats.haproxy import haproxy_parts
from sojourn.readers.formats.json_template import JsonValue, json_values, object_in
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.nginx import VARIABLE as NGINX_VARIABLE
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import RAW, Part, Variable, path_keys
from sojourn.readers.formats.w3c import w3c_format

OWN = "sojourn"
ESCAPES = ("default", "json", "none")
_ARGUMENT = re.compile(r"%\{[^}]*\}")  # of Apache's and HAProxy's variables; it may look like one of Envoy's
_ESCAPE = re.compile(rf"escape=({'|'.join(ESCAPES)})\s+")
_ESCAPED = re.compile(r"\\([\"'\\trn])")  # in a word of nginx's configuration
_CHARACTERS = {"t": "\t", "r": "\r", "n": "\n"}
_ADD = {
    "W3C": {"time": "date time", "status": "sc-status", "request_time": "time-taken"},
    "nginx": {"time": "$msec", "status": "$status", "request_time": "$request_time"},
    "Apache": {"time": "%{end:usec}t", "status": "%>s", "request_time": "%D"},
    "HAProxy": {"time": "%tr", "status": "%ST", "request_time": "%Ta"},
    "Envoy": {"time": "%START_TIME%", "status": "%RESPONSE_CODE%", "request_time": "%DURATION%"},
    "gunicorn": {"time": "%(t)s", "status": "%(s)s", "request_time": "%(D)s"},
    "uWSGI": {"time": "%(tmsecs)", "status": "%(status)", "request_time": "%(msecs)"},
}
_Split = Callable[[str], list[Part]]


def format_from_text(text: str, escape: str = "") -> LineFormat | None:
    """Return the format of a name or a text; None for Sojourn's own record.

    ``escape``: that of a ``log_format``; empty: it stands before the text, or is nginx's default.

    Raises:
        SojournError: it is neither, or no request can be read from its lines.
    """
    text = text.strip(" \r\n")
    if text == OWN:
        return None
    if text in FORMATS:
        log, product = format_by_name(text), "nginx"
    elif log_of_fields := w3c_format([text]):
        log, product = replace(log_of_fields, name=text), "W3C"
    else:
        name = text
        if match := _ESCAPE.match(text):
            escape, text = match[1], text[match.end() :]
        product, parts_of = _language(text, escape)
        if product == "nginx":
            text = _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)
        log = replace(_of_text(text, product, parts_of), name=name)
        if product == "nginx":
            log = replace(log, escape=escape or "default")
    if log.lacks:
        lacking = ", ".join(f"{name} ({_ADD[product][name]})" for name in log.lacks)
        raise SojournError(f"--log-format: a request needs what this format does not have: {lacking}")
    return replace(log, from_user=True)


def with_paths_of(log: LineFormat, lines: Sequence[str]) -> LineFormat:
    """Return a JSON format with the paths that these lines have: a dot in a key may stand for an inner object."""
    dotted = [path for path in log.paths if any("." in key for key in path_keys(path) if isinstance(key, str))]
    if not log.from_user or not dotted:
        return log
    objects = [value for line in lines if (value := object_in(line)) is not None]
    nested = {path: path.replace(r"\.", ".") for path in dotted}
    chosen = {
        path: other
        for path, other in nested.items()
        if not any(text_at(value, path) for value in objects) and any(text_at(value, other) for value in objects)
    }
    return replace(
        log, paths=tuple(chosen.get(path, path) for path in log.paths),
        composed=tuple((chosen.get(path, path), parts) for path, parts in log.composed),
    )  # fmt: skip


def _language(text: str, escape: str) -> tuple[str, _Split]:
    haproxy = sum(
        match[1] is not None or (match[2] in HAPROXY_FIELDS and len(match[2]) > 1)
        for match in HAPROXY_VARIABLE.finditer(text)
    )
    if NGINX_VARIABLE.search(text):
        return "nginx", functools.partial(nginx_parts, escape=escape)
    if GUNICORN_VARIABLE.search(text):
        return "gunicorn", gunicorn_parts
    if UWSGI_VARIABLE.search(text):
        return "uWSGI", uwsgi_parts
    if any(len(match[1]) > 2 for match in ENVOY_VARIABLE.finditer(_ARGUMENT.sub("%", text))):
        return "Envoy", lambda each: _free_columns(envoy_parts(each))
    if haproxy >= 2:
        return "HAProxy", lambda each: _free_columns(haproxy_parts(each))
    if "%" in text:
        return "Apache", apache_parts
    raise SojournError(
        f"--log-format: {text[:80]!r} is neither the name of a format ({', '.join([OWN, *FORMATS])}) "
        "nor the text of one, nor FILE:NAME of a log_format in an nginx configuration"
    )


def _of_text(text: str, product: str, parts_of: _Split) -> LineFormat:
    title = f"{product}'s format as given"
    log = LineFormat(text, title, lists=product == "nginx", prefix=product == "HAProxy", url=product == "Apache")
    values = json_values(text) if text.startswith("{") else None
    return replace(log, parts=tuple(parts_of(text))) if values is None else _of_json(log, text, values, parts_of)


def _of_json(log: LineFormat, text: str, values: Sequence[JsonValue], parts_of: _Split) -> LineFormat:
    """Return the format of a JSON template: the path of each variable, and the text for lines that are no JSON."""
    paths: list[tuple[str, Field]] = []
    composed: list[tuple[str, tuple[Part, ...]]] = []
    as_text = parts_of(text)
    for value, parts in zip(values, _of_values(values, as_text, parts_of), strict=True):
        if len(parts) == 1 and isinstance(parts[0], Variable):
            paths.append((value.path, replace(parts[0].field, pattern="")))
        elif any(isinstance(part, Variable) for part in parts):
            paths.append((value.path, _column(value.path)))
            composed.append((value.path, tuple(parts)))
    return replace(
        log, paths=tuple(path for path, _ in paths), fields=tuple(field for _, field in paths),
        composed=tuple(composed), as_text=tuple(as_text),
    )  # fmt: skip


def _of_values(values: Sequence[JsonValue], as_text: Sequence[Part], parts_of: _Split) -> list[list[Part]]:
    """Return the parts of each value, with the fields that their variables have in the whole text."""
    every = [parts_of(value.text) for value in values]
    of_text = [part for part in as_text if isinstance(part, Variable)]
    if sum(isinstance(part, Variable) for parts in every for part in parts) != len(of_text):  # a key holds one
        return every
    following = iter(of_text)
    return [[next(following) if isinstance(part, Variable) else part for part in parts] for parts in every]


def _column(path: str) -> Field:
    name = re.sub(r"\W", "_", path, flags=re.ASCII)
    return Field(f"own_{name}" if name in (*FIELDS, *TEXTS) else name)


def _free_columns(parts: Sequence[Part]) -> list[Part]:
    """Return parts where values that are none of a request's parts may hold anything: neither product escapes them."""
    return [
        Variable(part.text, replace(part.field, pattern=RAW))
        if isinstance(part, Variable) and not part.field.pattern and part.field.name not in (*FIELDS, *TEXTS)
        else part
        for part in parts
    ]
