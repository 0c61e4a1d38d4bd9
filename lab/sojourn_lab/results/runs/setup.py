"""Differences of the set-up of two runs: keys of their scenarios, scale, runtime, versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from sojourn_lab.results.criteria import number_at
from sojourn_lab.results.runs.archive import ArchivedRun
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Scenario

TEXTS = (
    "name", "title", "question", "shows", "learned", "columns", "reference", "reference_name", "reference_source",
    "reference_note", "article", "quick", "full_duration", "full_repeats", "pictures", "scale",
)  # fmt: skip
"""Keys of a scenario that do not affect requests."""

JUDGED = ("criteria.", "contrasts.", "predictions.")
"""First part of the paths that are about the judgement of results, not about the system."""

ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """A setting of both runs; `absent` if one has no such key. `kind`: scenario, judged, run, changes or versions."""

    path: str
    before: Any
    after: Any
    kind: str = "scenario"


def setup_differences(a: ArchivedRun, b: ArchivedRun) -> list[Difference]:
    """Return every setting that differs: those of the scenario first, versions last.

    For runs of one scenario at different scales, durations are compared as they would be at the scale of `a`. For
    different scenarios, only the keys of both are compared.
    """
    of_a, of_b = dict(settings(_scenario(a))), dict(settings(_scenario(b, of_scale=number_at("scale", a.raw))))
    same = a.raw["scenario"]["name"] == b.raw["scenario"]["name"]
    keys = [key for key in dict.fromkeys([*of_a, *of_b]) if same or (key in of_a and key in of_b)]
    differences = [
        Difference(
            key, of_a.get(key, ABSENT), of_b.get(key, ABSENT), "judged" if key.startswith(JUDGED) else "scenario"
        )
        for key in keys
        if not alike(of_a.get(key, ABSENT), of_b.get(key, ABSENT))
    ]
    differences += [
        Difference(key, a.raw.get(key), b.raw.get(key), "run")
        for key in ("scale", "runtime")
        if not alike(a.raw.get(key), b.raw.get(key))
    ]
    for group in ("changes", "versions"):
        one, other = (dict(settings(run.raw.get(group) or {}, group)) for run in (a, b))
        differences += [
            Difference(key, one.get(key, ABSENT), other.get(key, ABSENT), group)
            for key in dict.fromkeys([*one, *other])
            if one.get(key) != other.get(key)
        ]
    return sorted(differences, key=lambda each: ("scenario", "run", "judged", "changes", "versions").index(each.kind))


def _scenario(run: ArchivedRun, of_scale: float | None = None) -> dict[str, Any]:
    """Return the scenario of a run with all defaults, without its texts; rescaled to `of_scale` if given."""
    raw = run.raw["scenario"]
    try:
        scenario = msgspec.convert(raw, Scenario)
        own = number_at("scale", run.raw)
        if own and of_scale and own != of_scale:
            scenario = scenario_with_time_scaled(scenario, of_scale / own)
        raw = msgspec.to_builtins(scenario)
    except (ValueError, TypeError, RecursionError):
        pass  # written by another version of the lab: compared without defaults
    return {key: value for key, value in raw.items() if key not in TEXTS}


def settings(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every setting with its dotted path; entries with a name have it in the path, a list of values is one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from settings(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        for number, inner in enumerate(value):
            name = inner.get("name") or inner.get("change") or number
            yield from settings({key: each for key, each in inner.items() if key != "name"}, f"{path}.{name}")
    else:
        yield path, value


def alike(one: Any, other: Any) -> bool:
    """Return whether two settings are equal; numbers to a millionth, the rounding error of rescaling."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, int | float) and isinstance(other, int | float) and not isinstance(one, bool):
        return abs(one - other) <= 1e-6 * max(abs(one), abs(other))
    return bool(one == other)
