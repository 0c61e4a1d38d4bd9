"""Expand a case with a matrix into one case per combination of its values.

This works on the decoded TOML, before its types are checked, so that a case and its load have one definition with plain
scalars and every combination passes the same checks.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

PLACE = re.compile(r"\{([a-z_]+)\}")
MOST = 1_000
"""The most cases of one matrix: each takes seconds at least."""
OWN_KEYS = ("service_time", "distribution")
"""Matrix keys of the case itself; all others are keys of its load or of an experiment's table."""
TABLES = {
    **dict.fromkeys(("signal", "target", "factor", "signal_share"), "autoscale"),
    **dict.fromkeys(("server", "workers"), "topology"),
}
"""Matrix keys of an experiment's table or of the topology, and the table."""


def expanded_cases(templates: list[Any]) -> list[Any]:
    """Return the cases with each `matrix` expanded, the first key varying slowest.

    `{key}` in a case's name becomes the value of that key, and `{service_ms}` its service time in milliseconds.

    Raises:
        ValueError: a matrix is not a table of lists, or a name has an unknown key; a line for each.
    """
    cases: list[Any] = []
    reasons: list[str] = []
    for index, template in enumerate(templates):
        if not isinstance(template, dict):
            cases.append(template)  # the type check that follows reports it
            continue
        bare = {key: value for key, value in template.items() if key != "matrix"}
        try:
            chosen = _combinations(template.get("matrix", {}), index)
            cases += [_case(bare, values, index) for values in chosen]
        except ValueError as error:
            reasons.append(str(error))
    if reasons:
        raise ValueError("\n".join(reasons))
    return cases


def _combinations(matrix: Any, index: int) -> list[dict[str, Any]]:
    where = f"cases[{index}].matrix"
    if not isinstance(matrix, dict):
        raise ValueError(f"{where}: must be a table of lists")
    for key, values in matrix.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{where}.{key}: must be a list with at least one value")
    if (count := math.prod(map(len, matrix.values()))) > MOST:
        raise ValueError(f"{where}: has {count} cases, more than {MOST}")
    return [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]


def _case(bare: dict[str, Any], chosen: dict[str, Any], index: int) -> dict[str, Any]:
    load = bare.get("load")
    own = {key: value for key, value in chosen.items() if key in OWN_KEYS}
    of_load = {key: value for key, value in chosen.items() if key not in (*OWN_KEYS, *TABLES)}
    case = {**bare, **own}
    for key, table in TABLES.items():
        if key in chosen:
            if not isinstance(case.get(table), dict):
                raise ValueError(f"cases[{index}].{table}: a matrix over {key} needs this table")
            case[table] = {**case[table], key: chosen[key]}
    if isinstance(load, dict):
        case["load"] = {**load, **of_load}
    elif of_load:
        raise ValueError(f"cases[{index}].load: a matrix over {', '.join(of_load)} needs this table")
    if isinstance(case.get("name"), str):
        case["name"] = PLACE.sub(lambda match: _text_for(match[1], case, index), case["name"])
    return case


def _text_for(key: str, case: dict[str, Any], index: int) -> str:
    load = case["load"] if isinstance(case.get("load"), dict) else {}
    values = {**load, **{name: case[name] for name in OWN_KEYS if name in case}}
    for name, table in TABLES.items():
        settings = case.get(table)
        if isinstance(settings, dict) and name in settings:
            values[name] = settings[name]
    service_time = values.get("service_time")
    if isinstance(service_time, int | float):
        values["service_ms"] = f"{service_time * 1000:g}"
    if key not in values:
        raise ValueError(f"cases[{index}].name: the case has no key for {{{key}}}")
    return str(values[key])
