"""A ``log_format``: the keys that it writes, and the keys of the log record that it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from sojourn.nginx.syntax import Directive

# Keys without which a line is refused, or a part of the split is unknown: nginx's variable for each.
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
        name: its name in ``access_log``.
        directive: the directive that defines it.
        json: whether its lines are JSON objects.
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
        """Whether it is JSON with at least one of the times that a split needs."""
        return self.json and any(key in self.keys for key in ("time", "request_time", "upstream_header_time"))

    def missing(self, required: dict[str, str]) -> dict[str, str]:
        """Return the keys of ``required`` that it does not write."""
        return {key: variable for key, variable in required.items() if key not in self.keys}

    @property
    def unquoted(self) -> list[str]:
        """Keys whose values break the line when they are "-", nothing or a list, because they are not quoted."""
        return [key for key, (value, quoted) in self.keys.items() if not quoted and _NOT_ALWAYS_NUMBERS.match(value)]


def log_format(directive: Directive) -> LogFormat:
    """Return the format that a ``log_format`` defines."""
    words = directive.args[1:]
    fmt = LogFormat(directive.args[0] if directive.args else "", directive)
    if words and words[0].startswith("escape="):
        fmt.escape = words.pop(0).removeprefix("escape=")
    text = "".join(words)
    fmt.json = text.lstrip().startswith("{")
    if fmt.json:
        fmt.keys = {match[1]: (match[3].strip(), match[2] is not None) for match in _KEY.finditer(text)}
    return fmt


def key_lines(missing: dict[str, str]) -> str:
    """Return the text that adds keys to a JSON format, before its closing brace."""
    return "\n".join(f"""',"{key}":"{variable}"'""" for key, variable in missing.items())


def why_keys(missing: Iterable[str]) -> str:
    """Return the consequence of missing essential keys."""
    lacking = set(missing)
    if lacking & set(REFUSED_WITHOUT):
        return "Lines without time, status or request_time are refused."
    if lacking:
        return "A part of the split is then unknown."
    return "The split stands without them, but requests cannot be joined or grouped by them."
