"""What happens to a query between a dashboard and ClickHouse, step by step as Grafana and its plugin do it.

In the browser the plugin replaces ``$__conditionalAll`` first, then Grafana the variables; in the plugin's server the
macros follow. Everything that is not known here is an error: a query must not rest on a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

ALL = "$__all"
VARIABLE = re.compile(r"\$(\w+)|\[\[(\w+?)(?::(\w+))?\]\]|\$\{(\w+)(?:\.[^:^}]+)?(?::([^}]+))?\}")
BROWSER = {"__from", "__to", "__interval", "__interval_ms", "__url_time_range"}
DURATION = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass
class View:
    """A dashboard as displayed: its range, an interval for its panels, and the variables' values."""

    since: datetime
    until: datetime
    interval: int = 60  # s
    variables: dict[str, str | list[str]] = field(default_factory=dict)


def expanded(sql: str, view: View) -> str:
    """The SQL that reaches ClickHouse."""
    return with_macros(with_variables(with_conditional_all(sql, view.variables), view.variables), view)


def with_conditional_all(sql: str, variables: dict[str, str | list[str]]) -> str:
    macro = "$__conditionalAll("
    while (at := sql.rfind(macro)) >= 0:
        arguments, end = _arguments(sql, at + len(macro) - 1)
        assert len(arguments) == 2, f"$__conditionalAll takes two arguments, not {len(arguments)}: {arguments}"
        named = re.fullmatch(r"\$(\w+)|\$\{(\w+)\}", arguments[1].strip())
        assert named, f"the second argument of $__conditionalAll is a plain variable, not {arguments[1]!r}"
        # The plugin puts it in by JavaScript's replace, which gives $&, $' and their like a meaning.
        assert not re.search(r"\$[$&`'\d<]", arguments[0]), f"not to be said within $__conditionalAll: {arguments[0]!r}"
        value = variables.get(named[1] or named[2])
        text = ",".join(value) if isinstance(value, list) else value
        sql = sql[:at] + ("1=1" if text in {"", ALL} else arguments[0]) + sql[end:]
    return sql


def _arguments(sql: str, opening: int) -> tuple[list[str], int]:
    """Arguments between parentheses, and where they end. The plugin, too, looks at parentheses and commas only."""
    depth, begun, result = 0, opening + 1, []
    for at in range(opening, len(sql)):
        if sql[at] == "(":
            depth += 1
        elif sql[at] == ")":
            depth -= 1
        if (sql[at] == "," and depth == 1) or depth == 0:
            result.append(sql[begun:at])
            begun = at + 1
        if depth == 0:
            return result, at + 1
    raise AssertionError(f"parentheses are not balanced: {sql[opening : opening + 80]}")


def with_variables(sql: str, variables: dict[str, str | list[str]]) -> str:
    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        if name.startswith("__") and name not in BROWSER:
            return match[0]  # a macro of the plugin's server
        assert name in variables, f"the dashboard has no variable {name!r}"
        value, format_ = variables[name], match[3] or match[5]
        assert format_ in FORMATS, f"{match[0]}: a value must travel percent-encoded, not as {format_ or 'it is'}"
        return FORMATS[format_](name, value)

    return VARIABLE.sub(replaced, sql)


def percent_encoded(name: str, value: str | list[str]) -> str:
    """encodeURIComponent, and !'()* as well; several values as {a,b}."""
    return quote(value if isinstance(value, str) else "{" + ",".join(value) + "}", safe="-_.~")


def query_parameters(name: str, value: str | list[str]) -> str:
    """As a dashboard's own URL has them: @ : $ , ; stay as they are."""
    values = [value] if isinstance(value, str) else value
    return "&".join(f"var-{name}={quote(one, safe='-_.~@:$,;')}" for one in values)


FORMATS = {"percentencode": percent_encoded, "queryparam": query_parameters}


def with_macros(sql: str, view: View) -> str:
    """The macros of the plugin's server; nested ones from the inside out."""
    while result := list(re.finditer(r"\$__(\w+)", sql)):
        match = result[-1]
        name, at, end = match[1], match.start(), match.end()
        arguments: list[str] = []
        if sql[end : end + 1] == "(":
            arguments, end = _arguments(sql, end)
        assert name in MACROS, f"the plugin has no macro $__{name}"
        arity, expand = MACROS[name]
        if arity == 0 and sql[match.end() : match.end() + 1] == "(":
            end = match.end()
            arguments = []
        assert len(arguments) == arity, f"$__{name} takes {arity} arguments, not {arguments}"
        sql = sql[:at] + expand(view, *(a.strip() for a in arguments)) + sql[end:]
    return sql


def _seconds(instant: datetime) -> str:
    return f"toDateTime({int(instant.timestamp())})"


def _millis(instant: datetime) -> str:
    return f"fromUnixTimestamp64Milli({int(instant.timestamp() * 1000)})"


MACROS = {
    "fromTime": (0, lambda view: _seconds(view.since)),
    "toTime": (0, lambda view: _seconds(view.until)),
    "fromTime_ms": (0, lambda view: _millis(view.since)),
    "toTime_ms": (0, lambda view: _millis(view.until)),
    "timeFilter": (1, lambda view, c: f"{c} >= {_seconds(view.since)} AND {c} <= {_seconds(view.until)}"),
    "timeFilter_ms": (1, lambda view, c: f"{c} >= {_millis(view.since)} AND {c} <= {_millis(view.until)}"),
    "dateFilter": (
        1,
        lambda view, c: f"{c} >= toDate('{view.since:%Y-%m-%d}') AND {c} <= toDate('{view.until:%Y-%m-%d}')",
    ),
    "timeInterval": (1, lambda view, c: f"toStartOfInterval(toDateTime({c}), INTERVAL {max(view.interval, 1)} second)"),
    "timeInterval_ms": (
        1,
        lambda view, c: f"toStartOfInterval(toDateTime64({c}, 3), INTERVAL {max(view.interval, 1) * 1000} millisecond)",
    ),
    "interval_s": (0, lambda view: str(max(view.interval, 1))),
}


def provisioned(value: object) -> object:
    """A provisioning file's value as Grafana has it after environment variables are put in: $$ is a dollar."""
    if isinstance(value, dict):
        return {key: provisioned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [provisioned(item) for item in value]
    if isinstance(value, str):
        return "$".join(re.sub(r"\$\{?\w+\}?", "", part) for part in value.split("$$"))
    return value
