"""A scenario as somebody asked for it: another scale, other lengths, other values than its file has."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from sojourn_lab.errors import ScenarioError
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.files import raw_scenario, scenario_from_raw, scenario_path
from sojourn_lab.scenario.load import scaled_seconds
from sojourn_lab.scenario.scaling import scenario_with_time_scaled
from sojourn_lab.scenario.schema import Criterion, Scenario
from sojourn_lab.scenario.topology import Server, changed


@dataclass(frozen=True)
class RunOptions:
    """What a command says beside the scenario's name; None: as the file has it.

    Attributes:
        quick: the scenario's short form. full: its source's own length.
        scale: multiplies every duration of the file. duration: measured seconds of a case, not scaled.
        seed: of the random numbers.
        settings: `key=value`, the key being a path into the file; `cases.<name>.…` for one case, `cases.*.…` for all.
        server: the kind of app server.
        capture: the packets of nginx and its app servers are recorded.
    """

    quick: bool = False
    scale: float | None = None
    duration: float | None = None
    full: bool = False
    seed: int | None = None
    settings: tuple[str, ...] = ()
    server: Server | None = None
    capture: bool = False

    def changes(self) -> dict[str, Any]:
        """Return what was asked for, by name; for the record of a run."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found = {name: value for name, value in told.items() if value not in (None, False, ())}
        return {**found, **({"settings": list(self.settings)} if self.settings else {})}


def scenario_with_options(name_or_file: str, options: RunOptions) -> tuple[Scenario, float]:
    """Return the scenario with everything applied, and the scale it was run at; ScenarioError for what does not fit."""
    path = scenario_path(name_or_file)
    raw = raw_scenario(path)
    for setting in options.settings:
        with_setting(raw, setting)
    scenario = scenario_from_raw(raw, str(path))
    replace = msgspec.structs.replace
    told = [name for name in ("full", "quick", "duration") if getattr(options, name)]
    if len(told) > 1:
        raise ScenarioError(f"--{told[0]} and --{told[1]} both say how long to measure: give one of them")
    if options.full and scenario.full_duration is None and scenario.scale == 1.0:
        raise ScenarioError(f"the scenario {scenario.name} has no full_duration")
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
    scenario = scenario_with_time_scaled(scenario, scale)
    if options.duration is not None:
        # All cases, also those that have a duration of their own.
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
        try:
            scenario = replace(scenario, topology=changed(scenario.topology, server=options.server))
        except ValueError as error:
            raise ScenarioError(f"{scenario.name}: {error}") from None
    return scenario, scale


def _captured(scenario: Scenario) -> Scenario:
    """Return the scenario with its packets recorded, and what they show among its figures."""
    if not any(case.kind == "http" for case in scenario.cases):
        raise ScenarioError(f"{scenario.name}: no case sends plain requests through nginx, whose packets it is about")
    analyses = scenario.analyses if "wire" in scenario.analyses else [*scenario.analyses, "wire"]
    return msgspec.structs.replace(scenario, capture=True, analyses=analyses)


def without_long_cases(scenario: Scenario) -> Scenario:
    """Return the scenario without the cases its short form does without, and without what is said of them alone."""
    left_out = {case.name for case in scenario.cases if not case.quick}
    if not left_out:
        return scenario
    kept = [case for case in scenario.cases if case.quick]
    contrasts = [each for each in scenario.contrasts if not {each.a, each.b} & left_out]

    def still_meant(criterion: Criterion) -> bool:
        if criterion.predictions is not None:
            return True
        if criterion.contrasts is not None:
            about = [each for each in scenario.contrasts if fnmatchcase(each.name, criterion.contrasts)]
            return any(each in contrasts for each in about) or not about
        meant = [case for case in scenario.cases if fnmatchcase(case.name, criterion.cases)]
        # One that no case ever met stays: it has failed, and that must be seen.
        return not criterion.other_cases() & left_out and (any(case.quick for case in meant) or not meant)

    try:
        return msgspec.structs.replace(
            scenario,
            cases=kept,
            criteria=[each for each in scenario.criteria if still_meant(each)],
            contrasts=contrasts,
        )
    except ValueError as error:
        raise ScenarioError(f"the short form of {scenario.name}: {error}") from None


def _lengthened(scenario: Scenario, duration: float) -> Scenario:
    """Return the scenario measured so long, apart from the cases with a duration of their own."""
    factor = duration / scenario.duration
    cases = [case if case.duration is not None else _with_actions_moved(case, factor) for case in scenario.cases]
    return msgspec.structs.replace(scenario, duration=duration, cases=cases)


def _with_actions_moved(case: Case, factor: float) -> Case:
    """Return the case with its actions at the same place in a time `factor` times as long."""
    moved = [msgspec.structs.replace(each, at=scaled_seconds(each.at, factor)) for each in case.actions]
    return msgspec.structs.replace(case, actions=moved)


def with_setting(raw: dict[str, Any], setting: str) -> None:
    """Put another value into a decoded scenario file; ScenarioError where the path leads nowhere.

    The value is written as TOML has it; what is no TOML is taken as text.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ScenarioError(f"--set {setting}: not KEY=VALUE")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    steps = key.split(".")
    for place in _places(raw, steps[:-1], setting):
        place[steps[-1]] = value


def _places(raw: Any, steps: list[str], setting: str) -> list[dict[str, Any]]:
    found = [raw]
    for step in steps:
        found = [inner for each in found for inner in _inside(each, step)]
        if not found:
            raise ScenarioError(f"--set {setting}: there is no {step!r} in the scenario")
    return found


def _inside(place: Any, step: str) -> list[Any]:
    if isinstance(place, list):
        tables = [each for each in place if isinstance(each, dict)]
        named = [each for each in tables if step in ("*", each.get("name"), each.get("change"))]
        return named or ([place[int(step)]] if step.isdecimal() and int(step[:10]) < len(place) else [])
    # A table that the file leaves out, such as [topology], is begun.
    return [place.setdefault(step, {})] if isinstance(place, dict) else []
