"""The scenario file: one TOML file says what is run, how long, and what counts as success.

Decoding is strict. An unknown key, a wrong type or a value out of range is refused
with the path of the key, so that a misspelt setting can never be silently ignored.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from sojourn_lab.scenario.case import MOST_HALF_OPEN, Case
from sojourn_lab.scenario.load import MAX_REQUESTS, Name, NotNegative, Positive, Retries, expected_requests
from sojourn_lab.scenario.topology import Topology

Article = Literal["000", "001", "002", "003", "004", ""]
"""Which of the articles a scenario repeats (`articles.py` says what they are); empty: none of them."""

AnalysisName = Literal[
    "accept_queue",
    "balance",
    "capacity",
    "dark_reads",
    "goodput",
    "ports",
    "reconciliation",
    "recovery",
    "routes",
    "tiers",
    "wire",
]
PictureName = Literal["sequence", "queue"]

LEAST_ROUNDS = 3
"""Rounds of the cases that a criterion compares. Machines change from one minute to the next: the median of three
rounds does not follow the one in which something else was going on, and an interval needs three."""


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

    The ratio is the median over the rounds, those of one round being paired, the interval that of its geometric mean;
    it needs three rounds.
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
    and is multiplied by `times`. Of a case that is repeated the median counts, and cases that a criterion compares are
    measured at least three times. Numbers are taken as they are; a path to the law moves with `--scale`.
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

    def other_cases(self) -> set[str]:
        """Return the cases that its metric or its bound names: those of the form `case:path`."""
        paths = (self.metric, self.below, self.above, self.equals, self.of)
        return {each.partition(":")[0] for each in paths if isinstance(each, str) and ":" in each}


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
    becomes a figure of the run (forms: ms, s, %, count, and Python's own). `capture`: the packets of nginx and the app
    servers are recorded. With it, or in a `namespace`, the kernel is asked for its queues every `kernel_period`
    seconds, whatever the scale. `repeat_scale`: a void run is repeated once with every duration multiplied by it, which
    is a lower load; 1 is the same load.
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
        names = [case.name for case in self.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cases are named {twice[0]!r}: put what differs into the name, as {{key}}")
        for case in self.cases:
            _check_namespace(case, self.topology_of(case))
            if case.load is None:
                continue
            requests = expected_requests(case.load, self.warmup, self.duration_of(case))
            if requests is not None and requests > MAX_REQUESTS:
                raise ValueError(f"case {case.name!r} asks for {requests:.0f} requests, more than {MAX_REQUESTS}")
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

    def compared_cases(self) -> set[str]:
        """Return the names of the cases that a criterion holds against another case, by itself or by a contrast."""
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
        """Return how often the case is measured: `repeats`, and at least three times where it is compared."""
        return max(self.repeats, LEAST_ROUNDS) if case.name in self.compared_cases() else self.repeats

    def name_in(self, case: Case, turn: int) -> str:
        """Return what the log calls a case in the round `turn`, from 1."""
        return f"{case.name}.r{turn}" if self.rounds_of(case) > 1 else case.name

    def duration_of(self, case: Case) -> float:
        """How long the case is measured, s."""
        return self.duration if case.duration is None else case.duration

    def timeout_of(self, case: Case) -> float:
        """How long the clients of the case wait, s."""
        return self.timeout if case.timeout is None else case.timeout

    def topology_of(self, case: Case) -> Topology:
        """What the case is measured on."""
        return case.topology.applied_to(self.topology)


def needs_namespace(scenario: Scenario) -> bool:
    """Return whether any case runs in a network namespace of its own."""
    return any(scenario.topology_of(case).namespace is not None for case in scenario.cases)


def _check_namespace(case: Case, topology: Topology) -> None:
    """Raise ValueError for what a case cannot do in its namespace, or not without one."""
    half_open = sum(action.count or 0 for action in case.actions) * (topology.backends + topology.standby)
    if topology.namespace is None:
        if half_open:
            raise ValueError(f"case {case.name!r} begins half-open connections: that needs a `namespace` of its own")
        return
    if case.kind != "http":
        raise ValueError(f"case {case.name!r} is of the kind {case.kind}, which knows no `namespace`")
    if half_open > MOST_HALF_OPEN:
        raise ValueError(f"case {case.name!r} begins {half_open} half-open connections, more than {MOST_HALF_OPEN}")
