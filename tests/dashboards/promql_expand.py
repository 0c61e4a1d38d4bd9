"""What Grafana puts into PromQL before it asks Prometheus: ranges, and values of variables as regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ALL = "$__all"
SCRAPE = 15  # s, timeInterval of the data source


@dataclass
class PrometheusView:
    """A dashboard as displayed: its range and the interval of its panels, s, and the variables' values."""

    seconds: int = 3600
    interval: int = 60
    variables: dict[str, list[str]] = field(default_factory=dict)
    all_values: dict[str, str] = field(default_factory=dict)


def expanded(promql: str, view: PrometheusView) -> str:
    """The PromQL that reaches Prometheus; a variable or macro that is not known here is an error."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name in MACROS:
            return f"{MACROS[name](view)}s"
        assert name in view.variables, f"the dashboard has no variable {name!r}"
        quoted = re.search(r'=~"$', promql[: match.start()]) and promql[match.end() :].startswith('"')
        assert quoted, f"{match[0]}: several values are a regular expression between quotes"
        values = view.variables[name]
        if values == [ALL]:
            return view.all_values[name]
        patterns = [as_pattern(value) for value in values]
        return patterns[0] if len(patterns) == 1 else f"({'|'.join(patterns)})"

    return re.sub(r"\$(\w+)|\$\{(\w+)(?::[^}]*)?\}", replaced, promql)


def as_pattern(value: str) -> str:
    """A value as Grafana's prometheusSpecialRegexEscape makes it; it does not escape the quote that ends the string."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value.replace("\\", "\\\\\\\\"))


MACROS = {
    "__range": lambda view: view.seconds,
    "__interval": lambda view: view.interval,
    "__rate_interval": lambda view: max(view.interval + SCRAPE, 4 * SCRAPE),
}
