"""A playbook: one scenario, run repeatedly with one change per run, unattended.

The file says beforehand which case is measured, what counts as success, what each step changes, and when a change is
kept for the steps after it. Decoding is strict, as with scenarios.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sojourn_lab.errors import ScenarioError
from sojourn_lab.resources import resource_file
from sojourn_lab.results.metric_paths import metric_problems
from sojourn_lab.scenario.load import Name, Positive
from sojourn_lab.scenario.problems import Problem, problems_of, refusal
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options
from sojourn_lab.scenario.schema import Column, Criterion, Quick, Scenario

Value = str | int | float | bool
BASELINE = "as it is"


class Better(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a change is an improvement: `metric` is larger (or smaller) by at least the share `by` than before it."""

    metric: str
    direction: Literal["larger", "smaller"] = "larger"
    by: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] = 0.1

    def ratio_suffices(self, ratio: float | None) -> bool:
        """Return whether after / before is a sufficient improvement; False without a ratio."""
        if ratio is None:
            return False
        return ratio >= 1.0 + self.by if self.direction == "larger" else ratio <= 1.0 / (1.0 + self.by)


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: `set` has one key, a path like that of `sojourn lab run --set`, and its value.

    `from` is the step (by name) that it is a change to; without it, the last one that was kept. `keep` says whether the
    steps after it begin from here: `if_better` by the playbook's own measure.
    """

    name: str
    set: Annotated[dict[str, Value], msgspec.Meta(min_length=1, max_length=1)]
    start: str | None = msgspec.field(default=None, name="from")
    keep: bool | Literal["if_better"] = "if_better"


class Playbook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A playbook.

    `case` is the case of the scenario that every step measures; it is measured unchanged before the first step. `scale`
    and `duration` are as for `sojourn lab run`, `quick` is the short form. `columns` are the figures of the table,
    `criteria` the conditions of success, counted for each step.
    """

    name: Name
    title: str
    scenario: str
    case: Name
    better: Better
    columns: Annotated[list[Column], msgspec.Meta(min_length=1)]
    steps: Annotated[list[Step], msgspec.Meta(min_length=1, max_length=200)]
    criteria: list[Criterion] = []
    learned: str = ""
    scale: Annotated[float, msgspec.Meta(ge=0.001, le=100.0)] | None = None
    duration: Positive | None = None
    quick: Quick = Quick()

    def __post_init__(self) -> None:
        earlier = [BASELINE]
        for step in self.steps:
            if step.name in earlier:
                raise ValueError(f"two steps are named {step.name!r}")
            if step.start is not None and step.start not in earlier:
                raise ValueError(f"the step {step.name!r} starts from {step.start!r}, which does not come before it")
            earlier.append(step.name)
        for criterion in self.criteria:
            if criterion.predictions is not None or criterion.contrasts is not None:
                raise ValueError(f"the criterion {criterion.name!r}: a step has neither predictions nor contrasts")


def shipped_playbook_paths() -> list[Path]:
    """Return the files of the lab's playbooks, by name."""
    return sorted(resource_file("playbooks").glob("*.toml"))


def find_playbook(name_or_file: str) -> Playbook:
    """Return a shipped playbook by its name, or the one in a file (any name with `/` or `.toml`).

    ScenarioError if it cannot be read or is not one.
    """
    path = Path(name_or_file)
    if "/" not in name_or_file and not name_or_file.endswith(".toml"):
        paths = {each.stem: each for each in shipped_playbook_paths()}
        if name_or_file not in paths:
            raise ScenarioError(f"there is no playbook {name_or_file!r}; there are: {', '.join(paths)}")
        path = paths[name_or_file]
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: {error or type(error).__name__}") from None
    return playbook_from_raw(raw, str(path))


def playbook_from_raw(raw: dict[str, Any], where: str) -> Playbook:
    """Return the playbook of a decoded TOML; ScenarioError with `where` if it is invalid."""
    try:
        return msgspec.convert(raw, Playbook)
    except (ValueError, RecursionError) as error:
        problems = problems_of(raw, Playbook) or [Problem("", str(error) or type(error).__name__)]
        raise refusal(where, problems) from None


def scenario_of(playbook: Playbook, settings: dict[str, Value], *, quick: bool = False) -> tuple[Scenario, float]:
    """Return the scenario of one step, and its scale: the one case, with these settings, and the playbook's criteria.

    ScenarioError where the scenario, the case or a setting does not fit.
    """
    options = tuple(f"{key}={toml_value(value)}" for key, value in settings.items())
    short = playbook.quick if quick else Quick()
    scenario, scale = scenario_with_options(
        playbook.scenario,
        RunOptions(scale=short.scale or playbook.scale, duration=short.duration or playbook.duration, settings=options),
    )
    cases = [case for case in scenario.cases if case.name == playbook.case]
    if not cases:
        raise ScenarioError(f"the scenario {playbook.scenario} has no case {playbook.case!r}")
    try:
        one = msgspec.structs.replace(
            scenario,
            cases=cases,
            criteria=playbook.criteria,
            predictions=[],
            contrasts=[],
            columns=playbook.columns,
            learned="",
            repeats=short.repeats or 1,
        )
    except ValueError as error:
        raise ScenarioError(f"{playbook.name}: {error}") from None
    if problems := list(metric_problems(msgspec.to_builtins(one))):
        raise refusal(playbook.name, problems)
    return one, scale


def toml_value(value: Value) -> str:
    """Return a value in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # A JSON string is a TOML basic string.
        return msgspec.json.encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ScenarioError(f"{value} is not a value for a setting")
    return repr(value)


def checked(playbook: Playbook, *, quick: bool = False) -> None:
    """Load every step's scenario, so that an error in the last one appears before the first is run; ScenarioError."""
    for step, settings in {BASELINE: {}, **{step.name: step.set for step in playbook.steps}}.items():
        try:
            scenario_of(playbook, settings, quick=quick)
        except ScenarioError as error:
            raise ScenarioError(f"step {step!r}: {error}") from None
