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
from sojourn_lab.kinds.settings import OTHER_KINDS, Collector, Grpc, Pipeline, Websocket
from sojourn_lab.load import (
    MAX_REQUESTS,
    AnyLoad,
    Distribution,
    InstantsLoad,
    Name,
    NotNegative,
    Positive,
    Retries,
    Route,
    expected_requests,
    load_with_time_scaled,
    retries_with_time_scaled,
    scaled_seconds,
)
from sojourn_lab.matrix import expanded_cases
from sojourn_lab.topology import Topology, TopologyChange, change_with_time_scaled, topology_with_time_scaled


class ScenarioError(LabError):
    """A scenario that cannot be found or does not say what it should."""


Article = Literal["000", "001", "002", "003", "004", ""]
"""Which of the articles a scenario repeats (`articles.py` says what they are); empty: none of them."""

AnalysisName = Literal[
    "balance", "goodput", "dark_reads", "reconciliation", "tiers", "recovery", "routes", "capacity", "ports"
]
PictureName = Literal["sequence", "queue"]


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something done to the system `at` seconds after the warm-up of a case; in a longer run later in proportion.

    `add_backend` brings a standby backend into the upstream, `remove_backend` takes the last one out; `mirror` sets
    the `percent` of dark reads, 0 being the kill switch.
    """

    at: NotNegative
    do: Literal["add_backend", "remove_backend", "mirror"]
    percent: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None

    def __post_init__(self) -> None:
        if (self.do == "mirror") != (self.percent is not None):
            raise ValueError("`percent` goes with `mirror`")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load on the topology, measured by itself; `service_time` in seconds.

    Either all requests have one `service_time`, or each draws one of the `routes`. Cases with the same `seed` get the
    same arrivals, routes and service times; without one, every case has its own. `topology` says what is different
    from the scenario's: the servers are then started anew. `dependency`: seconds of work that every request asks of the
    tier behind the app. `timeout` and `retries`: the clients' own, instead of the scenario's.

    `local_ports`: the generator may send from so many ports only. `expect_void`: the case is there to show a generator
    that is the bottleneck; it must be void, and does not make the run void.

    `quick = false`: the short form of the scenario does without this case, and without the criteria that only it meets.

    A case of another kind than requests through nginx has `websocket`, `grpc`, `collector` or `pipeline` in place of a
    `load`.
    """

    name: Name
    load: AnyLoad | None = None
    service_time: NotNegative | None = None
    distribution: Distribution = "constant"
    routes: list[Route] = []
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    topology: TopologyChange = TopologyChange()
    dependency: NotNegative = 0.0
    timeout: Positive | None = None
    retries: Retries | None = None
    actions: list[Action] = []
    duration: Positive | None = None
    quick: bool = True
    generator: Literal["own", "siege"] = "own"
    local_ports: Annotated[int, msgspec.Meta(ge=1, le=20_000)] | None = None
    expect_void: bool = False
    websocket: Websocket | None = None
    grpc: Grpc | None = None
    collector: Collector | None = None
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        told = [kind for kind in OTHER_KINDS if getattr(self, kind) is not None]
        if len(told) + (self.load is not None) != 1:
            raise ValueError(f"a case needs exactly one of `load`, {', '.join(f'`{kind}`' for kind in OTHER_KINDS)}")
        if told:
            return
        own = isinstance(self.load, InstantsLoad) and self.load.service_times is not None
        if own and self.service_time is None and not self.routes:
            return
        if (self.service_time is None) != bool(self.routes):
            raise ValueError("a case needs either `service_time` or `routes`")
        if self.routes and own:
            raise ValueError("a case with `routes` draws its service times: the load's `service_times` would be lost")

    @property
    def kind(self) -> str:
        """`http`, or what the case has in place of a load."""
        return next((kind for kind in OTHER_KINDS if getattr(self, kind) is not None), "http")

    @property
    def mean_service_time(self) -> float:
        """The mean service time over all requests, s; 0 where there is none to be known."""
        if self.service_time is not None:
            return self.service_time
        if isinstance(self.load, InstantsLoad) and self.load.service_times:
            return sum(self.load.service_times) / len(self.load.service_times)
        if not self.routes:
            return 0.0
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


class Contrast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure of two cases, compared: `metric` in the case `a` over that in the case `b`, with an interval.

    The interval needs `repeats`; it is of the ratio's geometric mean over them, those of one round being paired.
    """

    name: str
    metric: str
    a: Name
    b: Name


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold in every case whose name matches `cases`, written down before the run.

    With `predictions` or `contrasts` it must hold in every one of those whose name matches instead. `metric` is a path
    into the result of a case, a prediction or a contrast. It is `below`, `above` or `equals` a number, or it
    lies `within` a fraction of `of`. Each of these may be a number, a path, or the path of another case, `case:path`,
    and is multiplied by `times`. Of a case that is repeated the median counts. Numbers are taken as they are; a path
    to the law moves with `--scale`.
    """

    name: str
    metric: str
    cases: str = "*"
    below: float | str | None = None
    above: float | str | None = None
    equals: float | str | None = None
    within: Annotated[float, msgspec.Meta(gt=0.0)] | None = None
    of: float | str | None = None
    times: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0
    predictions: str | None = None
    contrasts: str | None = None

    def __post_init__(self) -> None:
        told = [key for key in ("below", "above", "equals", "within") if getattr(self, key) is not None]
        if len(told) != 1:
            raise ValueError("a criterion needs exactly one of `below`, `above`, `equals` and `within`")
        if (self.within is None) != (self.of is None):
            raise ValueError("`within` and `of` go together")
        if self.predictions is not None and self.contrasts is not None:
            raise ValueError("a criterion is about `predictions` or about `contrasts`")


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody else's figures for the cases that match, in seconds: shown, never tested against.

    `figures` has others, by the names that columns ask for; they do not move with `--scale`.
    """

    cases: str
    response_time: Positive | None = None
    queueing_delay: NotNegative | None = None
    service_time: NotNegative | None = None
    figures: dict[str, float] = {}


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the result table: the figure at `metric`, `shown` as milliseconds, seconds, percent or a number.

    `reference` names what to put beside it: a figure of the matching reference.
    """

    title: str
    metric: str
    shown: Literal["ms", "s", "%", "number", "count", "text"] = "number"
    reference: str | None = None


class Quick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The short form of a scenario, for `--quick`: what every duration is multiplied by, or the measured seconds."""

    scale: Annotated[float, msgspec.Meta(ge=0.001, le=1.0)] | None = None
    duration: Positive | None = None
    repeats: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole scenario; times in seconds, `duration` and `warmup` for each case.

    `scale` is the one it is run at unless asked otherwise: the file then has the article's own durations. `repeats`:
    all cases are run that often, one round after the other. `learned` is a paragraph in which `{case:path|form}`
    becomes a figure of the run (forms: ms, s, %, count, and Python's own).
    """

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
    article: Article = ""
    scale: Annotated[float, msgspec.Meta(ge=0.001, le=1.0)] = 1.0
    quick: Quick = Quick()
    repeats: Annotated[int, msgspec.Meta(ge=1, le=50)] = 1
    full_repeats: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None
    retries: Retries | None = None
    analyses: list[AnalysisName] = []
    pictures: list[PictureName] = []
    columns: list[Column] = []
    contrasts: list[Contrast] = []
    learned: str = ""

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cases are named {twice[0]!r}: put what differs into the name, as {{key}}")
        for case in self.cases:
            if case.load is None:
                continue
            requests = expected_requests(case.load, self.warmup, self.duration_of(case))
            if requests is not None and requests > MAX_REQUESTS:
                raise ValueError(f"case {case.name!r} asks for {requests:.0f} requests, more than {MAX_REQUESTS}")
            self.topology_of(case)
        for prediction in self.predictions:
            self._check_prediction(prediction)
        for contrast in self.contrasts:
            for name in (contrast.a, contrast.b):
                if name not in names:
                    raise ValueError(f"the contrast {contrast.name!r} speaks of a case {name!r}, which is not there")

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

    def duration_of(self, case: Case) -> float:
        """How long the case is measured, s."""
        return self.duration if case.duration is None else case.duration

    def timeout_of(self, case: Case) -> float:
        """How long the clients of the case wait, s."""
        return self.timeout if case.timeout is None else case.timeout

    def topology_of(self, case: Case) -> Topology:
        """What the case is measured on."""
        return case.topology.made(self.topology)


def scenario_from_text(text: str, where: str) -> Scenario:
    """Return the scenario a TOML text describes; ScenarioError, naming `where`, if it does not."""
    return scenario_from_raw(raw_from_text(text, where), where)


def raw_from_text(text: str, where: str) -> dict[str, Any]:
    """Return a scenario's TOML decoded, each case with a matrix multiplied out; ScenarioError if it is no TOML."""
    try:
        raw: dict[str, Any] = tomllib.loads(text)
        if isinstance(raw.get("cases"), list):
            raw["cases"] = expanded_cases(raw["cases"])
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: {error or type(error).__name__}") from None
    return raw


def scenario_from_raw(raw: dict[str, Any], where: str) -> Scenario:
    """Return the scenario of a decoded TOML; ScenarioError, naming `where`, if it is none."""
    try:
        return msgspec.convert(raw, Scenario)
    except (ValueError, RecursionError) as error:
        # msgspec raises ValueErrors whose text names the key.
        raise ScenarioError(f"{where}: {error or type(error).__name__}") from None


def raw_scenario(path: Path) -> dict[str, Any]:
    """Return a scenario file decoded, before its types are checked; ScenarioError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    return raw_from_text(text, str(path))


def scenario_from_file(path: Path) -> Scenario:
    """Return the scenario in a file; ScenarioError if it cannot be read or is not one."""
    return scenario_from_raw(raw_scenario(path), str(path))


def shipped_scenario_paths() -> list[Path]:
    """Return the files of the scenarios that come with the lab, by name."""
    return sorted(house_file("scenarios").glob("*.toml"))


def scenario_path(name_or_file: str) -> Path:
    """Return the file of a shipped scenario by its name, or the file named (anything with `/` or `.toml`)."""
    if "/" in name_or_file or name_or_file.endswith(".toml"):
        return Path(name_or_file)
    paths = shipped_scenario_paths()
    for path in paths:
        if path.stem == name_or_file:
            return path
    known = ", ".join(path.stem for path in paths)
    raise ScenarioError(f"there is no scenario {name_or_file!r}; there are: {known}")


def find_scenario(name_or_file: str) -> Scenario:
    """Return a shipped scenario by its name, or the one in a file (anything with `/` or `.toml`)."""
    return scenario_from_file(scenario_path(name_or_file))


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
        retries=retries_with_time_scaled(scenario.retries, scale),
        quick=replace(scenario.quick, duration=_maybe_scaled(scenario.quick.duration, scale)),
    )


def _scaled_case(case: Case, scale: float) -> Case:
    def scaled_route(route: Route) -> Route:
        return msgspec.structs.replace(
            route,
            service_time=scaled_seconds(route.service_time, scale),
            dependency=scaled_seconds(route.dependency, scale),
        )

    others = {kind: found.with_time_scaled(scale) for kind in OTHER_KINDS if (found := getattr(case, kind)) is not None}
    return msgspec.structs.replace(
        case,
        service_time=_maybe_scaled(case.service_time, scale),
        routes=[scaled_route(route) for route in case.routes],
        load=None if case.load is None else load_with_time_scaled(case.load, scale),
        topology=change_with_time_scaled(case.topology, scale),
        dependency=scaled_seconds(case.dependency, scale),
        timeout=_maybe_scaled(case.timeout, scale),
        duration=_maybe_scaled(case.duration, scale),
        retries=retries_with_time_scaled(case.retries, scale),
        actions=[msgspec.structs.replace(each, at=scaled_seconds(each.at, scale)) for each in case.actions],
        **others,
    )


def _maybe_scaled(seconds: float | None, scale: float) -> float | None:
    return None if seconds is None else scaled_seconds(seconds, scale)


def _scaled_reference(figures: Reference, scale: float) -> Reference:
    changed = {
        key: scaled_seconds(getattr(figures, key), scale)
        for key in ("response_time", "queueing_delay", "service_time")
        if getattr(figures, key) is not None
    }
    return msgspec.structs.replace(figures, **changed)
