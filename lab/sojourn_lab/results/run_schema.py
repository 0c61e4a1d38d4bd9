"""run.json: the scenario of a run, its results, and whether they are valid.

Durations are in seconds and instants in ISO 8601 UTC, as everywhere in the toolkit's JSON.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import Summary
from sojourn_lab.measure.disturbance import Disturbance
from sojourn_lab.results.app_times import AppTimes
from sojourn_lab.scenario.laws import Law
from sojourn_lab.scenario.load import AnyLoad
from sojourn_lab.scenario.schema import Reference, Scenario
from sojourn_lab.scenario.topology import Topology

FORMAT = 2


class WindowTimes(msgspec.Struct):
    """The measured window of a case, after its warm-up; ISO 8601 UTC."""

    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")


class ListenDepth(msgspec.Struct):
    """The largest depth of an accept queue in the window, and its limit."""

    socket: str
    deepest: int
    limit: int
    samples: int


class CaseResult(msgspec.Struct):
    """One case of one round: its configuration, the client's summary, and the split of its window.

    `name` is its name in the log, `base` the scenario's case and `round` the number of the repetition, from 1. `split`
    is the JSON of `sojourn split --json`; None where the case has no log, or if the split failed, with the reason in
    the run's faults. `figures` has the results of the scenario's `analyses`, or of an experiment of another kind;
    `client` and `load` are None for the latter. `void`: why the figures are not valid; `disturbance`: the CPU time that
    other programs took from the servers, None for a case that was skipped. `app_times`: whether the user's own app
    reports its times; None for the lab's app, which does.
    """

    name: str
    service_time: float
    load: AnyLoad | None
    warmup: float
    duration: float
    window: WindowTimes
    client: Summary | None
    listen: list[ListenDepth]
    law: Law | None = None
    reference: Reference | None = None
    split: dict[str, Any] | None = None
    topology: Topology | None = None
    base: str = ""
    round: int = 1
    figures: dict[str, Any] = {}
    void: list[str] = []
    disturbance: Disturbance | None = None
    app_times: AppTimes | None = None


class ContrastResult(msgspec.Struct):
    """A figure of two cases compared over the rounds.

    `a` and `b` are medians, `ratio` the median of a / b over the rounds, `low` and `high` the 95 % interval of its
    geometric mean (Student's t of the logarithms), None with fewer than three rounds or where a figure is not above 0.
    `skipped`: why one of the cases was not measured; empty when both were.
    """

    name: str
    metric: str
    a: float | None
    b: float | None
    ratio: float | None
    low: float | None
    high: float | None
    rounds: int
    skipped: str = ""


class Predicted(msgspec.Struct):
    """One figure of the response time, s: measured before, predicted for the change, measured after it.

    `error` is predicted / after - 1, `moved` is after / before - 1; `interval` the prediction's own
    confidence interval, where it has one.
    """

    before: float | None = None
    predicted: float | None = None
    after: float | None = None
    error: float | None = None
    moved: float | None = None
    interval: list[float] | None = None


class PredictionResult(msgspec.Struct):
    """A change that was predicted from the log of one case and made in another.

    The figures are over the whole of both cases, warm-up included: they got the same requests, and both began with
    empty queues. `replay` is the relative error of the replay without a change against the measurement (`mean`, `p99`).
    `refused`: why nothing was predicted. `largest_error`: of the mean and p99, without its sign; 0 if nothing was
    predicted.
    """

    change: str
    before: str
    after: str
    set: dict[str, str | int | float]
    mean: Predicted
    p50: Predicted
    p99: Predicted
    replay: dict[str, float | None]
    refused: str | None = None
    largest_error: float = 0.0


class CriterionResult(msgspec.Struct):
    """One criterion in one case, prediction (by its change) or contrast; failed if `value` is None (not measured).

    `note`: what the value is, or why it is missing, where the user's own app does not report its times.
    """

    name: str
    case: str
    metric: str
    bound: str
    value: float | None
    passed: bool
    note: str = ""


class Captured(msgspec.Struct):
    """A capture: its files in the run's folder, packets in them, packets that passed the filter, dropped packets.

    On the loopback each packet passes the filter twice and is in the file once.
    """

    files: list[str]
    captured: int
    received: int
    dropped: int


class TargetLog(msgspec.Struct):
    """What the log of the nginx in front of `--url` has of a run.

    Attributes:
        path: of the log.
        lines: appended during the run, by any client.
        requests: of these, the requests of the run.
        answered: by the client's log, warm-up included.
        by: how the run's requests are recognised: `request_id`, or `time`: by their instant and path, so that requests
            of others to the same paths are among them.
    """

    path: str
    lines: int
    requests: int
    answered: int
    by: Literal["request_id", "time"]


class Rows(msgspec.Struct):
    """The number of lines of each file of the run, warm-up included."""

    client: int
    access: int
    spans: int


class Run(msgspec.Struct):
    """A whole run, as run.json holds it.

    `void`: the generator was the bottleneck or the servers were disturbed, so the figures do not describe the system;
    `advice` says what to do. `first_try`: why a first run was void, of which this is the repetition. `faults`: failures
    after the measurement, such as that of a split. `passed`: not void, no faults, and every criterion met. `changes`:
    settings that differ from the scenario's file. `log`: what the log of the nginx in front of `--url` has of the run.
    """

    scenario: Scenario
    scale: float
    started: str
    finished: str
    spin_up: float
    tear_down: float
    versions: dict[str, str]
    cases: list[CaseResult]
    criteria: list[CriterionResult]
    rows: Rows
    learned: list[str]
    void: bool
    void_reasons: list[str]
    faults: list[str]
    passed: bool
    predictions: list[PredictionResult] = []
    contrasts: list[ContrastResult] = []
    changes: dict[str, Any] = {}
    captures: list[Captured] = []
    runtime: Literal["process", "compose", "external"] = "process"
    advice: str = ""
    log: TargetLog | None = None
    first_try: list[str] = []
    format: int = FORMAT

    @property
    def passed_but_void(self) -> bool:
        """Whether the run is void and would have passed otherwise."""
        return self.void and not self.faults and all(each.passed for each in self.criteria)


def iso_time(unix: float) -> str:
    """Return unix seconds as ISO 8601 UTC with microseconds."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_between(first: str, second: str) -> float:
    """Return the seconds from one ISO 8601 instant to another."""
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds()


def run_bytes(run: Run) -> bytes:
    """Return run.json's content, indented for people."""
    return msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n"


def run_in(folder: Path) -> Run:
    """Return the run in a folder (or of a run.json); LabError if it cannot be read."""
    path = folder / "run.json" if folder.is_dir() else folder
    if folder.name.endswith(".partial"):
        raise LabError(f"{folder}: the run was never finished; its folder has logs, but no run.json")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path} is not the record of a run: {error}") from None
