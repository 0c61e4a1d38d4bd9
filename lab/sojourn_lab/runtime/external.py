"""Offer a scenario's load to URLs, within limits, and measure at the clients, and in the log of the nginx in front.

The lab starts no server and knows nothing of the system behind the URLs, so there is no law and no article with the
figures, and without a log no split. The limits are low, hold for every host including this machine, and are raised
only by options: a scenario that exceeds one is refused before its first request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec
from sojourn.model.formatting import listed

from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.load.plan import Plan
from sojourn_lab.runtime.growing_log import GrowingLog
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.runtime import AppServer, RuntimeMaker
from sojourn_lab.runtime.target import Limits, Targets
from sojourn_lab.scenario.case import Action, Case
from sojourn_lab.scenario.load import (
    AnyLoad,
    ClosedLoad,
    ConstantLoad,
    DiurnalLoad,
    InstantsLoad,
    PoissonLoad,
    RampLoad,
    StepsLoad,
)
from sojourn_lab.scenario.schema import Column, Contrast, Criterion, Scenario
from sojourn_lab.scenario.topology import Topology, TopologyChange

OPEN_CONNECTIONS = 100
"""Requests that an open load may have in flight at the URL; those beyond are dropped, and make the run void."""

CLIENT_METRICS = ("client.", "void")
"""Prefixes of the metrics that clients can measure."""
LOG_METRICS = (*CLIENT_METRICS, "split.")
"""Prefixes of the metrics that clients and the log of the nginx in front of the URLs can measure."""

COLUMNS = [
    Column("requests", "client.offered", "count"),
    Column("failed", "client.failed", "count"),
    Column("per second", "client.achieved_rate", "number"),
    Column("response", "client.latency.corrected.mean", "ms"),
    Column("p50", "client.latency.corrected.p50", "ms"),
    Column("p90", "client.latency.corrected.p90", "ms"),
    Column("p99", "client.latency.corrected.p99", "ms"),
]
LOG_COLUMNS = [
    Column("at nginx", "split.response_time.mean", "ms"),
    Column("at nginx p99", "split.response_time.p99", "ms"),
    Column("queueing", "split.components.queueing_delay.mean", "ms"),
    Column("service", "split.components.service_time.mean", "ms"),
]
"""What the log adds to the columns of the clients."""

NO_PART = dict.fromkeys(("nginx", "njs", "gunicorn", "sojourn-middleware"), "took no part")


def external_scenario(scenario: Scenario, target: Targets) -> Scenario:
    """Return the part of a scenario that can run against targets; ScenarioError if it cannot run.

    Criteria, contrasts, predictions and analyses that need data of nginx or the app are left out; `learned` names
    every one.
    """
    _refuse_unless_plain(scenario, target)
    _refuse_beyond(scenario, target.limits)
    measured = CLIENT_METRICS if target.log is None else LOG_METRICS
    criteria = [each for each in scenario.criteria if _needs_only(measured, each, scenario.contrasts)]
    contrasts = [each for each in scenario.contrasts if _is_of(measured, each.metric)]
    left_out = [f"criterion: {each.name}" for each in scenario.criteria if each not in criteria]
    left_out += [f"contrast: {each.name}" for each in scenario.contrasts if each not in contrasts]
    left_out += [f"prediction: {each.change}" for each in scenario.predictions]
    left_out += [f"analysis: {each}" for each in scenario.analyses]
    answered = Criterion("the URL answered", "client.answered", above=0.0)
    cases = scenario.cases if target.lab_app else [_without_service_time(case) for case in scenario.cases]
    columns = [
        msgspec.structs.replace(each, reference=None) for each in scenario.columns if _is_of(measured, each.metric)
    ]
    return msgspec.structs.replace(
        scenario,
        cases=cases,
        criteria=[*criteria, answered],
        contrasts=contrasts,
        predictions=[],
        analyses=[],
        capture=False,
        pictures=[],
        columns=columns or (COLUMNS if target.log is None else [*COLUMNS, *LOG_COLUMNS]),
        # The servers of the scenario are not started: with a command of its own, its cases would need their paths.
        topology=Topology(),
        reference=[],
        reference_note="",
        learned=_external_note(target, left_out),
    )


def _refuse_unless_plain(scenario: Scenario, target: Targets) -> None:
    for case in scenario.cases:
        where = f"{scenario.name}: the case {case.name}"
        if case.load is None:
            raise ScenarioError(f"{where} is of the kind {case.kind}: only loads of requests can be offered to a URL")
        if case.actions or case.topology != TopologyChange():
            what = "acts on the servers" if case.actions else "needs servers of another topology"
            raise ScenarioError(f"{where} {what}, and the lab cannot change the servers behind a URL")
        if case.dependency or any(route.dependency for route in case.routes):
            raise ScenarioError(f"{where} needs a tier behind the app, which only the lab's own app has")
        if case.paths and target.lab_app:
            raise ScenarioError(f"{where} has `paths`, which the lab's app does not serve: leave out --lab-app")
        if case.generator != "own":
            raise ScenarioError(f"{where} is offered by {case.generator}, which does not support the limits")


def _refuse_beyond(scenario: Scenario, limits: Limits) -> None:
    for case in scenario.cases:
        if isinstance(case.load, ClosedLoad):
            if case.load.concurrency > limits.concurrency:
                raise ScenarioError(
                    f"{scenario.name}: the case {case.name} has {case.load.concurrency} users, more than"
                    f" {limits.concurrency}: --max-concurrency {case.load.concurrency} allows it"
                )
        elif case.load is not None and (rate := peak_rate(case.load) * _attempts(scenario, case)) > limits.rate:
            raise ScenarioError(
                f"{scenario.name}: the case {case.name} sends up to {rate:.4g} requests/s, more than"
                f" {limits.rate:g}: --max-rate {rate:.4g} allows it"
            )
    seconds = sum(scenario.rounds_of(case) * (scenario.warmup + scenario.duration_of(case)) for case in scenario.cases)
    if seconds > limits.duration:
        raise ScenarioError(
            f"{scenario.name} offers load for {seconds:g} s in all, more than {limits.duration:g}:"
            f" --max-duration {seconds:g} allows it, --duration and --quick shorten it"
        )


def peak_rate(load: AnyLoad) -> float:
    """Return the largest rate of an open load, 1/s: that of its schedule, or the most instants within a second."""
    match load:
        case PoissonLoad() | ConstantLoad():
            return load.rate
        case RampLoad():
            return max(load.from_rate, load.to_rate)
        case StepsLoad():
            return max(load.rates)
        case DiurnalLoad():
            return load.high
        case InstantsLoad():
            return float(max(bisect_left(load.at, at + 1.0) - number for number, at in enumerate(load.at)))
        case ClosedLoad():
            raise ValueError("a closed loop has no rate of its own")


def _attempts(scenario: Scenario, case: Case) -> int:
    rules = case.retries if case.retries is not None else scenario.retries
    return 1 if rules is None else rules.attempts


def _without_service_time(case: Case) -> Case:
    """Return the case without service times and paths: the URLs take their place."""
    load = case.load
    if isinstance(load, InstantsLoad):
        load = msgspec.structs.replace(load, service_times=None, routes=None)
    return msgspec.structs.replace(case, load=load, service_time=0.0, distribution="constant", routes=[], paths={})


def _is_of(measured: tuple[str, ...], path: str) -> bool:
    return path.rpartition(":")[2].startswith(measured)


def _needs_only(measured: tuple[str, ...], criterion: Criterion, contrasts: Sequence[Contrast]) -> bool:
    """Return whether a criterion can be evaluated from metrics with these prefixes alone."""
    if criterion.predictions is not None:
        return False
    if criterion.contrasts is not None:
        meant = [each for each in contrasts if fnmatchcase(each.name, criterion.contrasts)]
        return bool(meant) and all(_is_of(measured, each.metric) for each in meant)
    bounds = (criterion.metric, criterion.below, criterion.above, criterion.equals, criterion.of)
    return all(_is_of(measured, each) for each in bounds if isinstance(each, str))


def _external_note(target: Targets, left_out: Sequence[str]) -> str:
    """Return the paragraph for the report; braces are reserved for figures, so those of a URL are replaced."""
    requests = "its /sleep/… paths" if target.lab_app else "exactly that"
    where = "at the clients alone" if target.log is None else f"at the clients, and by nginx in {target.log.name}"
    no_log = "" if target.log is not None else ": its servers write no log here, so there is no split"
    text = (
        f"Measured {where}, against {listed(target.names)} ({requests}){no_log}. Limits: {target.limits.rate:g}"
        f" requests a second, {target.limits.concurrency} users, {target.limits.duration:g} s."
    )
    data = "nginx or the app" if target.log is None else "the lab's servers"
    omitted = f" Left out, because they need data of {data}: {'; '.join(left_out)}." if left_out else ""
    return (text + omitted).replace("{", "(").replace("}", ")")


class ExternalRuntime(Lifecycle):
    """A context in which only the generator runs; `url` is the target, which the lab does not control.

    `log`: the log of the nginx in front of it, from where it ends when the context is entered; None: it has none.
    """

    kind: Literal["external"] = "external"

    def __init__(self, target: Targets, logs: Path, interrupts: Interrupts) -> None:
        super().__init__(logs, interrupts)
        self._target = target
        self.versions = dict(NO_PART)
        self.log: GrowingLog | None = None

    def _start_all(self) -> None:
        if self._target.log is not None:
            self.log = GrowingLog(self._target.log)

    @property
    def paths(self) -> set[str]:
        """The paths of the targets, as a log has them."""
        return {each.path.partition("?")[0] for each in self._target.urls}

    @property
    def backends(self) -> Sequence[AppServer]:
        """Empty: the servers of the target are not the lab's."""
        return ()

    @property
    def url(self) -> str:
        """Base URL of the target."""
        return self._target.base

    def planned(self, plan: Plan, warmup: float) -> Plan:
        """Return the plan of a case within the limits of the target; `warmup` of the scenario, s.

        The warm-up of a closed loop is not extended by a law, which would describe another system. Its users share
        the rate.
        """
        limits = self._target.limits
        attempts = 1 if plan.retries is None else plan.retries.attempts
        return msgspec.structs.replace(
            plan,
            targets=self._target.of_plan(),
            cacert=None if self._target.cacert is None else str(self._target.cacert),
            request_ids=self._target.log is not None,
            warmup=warmup,
            max_in_flight=max(OPEN_CONNECTIONS, limits.concurrency),
            most_a_second=limits.rate / attempts,
        )

    def settle(self, deadline: float) -> None:
        """Return at once: the target's queue is unknown."""

    def perform(self, action: Action) -> None:
        """Raise LabError: the lab cannot change the servers behind a URL."""
        raise LabError(f"{action.do}: the lab cannot change the servers behind a URL")


def external_runtime(target: Targets) -> RuntimeMaker:
    """Return the factory of the runtime of targets."""

    def make(
        topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> ExternalRuntime:
        del topology, folder, nginx_in  # no server is started
        return ExternalRuntime(target, logs, interrupts)

    return make
