"""The scenario file: one TOML file says what is run, how long, and what counts as success.

Decoding is strict. An unknown key, a wrong type or a value out of range is refused
with the path of the key, so that a misspelt setting can never be silently ignored.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.house import house_file
from sojourn_lab.load import (
    MAX_REQUESTS,
    AnyLoad,
    Distribution,
    InstantsLoad,
    Name,
    NotNegative,
    Positive,
    Route,
    expected_requests,
    load_with_time_scaled,
    scaled_seconds,
)
from sojourn_lab.matrix import expanded_cases
from sojourn_lab.topology import Topology, TopologyChange, change_with_time_scaled, topology_with_time_scaled


class ScenarioError(LabError):
    """A scenario that cannot be found or does not say what it should."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load on the topology, measured by itself; `service_time` in seconds.

    Either all requests have one `service_time`, or each draws one of the `routes`. Cases with the same `seed` get the
    same arrivals, routes and service times; without one, every case has its own. `topology` says what is different
    from the scenario's: the servers are then started anew.
    """

    name: Name
    load: AnyLoad
    service_time: NotNegative | None = None
    distribution: Distribution = "constant"
    routes: list[Route] = []
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    topology: TopologyChange = TopologyChange()

    def __post_init__(self) -> None:
        if (self.service_time is None) != bool(self.routes):
            raise ValueError("a case needs either `service_time` or `routes`")
        if self.routes and isinstance(self.load, InstantsLoad) and self.load.service_times is not None:
            raise ValueError("a case with `routes` draws its service times: the load's `service_times` would be lost")

    @property
    def mean_service_time(self) -> float:
        """The mean service time over all requests, s."""
        if self.service_time is not None:
            return self.service_time
        share = sum(route.share for route in self.routes)
        return sum(route.share * route.service_time for route in self.routes) / share

    def same_draws(self, other: Case) -> bool:
        """Whether both cases get the same requests at the same instants."""
        offered = ("load", "service_time", "distribution", "routes")
        return (
            self.seed is not None
            and self.seed == other.seed
            and all(getattr(self, name) == getattr(other, name) for name in offered)
        )


class Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that is predicted from the log of the case `before`, and then made: the case `after`.

    `set` describes the change as `sojourn whatif --set` takes it, such as `{workers = "+1"}`. Both cases must offer the
    same requests, which is what their `seed` is for.
    """

    change: str
    before: Name
    after: Name
    set: Annotated[dict[str, str | int | float], msgspec.Meta(min_length=1)]


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold in every case whose name matches `cases`, written down before the run.

    With `predictions`, it must hold in every prediction whose change matches that pattern instead. `metric` is a path
    into the result of a case, or of a prediction. Either it is `below`, `above` or
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
    predictions: str | None = None

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
    predictions: list[Prediction] = []
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
            self.topology_of(case)
        for prediction in self.predictions:
            self._check_prediction(prediction)

    def _check_prediction(self, prediction: Prediction) -> None:
        cases = {case.name: case for case in self.cases}
        for name in (prediction.before, prediction.after):
            if name not in cases:
                raise ValueError(f"the prediction {prediction.change!r} speaks of a case {name!r}, which is not there")
        if not cases[prediction.before].same_draws(cases[prediction.after]):
            raise ValueError(
                f"the cases {prediction.before!r} and {prediction.after!r} of the prediction {prediction.change!r}"
                " must have the same load, service times or routes, and the same `seed`"
            )

    def topology_of(self, case: Case) -> Topology:
        """What the case is measured on."""
        return case.topology.made(self.topology)


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
    cases = [_scaled_case(case, scale) for case in scenario.cases]
    full = scenario.full_duration
    return replace(
        scenario,
        topology=topology_with_time_scaled(scenario.topology, scale),
        cases=cases,
        reference=[_scaled_reference(figures, scale) for figures in scenario.reference],
        duration=scaled_seconds(scenario.duration, scale),
        warmup=scaled_seconds(scenario.warmup, scale),
        timeout=scaled_seconds(scenario.timeout, scale),
        full_duration=None if full is None else scaled_seconds(full, scale),
    )


def _scaled_case(case: Case, scale: float) -> Case:
    def scaled_route(route: Route) -> Route:
        return msgspec.structs.replace(route, service_time=scaled_seconds(route.service_time, scale))

    return msgspec.structs.replace(
        case,
        service_time=None if case.service_time is None else scaled_seconds(case.service_time, scale),
        routes=[scaled_route(route) for route in case.routes],
        load=load_with_time_scaled(case.load, scale),
        topology=change_with_time_scaled(case.topology, scale),
    )


def _scaled_reference(figures: Reference, scale: float) -> Reference:
    changed = {
        key: scaled_seconds(getattr(figures, key), scale)
        for key in ("response_time", "queueing_delay", "service_time")
        if getattr(figures, key) is not None
    }
    return msgspec.structs.replace(figures, **changed)
