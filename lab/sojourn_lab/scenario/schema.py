"""The scenario file: one TOML file with the topology, the cases, their duration, and the criteria.

Decoding is strict. An unknown key, a wrong type or a value out of range is refused with the path of the key, so that a
misspelt setting is never silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from sojourn_lab.scenario.case import MOST_HALF_OPEN, Case
from sojourn_lab.scenario.load import MAX_REQUESTS, Name, NotNegative, Positive, Retries, expected_requests
from sojourn_lab.scenario.topology import PYTHON, STREAMING, Topology

Article = Literal["000", "001", "002", "003", "004", ""]
"""The article whose experiment a scenario repeats (`ARTICLES` in cli/commands.py has the titles); empty: none."""

AnalysisName = Literal[
    "accept_queue",
    "balance",
    "capacity",
    "contention",
    "dark_reads",
    "goodput",
    "held",
    "inferred",
    "ports",
    "reconciliation",
    "recovery",
    "routes",
    "tiers",
    "wire",
]
PictureName = Literal["sequence", "queue"]

LEAST_ROUNDS = 3
"""The fewest rounds of cases that a criterion compares. The speed of a machine drifts: the median of three rounds
ignores a single disturbed one, and an interval needs three."""


class Prediction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that is predicted from the log of the case `before` and made in the case `after`.

    `set` describes the change in the syntax of `sojourn whatif --set`, such as `{workers = "+1"}`. Both cases must
    offer the same requests, by the same `seed`. `cores`: `--cores` is the number of processors of the machine.
    """

    change: str
    before: Name
    after: Name
    set: Annotated[dict[str, str | int | float], msgspec.Meta(min_length=1)]
    cores: bool = False


class Contrast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One figure of two cases, compared: the ratio of `metric` in case `a` to that in case `b`, with an interval.

    The ratio is the median over the rounds, paired by round; the interval is that of the geometric mean and needs three
    rounds.
    """

    name: str
    metric: str
    a: Name
    b: Name


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition, stated before the run, that every case whose name matches `cases` must meet.

    With `predictions` or `contrasts`, those whose name matches must meet it instead. `metric` is a path into the result
    of a case, a prediction or a contrast. It must be `below`, `above` or `equals` a number, or `within` a fraction of
    `of`. Each bound may be a number, a path, or the path of another case, `case:path`, and is multiplied by `times`. Of
    repeated cases the median counts, and cases that a criterion compares are measured at least three times. Numbers do
    not change with `--scale`; a path to the law does.
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
        bounds = [key for key in ("below", "above", "equals", "within") if getattr(self, key) is not None]
        reasons = {
            "a criterion needs exactly one of `below`, `above`, `equals` and `within`": len(bounds) != 1,
            "`within` needs `of`, and `of` needs `within`": (self.within is None) != (self.of is None),
            "`predictions` and `contrasts` exclude each other: give one of them": (
                self.predictions is not None and self.contrasts is not None
            ),
        }
        if any(reasons.values()):
            raise ValueError("\n".join(reason for reason, holds in reasons.items() if holds))

    def other_cases(self) -> set[str]:
        """Return the cases that the metric or a bound names, in the form `case:path`."""
        paths = (self.metric, self.below, self.above, self.equals, self.of)
        return {each.partition(":")[0] for each in paths if isinstance(each, str) and ":" in each}


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Published figures for the cases that match, in seconds: shown, not tested against.

    `figures` has other figures, by the names in columns; they do not change with `--scale`.
    """

    cases: str
    response_time: Positive | None = None
    queueing_delay: NotNegative | None = None
    service_time: NotNegative | None = None
    figures: dict[str, float] = {}


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of the result table: the figure at `metric`, `shown` as milliseconds, seconds, percent or a number.

    `reference` names the figure of the matching reference that is shown in brackets.
    """

    title: str
    metric: str
    shown: Literal["ms", "s", "%", "number", "count", "text"] = "number"
    reference: str | None = None


class Quick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The short form of a scenario, for `--quick`: the factor of every duration, or the measured seconds."""

    scale: Annotated[float, msgspec.Meta(ge=0.001, le=1.0)] | None = None
    duration: Positive | None = None
    repeats: Annotated[int, msgspec.Meta(ge=1, le=50)] | None = None


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole scenario; times in seconds, `duration` and `warmup` for each case.

    `scale`: the default scale of a run; the file then has the article's own durations. `repeats`: the number of rounds
    of all cases. `learned`: a paragraph in which `{case:path|form}` becomes a figure of the run (forms: ms, s, %,
    count, and Python's own). `capture`: record the packets of nginx and the app servers. With it, or in a `namespace`,
    the kernel's queues are sampled every `kernel_period` seconds, at any scale. `repeat_scale`: a void run is repeated
    once with every duration multiplied by it, which lowers the load; 1 is the same load.
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
    capture: bool = False
    kernel_period: Annotated[float, msgspec.Meta(ge=0.05, le=60.0)] = 1.0
    analyses: list[AnalysisName] = []
    pictures: list[PictureName] = []
    columns: list[Column] = []
    contrasts: list[Contrast] = []
    learned: str = ""
    repeat_scale: Annotated[float, msgspec.Meta(ge=1.0, le=10.0)] = 1.0

    def __post_init__(self) -> None:
        if reasons := list(self._reasons()):
            raise ValueError("\n".join(reasons))

    def _reasons(self) -> Iterator[str]:
        names = [case.name for case in self.cases]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"two cases are named {name!r}: add a key that differs to the name, as {{key}}"
        for case in self.cases:
            try:
                topology = self.topology_of(case)
            except ValueError as error:
                yield from (f"case {case.name!r}: {reason}" for reason in str(error).splitlines())
                continue
            yield from _reasons_of_namespace(case, topology)
            yield from _reasons_of_server(case, topology)
            if case.load is None:
                continue
            requests = expected_requests(case.load, self.warmup, self.duration_of(case))
            if requests is not None and requests > MAX_REQUESTS:
                yield f"case {case.name!r} has {requests:.0f} requests, more than {MAX_REQUESTS}"
        for prediction in self.predictions:
            yield from self._reasons_of_prediction(prediction)
        for contrast in self.contrasts:
            for name in (contrast.a, contrast.b):
                if name not in names:
                    yield f"the contrast {contrast.name!r} names a case {name!r}, which does not exist"

    def _reasons_of_prediction(self, prediction: Prediction) -> Iterator[str]:
        cases = {case.name: case for case in self.cases}
        missing = [name for name in (prediction.before, prediction.after) if name not in cases]
        for name in missing:
            yield f"the prediction {prediction.change!r} names a case {name!r}, which does not exist"
        if not missing and not cases[prediction.before].same_draws(cases[prediction.after]):
            yield (
                f"the cases {prediction.before!r} and {prediction.after!r} of the prediction {prediction.change!r}"
                " must have the same load, service times or routes, and the same `seed`"
            )

    def compared_cases(self) -> set[str]:
        """Return the names of the cases that a criterion compares with another case, directly or by a contrast."""
        compared: set[str] = set()
        for criterion in self.criteria:
            if criterion.predictions is not None:
                continue
            if criterion.contrasts is not None:
                meant = [each for each in self.contrasts if fnmatchcase(each.name, criterion.contrasts)]
                compared |= {name for each in meant for name in (each.a, each.b)}
                continue
            beside = criterion.other_cases()
            own = {case.name for case in self.cases if fnmatchcase(case.name, criterion.cases)}
            if beside and len(own | beside) > 1:
                compared |= own | beside
        return compared

    def rounds_of(self, case: Case) -> int:
        """Return the rounds of the case: `repeats`, and at least three if it is compared."""
        return max(self.repeats, LEAST_ROUNDS) if case.name in self.compared_cases() else self.repeats

    def name_in(self, case: Case, turn: int) -> str:
        """Return the name in the log of a case in the round `turn`, from 1."""
        return f"{case.name}.r{turn}" if self.rounds_of(case) > 1 else case.name

    def duration_of(self, case: Case) -> float:
        """Return the measured duration of the case, s."""
        return self.duration if case.duration is None else case.duration

    def timeout_of(self, case: Case) -> float:
        """Return the timeout of the case's clients, s."""
        return self.timeout if case.timeout is None else case.timeout

    def topology_of(self, case: Case) -> Topology:
        """Return the topology of the case."""
        return case.topology.applied_to(self.topology)


def needs_namespace(scenario: Scenario) -> bool:
    """Return whether any case runs in a network namespace of its own."""
    return any(scenario.topology_of(case).namespace is not None for case in scenario.cases)


def _reasons_of_server(case: Case, topology: Topology) -> Iterator[str]:
    """Yield why the app of a case's server cannot serve its requests."""
    if case.kind == "http" and (topology.command is None) == bool(case.paths):
        yield (
            f"case {case.name!r} has `paths`, which need your own app: give its `command` in [topology]"
            if case.paths
            else f"case {case.name!r} needs `paths` in place of `service_time` or `routes`: your own app (`command`)"
            " serves no service times of the lab"
        )
    if case.kind != "http" and topology.command is not None:
        yield f"case {case.name!r} is of the kind {case.kind}, which cannot have a `command`"
    if any(route.body or route.after for route in case.routes) and topology.server not in STREAMING:
        yield f"case {case.name!r} has routes with a `body` or `after`, which server {topology.server} cannot have"
    if any(route.cpu for route in case.routes) and topology.server not in PYTHON:
        yield (
            f"case {case.name!r} has routes with `cpu`, which the app of server {topology.server} cannot use:"
            f" use {' or '.join(PYTHON)}"
        )


def _reasons_of_namespace(case: Case, topology: Topology) -> Iterator[str]:
    """Yield why a case needs a namespace and has none, or cannot run in the one it has."""
    half_open = sum(action.count or 0 for action in case.actions) * (topology.backends + topology.standby)
    if topology.namespace is None:
        if half_open:
            yield f"case {case.name!r} begins half-open connections: it needs a `namespace`"
        return
    if case.kind != "http":
        yield f"case {case.name!r} is of the kind {case.kind}, which cannot have a `namespace`"
    if half_open > MOST_HALF_OPEN:
        yield f"case {case.name!r} begins {half_open} half-open connections, more than {MOST_HALF_OPEN}"
