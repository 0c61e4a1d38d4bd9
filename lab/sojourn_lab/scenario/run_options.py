"""Apply the options of a run to a scenario: another scale, other durations, other values than in its file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from sojourn_lab.errors import ScenarioError
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.files import Check, raw_scenario, scenario_from_raw, scenario_path
from sojourn_lab.scenario.load import scaled_seconds
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Criterion, Scenario
from sojourn_lab.scenario.topology import Server, changed


@dataclass(frozen=True)
class RunOptions:
    """Options of a command that runs a scenario; None: the value of the file.

    Attributes:
        quick: the scenario's short form.
        scale: multiplies every duration of the file.
        duration: measured seconds of a case, not scaled.
        full: measure as long as the scenario's source did.
        seed: seed of the random numbers.
        settings: `key=value`, the key being a path into the file; `cases.<name>.…` for one case, `cases.*.…` for all.
        server: the kind of app server.
        capture: record the packets of nginx and its app servers.
        cases: patterns of the names of cases; the others are left out.
    """

    quick: bool = False
    scale: float | None = None
    duration: float | None = None
    full: bool = False
    seed: int | None = None
    settings: tuple[str, ...] = ()
    server: Server | None = None
    capture: bool = False
    cases: tuple[str, ...] = ()

    def changes(self) -> dict[str, Any]:
        """Return the options that are set, by name; for the record of a run."""
        options = {name: getattr(self, name) for name in self.__dataclass_fields__}
        changed_options = {name: value for name, value in options.items() if value not in (None, False, ())}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed_options.items()}


def scenario_with_options(
    name_or_file: str, options: RunOptions, check: Check = lambda _: ()
) -> tuple[Scenario, float]:
    """Return the scenario with the options applied, and its scale; ScenarioError for options that do not apply.

    `check`: further errors of the file.
    """
    path = scenario_path(name_or_file)
    raw = raw_scenario(path)
    for setting in options.settings:
        with_setting(raw, setting)
    scenario = scenario_from_raw(raw, str(path), path.parent, check)
    replace = msgspec.structs.replace
    lengths = [name for name in ("full", "quick", "duration") if getattr(options, name)]
    if len(lengths) > 1:
        raise ScenarioError(f"--{lengths[0]} and --{lengths[1]} both set the duration: give one of them")
    if options.full and scenario.full_duration is None and scenario.scale == 1.0:
        raise ScenarioError(f"--full: the scenario {scenario.name} has no `full_duration`; use --duration")
    short = scenario.quick if options.quick else None
    scale = next((each for each in (options.scale, short.scale if short else None) if each is not None), None)
    if scale is None:
        scale = 1.0 if options.full else scenario.scale
    if options.full:
        more = scenario.full_repeats if scenario.full_repeats is not None else scenario.repeats
        length = scenario.full_duration if scenario.full_duration is not None else scenario.duration
        scenario = replace(_lengthened(scenario, length), repeats=more)
    if short is not None:
        length = short.duration if short.duration is not None else scenario.duration
        scenario = replace(_lengthened(without_long_cases(scenario), length), repeats=short.repeats or scenario.repeats)
    scenario = _with_cases(scenario, options.cases)
    scenario = scenario_with_time_scaled(scenario, scale)
    if options.duration is not None:
        # All cases, including those with their own duration.
        cases = [
            replace(_with_actions_moved(case, options.duration / scenario.duration_of(case)), duration=None)
            for case in scenario.cases
        ]
        scenario = replace(scenario, duration=options.duration, cases=cases)
    if options.seed is not None:
        scenario = replace(scenario, seed=options.seed)
    if options.capture:
        scenario = _captured(scenario)
    if options.server is not None:
        if any(scenario.topology_of(case).command is not None for case in scenario.cases):
            raise ScenarioError(f"--server {options.server}: the scenario {scenario.name} has a `command` in its place")
        try:
            scenario = replace(scenario, topology=changed(scenario.topology, server=options.server))
        except ValueError as error:
            raise ScenarioError(f"{scenario.name}: {error}") from None
    return scenario, scale


def _captured(scenario: Scenario) -> Scenario:
    """Return the scenario with its packets recorded and analysed."""
    if not any(case.kind == "http" for case in scenario.cases):
        raise ScenarioError(f"--capture: no case of {scenario.name} sends plain requests through nginx")
    analyses = scenario.analyses if "wire" in scenario.analyses else [*scenario.analyses, "wire"]
    return msgspec.structs.replace(scenario, capture=True, analyses=analyses)


def _with_cases(scenario: Scenario, patterns: tuple[str, ...]) -> Scenario:
    """Return the scenario with the cases whose names match a pattern; without patterns with all."""
    if not patterns:
        return scenario
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in scenario.cases):
            names = ", ".join(case.name for case in scenario.cases)
            raise ScenarioError(f"--case {pattern}: no case of {scenario.name} has such a name; there are {names}")
    left_out = {case.name for case in scenario.cases if not any(fnmatchcase(case.name, each) for each in patterns)}
    part = _without_cases(scenario, left_out, f"{scenario.name} with --case {' --case '.join(patterns)}")
    # What a whole run shows has figures of all cases.
    return msgspec.structs.replace(part, learned="") if left_out else part


def without_long_cases(scenario: Scenario) -> Scenario:
    """Return the scenario without the cases that its short form leaves out, and without criteria of those alone."""
    left_out = {case.name for case in scenario.cases if not case.quick}
    return _without_cases(scenario, left_out, f"the short form of {scenario.name}")


def _without_cases(scenario: Scenario, left_out: set[str], what: str) -> Scenario:
    """Return the scenario without some cases, and without criteria of those alone; `what` it is, for an error."""
    if not left_out:
        return scenario
    remaining = [case for case in scenario.cases if case.name not in left_out]
    contrasts = [each for each in scenario.contrasts if not {each.a, each.b} & left_out]
    predictions = [each for each in scenario.predictions if not {each.before, each.after} & left_out]

    def still_meant(criterion: Criterion) -> bool:
        if criterion.predictions is not None:
            changes = [each for each in scenario.predictions if fnmatchcase(each.change, criterion.predictions)]
            return any(each in predictions for each in changes) or not changes
        if criterion.contrasts is not None:
            about = [each for each in scenario.contrasts if fnmatchcase(each.name, criterion.contrasts)]
            return any(each in contrasts for each in about) or not about
        meant = [case for case in scenario.cases if fnmatchcase(case.name, criterion.cases)]
        # A criterion that matches no case at all is kept: it fails, and the failure must be visible.
        return not criterion.other_cases() & left_out and (any(case in remaining for case in meant) or not meant)

    try:
        return msgspec.structs.replace(
            scenario,
            cases=remaining,
            criteria=[each for each in scenario.criteria if still_meant(each)],
            contrasts=contrasts,
            predictions=predictions,
        )
    except ValueError as error:
        raise ScenarioError(f"{what}: {error}") from None


def _lengthened(scenario: Scenario, duration: float) -> Scenario:
    """Return the scenario with another duration, except for cases with their own."""
    factor = duration / scenario.duration
    cases = [case if case.duration is not None else _with_actions_moved(case, factor) for case in scenario.cases]
    return msgspec.structs.replace(scenario, duration=duration, cases=cases)


def _with_actions_moved(case: Case, factor: float) -> Case:
    """Return the case with the times of its actions multiplied by `factor`."""
    moved = [msgspec.structs.replace(each, at=scaled_seconds(each.at, factor)) for each in case.actions]
    return msgspec.structs.replace(case, actions=moved)


def with_setting(raw: dict[str, Any], setting: str) -> None:
    """Set a value in a decoded scenario file; ScenarioError if the path does not exist.

    The value is in TOML's syntax; anything else is taken as text.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ScenarioError(f"--set {setting}: not KEY=VALUE, such as topology.workers=2")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    steps = key.split(".")
    for place in _places(raw, steps[:-1], setting):
        place[steps[-1]] = value


def _places(raw: Any, steps: list[str], setting: str) -> list[dict[str, Any]]:
    places = [raw]
    for step in steps:
        places = [inner for each in places for inner in _inside(each, step)]
        if not places:
            raise ScenarioError(f"--set {setting}: there is no {step!r} in the scenario")
    return places


def _inside(place: Any, step: str) -> list[Any]:
    if isinstance(place, list):
        tables = [each for each in place if isinstance(each, dict)]
        matching = [each for each in tables if step in ("*", each.get("name"), each.get("change"))]
        return matching or ([place[int(step)]] if step.isdecimal() and int(step[:10]) < len(place) else [])
    # A table that the file leaves out, such as [topology], is added.
    return [place.setdefault(step, {})] if isinstance(place, dict) else []
