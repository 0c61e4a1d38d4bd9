"""The scenario file: one TOML file says what is run, how long, and what counts as success.

Decoding is strict. An unknown key, a wrong type or a value out of range is refused
with the path of the key, so that a misspelt setting can never be silently ignored.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.house import house_file
from sojourn_lab.load import (
    MAX_REQUESTS,
    AnyLoad,
    Distribution,
    Name,
    NotNegative,
    Positive,
    expected_requests,
    load_with_time_scaled,
    scaled_seconds,
)
from sojourn_lab.matrix import expanded_cases

Server = Literal["gunicorn", "unicorn"]
Balancer = Literal["round_robin", "least_conn", "random_two"]


class ScenarioError(LabError):
    """A scenario that cannot be found or does not say what it should."""


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """nginx with one worker in front of `backends` app servers; times in seconds."""

    backends: Annotated[int, msgspec.Meta(ge=1, le=64)] = 2
    server: Server = "gunicorn"
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    backlog: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 64
    worker_timeout: Positive = 60.0
    proxy_read_timeout: Positive = 60.0
    balancer: Balancer = "round_robin"


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load on the topology, measured by itself; `service_time` in seconds."""

    name: Name
    service_time: NotNegative
    load: AnyLoad
    distribution: Distribution = "constant"


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold in every case whose name matches `cases`, written down before the run.

    `metric` is a path into the result of a case. Either it is `below`, `above` or
    `equals` a number, or it lies `within` a fraction of `of`: a number or another path.
    Numbers are taken as they are; a path to the law moves with `--scale`.
    """

    name: str
    metric: str
    cases: str = "*"
    below: float | None = None
    above: float | None = None
    equals: float | None = None
    within: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    of: float | str | None = None

    def __post_init__(self) -> None:
        told = [key for key in ("below", "above", "equals", "within") if getattr(self, key) is not None]
        if len(told) != 1:
            raise ValueError("a criterion needs exactly one of `below`, `above`, `equals` and `within`")
        if (self.within is None) != (self.of is None):
            raise ValueError("`within` and `of` go together")


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody else's figures for the cases that match, in seconds: shown, never tested against."""

    cases: str
    response_time: Positive | None = None
    queueing_delay: NotNegative | None = None
    service_time: NotNegative | None = None


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole scenario; times in seconds, `duration` and `warmup` for each case."""

    name: Name
    title: str
    question: str
    shows: str
    seed: Annotated[int, msgspec.Meta(ge=0)]
    duration: Positive
    cases: Annotated[list[Case], msgspec.Meta(min_length=1)]
    criteria: list[Criterion] = []
    reference: list[Reference] = []
    reference_name: str = "reference"
    reference_source: str = ""
    reference_note: str = ""
    warmup: NotNegative = 0.0
    full_duration: Positive | None = None
    timeout: Positive = 60.0
    topology: Topology = Topology()

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cases are named {twice[0]!r}: put what differs into the name, as {{key}}")
        for case in self.cases:
            requests = expected_requests(case.load, self.warmup, self.duration)
            if requests is not None and requests > MAX_REQUESTS:
                raise ValueError(f"case {case.name!r} asks for {requests:.0f} requests, more than {MAX_REQUESTS}")


def scenario_from_text(text: str, where: str) -> Scenario:
    """Return the scenario a TOML text describes; ScenarioError, naming `where`, if it does not."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
        if isinstance(raw.get("cases"), list):
            raw["cases"] = expanded_cases(raw["cases"])
        return msgspec.convert(raw, Scenario)
    except (ValueError, RecursionError) as error:
        # tomllib and msgspec both raise ValueErrors whose text names the line or the key.
        raise ScenarioError(f"{where}: {error or type(error).__name__}") from None


def scenario_from_file(path: Path) -> Scenario:
    """Return the scenario in a file; ScenarioError if it cannot be read or is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    return scenario_from_text(text, str(path))


def shipped_scenario_paths() -> list[Path]:
    """Return the files of the scenarios that come with the lab, by name."""
    return sorted(house_file("scenarios").glob("*.toml"))


def find_scenario(name_or_file: str) -> Scenario:
    """Return a shipped scenario by its name, or the one in a file (anything with `/` or `.toml`)."""
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        return scenario_from_file(Path(name_or_file))
    paths = shipped_scenario_paths()
    for path in paths:
        if path.stem == name_or_file:
            return scenario_from_file(path)
    known = ", ".join(path.stem for path in paths)
    raise ScenarioError(f"there is no scenario {name_or_file!r}; there are: {known}")


def scenario_with_time_scaled(scenario: Scenario, scale: float) -> Scenario:
    """Return the scenario with every duration multiplied by `scale` and every rate divided by it.

    Scaled: service times, think times, instants, duration, warm-up and every timeout, and the
    reference figures beside them. Not scaled: numbers in criteria, and what the machine
    itself costs (a connect, a fork, a context switch), which therefore weighs more in a short run.
    """
    replace = msgspec.structs.replace
    topology = replace(
        scenario.topology,
        worker_timeout=scaled_seconds(scenario.topology.worker_timeout, scale),
        proxy_read_timeout=scaled_seconds(scenario.topology.proxy_read_timeout, scale),
    )
    cases = [
        replace(
            case,
            service_time=scaled_seconds(case.service_time, scale),
            load=load_with_time_scaled(case.load, scale),
        )
        for case in scenario.cases
    ]
    full = scenario.full_duration
    return replace(
        scenario,
        topology=topology,
        cases=cases,
        reference=[_scaled_reference(figures, scale) for figures in scenario.reference],
        duration=scaled_seconds(scenario.duration, scale),
        warmup=scaled_seconds(scenario.warmup, scale),
        timeout=scaled_seconds(scenario.timeout, scale),
        full_duration=None if full is None else scaled_seconds(full, scale),
    )


def _scaled_reference(figures: Reference, scale: float) -> Reference:
    changed = {
        key: scaled_seconds(getattr(figures, key), scale)
        for key in ("response_time", "queueing_delay", "service_time")
        if getattr(figures, key) is not None
    }
    return msgspec.structs.replace(figures, **changed)
