"""A ``log_format``: which keys it writes, and which the log record has and it has not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sojourn.nginx.syntax import Directive

# Keys without which a line is refused, or a part of the split is not known: nginx's variable for each.
ESSENTIAL = {
    "time": "$msec",
    "status": "$status",
    "request_time": "$request_time",
    "request_start": "$sojourn_logged_start",
    "upstream_addr": "$upstream_addr",
    "upstream_connect_time": "$upstream_connect_time",
    "upstream_header_time": "$upstream_header_time",
    "upstream_response_time": "$upstream_response_time",
    "queueing_delay": "$upstream_http_x_queueing_delay",
    "service_time": "$upstream_http_x_service_time",
}
# Keys that name, join or group; without them the split stands.
USEFUL = {
    "request_id": "$request_id",
    "route": "$upstream_http_x_route",
    "worker": "$upstream_http_x_worker",
    "proxy": "$hostname",
}
REFUSED_WITHOUT = ("time", "status", "request_time")
_KEY = re.compile(r'"([A-Za-z_]\w*)"\s*:\s*(")?([^",}]*)')
# What nginx writes as "-", nothing, or a list of several.
_NOT_ALWAYS_NUMBERS = re.compile(r"^\$\{?(?:upstream_|sent_http_|http_|sojourn_)")


@dataclass
class LogFormat:
    """A format.

    Attributes:
        keys: key -> (variable, whether it is quoted), of a JSON format.
        escape: default, json or none.
    """

    name: str
    directive: Directive
    json: bool = False
    escape: str = "default"
    keys: dict[str, tuple[str, bool]] = field(default_factory=dict)

    @property
    def meant(self) -> bool:
        """Whether it is JSON with at least one of the times that a split begins with."""
        return self.json and any(key in self.keys for key in ("time", "request_time", "upstream_header_time"))

    def missing(self, wanted: dict[str, str]) -> dict[str, str]:
        """The keys of ``wanted`` that it does not write."""
        return {key: variable for key, variable in wanted.items() if key not in self.keys}

    @property
    def unquoted(self) -> list[str]:
        """Keys whose values break the line when they are "-", nothing or a list, for want of quotes."""
        return [key for key, (value, quoted) in self.keys.items() if not quoted and _NOT_ALWAYS_NUMBERS.match(value)]


def log_format(directive: Directive) -> LogFormat:
    """The format that a ``log_format`` defines."""
    words = directive.args[1:]
    found = LogFormat(directive.args[0] if directive.args else "", directive)
    if words and words[0].startswith("escape="):
        found.escape = words.pop(0).removeprefix("escape=")
    text = "".join(words)
    found.json = text.lstrip().startswith("{")
    if found.json:
        found.keys = {key: (value.strip(), quote is not None) for key, quote, value in _pairs(text)}
    return found


def _pairs(text: str) -> list[tuple[str, str | None, str]]:
    return [(match[1], match[2], match[3]) for match in _KEY.finditer(text)]


def key_lines(missing: dict[str, str]) -> str:
    """The text that adds keys to a JSON format, before its closing brace."""
    return "\n".join(f"""',"{key}":"{variable}"'""" for key, variable in missing.items())


def why_keys(missing: Iterable[str]) -> str:
    """What follows from essential keys that are missing."""
    lacking = set(missing)
    if lacking & set(REFUSED_WITHOUT):
        return "Lines without time, status or request_time are refused."
    if lacking:
        return "A part of the split is then unknown."
    return "The split stands without them, but requests cannot be joined or grouped by them."
