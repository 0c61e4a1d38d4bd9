"""A log format that a user gives: a name, or a text in the language of nginx, Apache, HAProxy or another product."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sojourn.model.errors import SojournError
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.app_servers import GUNICORN_VARIABLE, UWSGI_VARIABLE, gunicorn_parts, uwsgi_parts
from sojourn.readers.formats.catalogue import FORMATS, format_by_name
from sojourn.readers.formats.envoy import VARIABLE as ENVOY_VARIABLE
from sojourn.readers.formats.envoy import envoy_parts
from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.haproxy import FIELDS as HAPROXY_FIELDS
from sojourn.readers.formats.haproxy import VARIABLE as HAPROXY_VARIABLE
from sojourn.readers.formats.haproxy import haproxy_parts
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.nginx import VARIABLE as NGINX_VARIABLE
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import Part, Variable

OWN = "sojourn"
_ARGUMENT = re.compile(r"%\{[^}]*\}")  # of Apache's and HAProxy's variables; it may look like one of Envoy's
_KEY = re.compile(r'"([^"]+)"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}\[\]]+))')
_ADD = {
    "nginx": {"time": "$msec", "status": "$status", "request_time": "$request_time"},
    "Apache": {"time": "%{end:usec}t", "status": "%>s", "request_time": "%D"},
    "HAProxy": {"time": "%tr", "status": "%ST", "request_time": "%Ta"},
    "Envoy": {"time": "%START_TIME%", "status": "%RESPONSE_CODE%", "request_time": "%DURATION%"},
    "gunicorn": {"time": "%(t)s", "status": "%(s)s", "request_time": "%(D)s"},
    "uWSGI": {"time": "%(tmsecs)", "status": "%(status)", "request_time": "%(msecs)"},
}


def format_from_text(text: str) -> LineFormat | None:
    """Return the format of a name or a text; None for Sojourn's own record.

    Raises:
        SojournError: it is neither, or no request can be read from its lines.
    """
    text = text.strip()
    if text == OWN:
        return None
    if text in FORMATS:
        log, product = format_by_name(text), "nginx"
    else:
        product, parts_of = _language(text)
        log = _of_text(text, product, parts_of)
    if log.lacks:
        lacking = ", ".join(f"{name} ({_ADD[product][name]})" for name in log.lacks)
        raise SojournError(f"--log-format: a request needs what this format does not have: {lacking}")
    return log


def _language(text: str) -> tuple[str, Callable[[str], list[Part]]]:
    haproxy = sum(
        match[1] is not None or (match[2] in HAPROXY_FIELDS and len(match[2]) > 1)
        for match in HAPROXY_VARIABLE.finditer(text)
    )
    if NGINX_VARIABLE.search(text):
        return "nginx", nginx_parts
    if GUNICORN_VARIABLE.search(text):
        return "gunicorn", gunicorn_parts
    if UWSGI_VARIABLE.search(text):
        return "uWSGI", uwsgi_parts
    if any(len(match[1]) > 2 for match in ENVOY_VARIABLE.finditer(_ARGUMENT.sub("%", text))):
        return "Envoy", envoy_parts
    if haproxy >= 2:
        return "HAProxy", haproxy_parts
    if "%" in text:
        return "Apache", apache_parts
    raise SojournError(
        f"--log-format: {text[:80]!r} is neither the name of a format ({', '.join([OWN, *FORMATS])}) "
        "nor the text of one, nor FILE:NAME of a log_format in an nginx configuration"
    )


def _of_text(text: str, product: str, parts_of: Callable[[str], list[Part]]) -> LineFormat:
    title = f"{product}'s format as given"
    log = LineFormat(text, title, lists=product == "nginx", prefix=product == "HAProxy", url=product == "Apache")
    if text.startswith("{"):
        pairs = [(match[1], _only_field(parts_of(match[2] or match[3]), match[1])) for match in _KEY.finditer(text)]
        return replace(log, paths=tuple(path for path, _ in pairs), fields=tuple(field for _, field in pairs))
    return replace(log, parts=tuple(parts_of(text)))


def _only_field(parts: Sequence[Part], key: str) -> Field:
    """Return the field of a JSON value; a column of the key's name where it is not a single variable."""
    bare = [part for part in parts if not (isinstance(part, str) and not part.strip("[] "))]
    if len(bare) == 1 and isinstance(bare[0], Variable):
        return replace(bare[0].field, pattern="")
    return Field(re.sub(r"\W", "_", key))
