"""A scenario's load, offered to a URL that somebody names: what the clients see, and within limits.

Nothing is started here and nothing is known of what is behind the URL, so there is no split, no law and no article
beside the figures. The limits are low, hold for every host alike, this machine's own too, and are raised on purpose or
not at all: a scenario that goes beyond one is refused before its first request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec
import numpy as np

from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.load.plan import Plan
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.runtime import AppServer, RuntimeMaker
from sojourn_lab.scenario.case import Action, Case
from sojourn_lab.scenario.load import AnyLoad, ClosedLoad, ConstantLoad, InstantsLoad, PoissonLoad, RampLoad, StepsLoad
from sojourn_lab.scenario.schema import Column, Contrast, Criterion, Scenario
from sojourn_lab.scenario.topology import Topology, TopologyChange

OPEN_CONNECTIONS = 100
"""Requests that an open load may have in flight at the URL; those beyond are dropped, and make the run void."""

SEEN = ("client.", "void")
"""How the paths begin of what clients can tell."""

COLUMNS = [
    Column("requests", "client.offered", "count"),
    Column("failed", "client.failed", "count"),
    Column("per second", "client.achieved_rate", "number"),
    Column("response", "client.latency.corrected.mean", "ms"),
    Column("p50", "client.latency.corrected.p50", "ms"),
    Column("p90", "client.latency.corrected.p90", "ms"),
    Column("p99", "client.latency.corrected.p99", "ms"),
]

NO_PART = dict.fromkeys(("nginx", "njs", "gunicorn", "sojourn-middleware"), "took no part")


@dataclass(frozen=True)
class Limits:
    """What a URL may be asked: requests a second, users of a closed loop, seconds of load in all."""

    rate: float = 5.0
    concurrency: int = 4
    duration: float = 60.0


@dataclass(frozen=True)
class Target:
    """A URL: `base` (scheme and host), and the `path` and query to ask for; None where the lab's app answers there."""

    base: str
    path: str | None
    limits: Limits

    @property
    def shown(self) -> str:
        """The URL as it is recorded: without its query, which may hold a key."""
        return self.base + (self.path or "").partition("?")[0]


def asked_target(url: str | None, *, limits: Mapping[str, float | None], lab_app: bool, starts: bool) -> Target | None:
    """Return what a command asks for, None without a URL; ScenarioError for options that do not go together.

    Args:
        url: as given. lab_app: whether the lab's app is behind it.
        limits: those that were told, by the names of `Limits`.
        starts: whether the command says what the lab should start.
    """
    limited = {key: value for key, value in limits.items() if value is not None}
    if url is None:
        if limited or lab_app:
            raise ScenarioError("--lab-app and the limits --max-… go with --url")
        return None
    if starts:
        raise ScenarioError("--server, --runtime, --capture say what the lab starts; with --url it starts nothing")
    allowed = Limits(
        rate=limited.get("rate", Limits.rate),
        concurrency=int(limited.get("concurrency", Limits.concurrency)),
        duration=limited.get("duration", Limits.duration),
    )
    return target_of(url, allowed, lab_app=lab_app)


def target_of(url: str, limits: Limits, *, lab_app: bool = False) -> Target:
    """Return what a URL names; ScenarioError where it is none, or holds a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ScenarioError(f"--url {url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScenarioError(f"--url {url}: not a URL of the form http://host[:port][/path]")
    if parts.username is not None or parts.password is not None:
        raise ScenarioError("--url: a name and a password would be written into the run's records; leave them out")
    if any(character <= " " or character > "~" for character in url):
        raise ScenarioError("--url: only printable ASCII; write the rest as %XX")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    base = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
    if lab_app:
        return Target(base + parts.path.rstrip("/"), None, limits)
    return Target(base, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), limits)


def external_scenario(scenario: Scenario, target: Target) -> Scenario:
    """Return the scenario as it can be run against a target; ScenarioError if it cannot.

    What only nginx and the app could tell is left out: criteria about it, contrasts, predictions, analyses. Its
    `learned` names every one.
    """
    _refuse_unless_plain(scenario)
    _refuse_beyond(scenario, target.limits)
    left_out = [f"criterion: {each.name}" for each in scenario.criteria if not _kept(each, scenario.contrasts)]
    left_out += [f"contrast: {each.name}" for each in scenario.contrasts if not _seen(each.metric)]
    left_out += [f"prediction: {each.change}" for each in scenario.predictions]
    left_out += [f"analysis: {each}" for each in scenario.analyses]
    answered = Criterion("the URL answered", "client.answered", above=0.0)
    cases = scenario.cases if target.path is None else [_without_service_time(case) for case in scenario.cases]
    columns = [msgspec.structs.replace(each, reference=None) for each in scenario.columns if _seen(each.metric)]
    return msgspec.structs.replace(
        scenario,
        cases=cases,
        criteria=[*(each for each in scenario.criteria if _kept(each, scenario.contrasts)), answered],
        contrasts=[each for each in scenario.contrasts if _seen(each.metric)],
        predictions=[],
        analyses=[],
        capture=False,
        pictures=[],
        columns=columns or COLUMNS,
        reference=[],
        reference_note="",
        learned=_said(target, left_out),
    )


def _refuse_unless_plain(scenario: Scenario) -> None:
    for case in scenario.cases:
        where = f"{scenario.name}: the case {case.name}"
        if case.load is None:
            raise ScenarioError(f"{where} is of the kind {case.kind}: only loads of requests can be offered to a URL")
        if case.actions or case.topology != TopologyChange():
            what = "acts on the servers" if case.actions else "needs servers of another topology"
            raise ScenarioError(f"{where} {what}, and what is behind a URL is not the lab's to change")
        if case.dependency or any(route.dependency for route in case.routes):
            raise ScenarioError(f"{where} asks for work of a tier behind the app, which is the lab's own")
        if case.generator != "own":
            raise ScenarioError(f"{where} is offered by {case.generator}, which does not know the limits")


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
                f"{scenario.name}: the case {case.name} asks up to {rate:.4g} times a second, more than"
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
        case InstantsLoad():
            at = np.asarray(load.at)
            return float((np.searchsorted(at, at + 1.0, side="left") - np.arange(len(at))).max())
        case ClosedLoad():
            raise ValueError("a closed loop has no rate of its own")


def _attempts(scenario: Scenario, case: Case) -> int:
    rules = case.retries if case.retries is not None else scenario.retries
    return 1 if rules is None else rules.attempts


def _without_service_time(case: Case) -> Case:
    """Return the case as somebody else's URL can be asked: how long it takes is not ours to say."""
    load = case.load
    if isinstance(load, InstantsLoad):
        load = msgspec.structs.replace(load, service_times=None, routes=None)
    return msgspec.structs.replace(case, load=load, service_time=0.0, distribution="constant", routes=[])


def _seen(path: str) -> bool:
    return path.rpartition(":")[2].startswith(SEEN)


def _kept(criterion: Criterion, contrasts: Sequence[Contrast]) -> bool:
    """Return whether clients alone can tell that a criterion is kept."""
    if criterion.predictions is not None:
        return False
    if criterion.contrasts is not None:
        meant = [each for each in contrasts if fnmatchcase(each.name, criterion.contrasts)]
        return bool(meant) and all(_seen(each.metric) for each in meant)
    bounds = (criterion.metric, criterion.below, criterion.above, criterion.equals, criterion.of)
    return all(_seen(each) for each in bounds if isinstance(each, str))


def _said(target: Target, left_out: Sequence[str]) -> str:
    """Return the paragraph for the report; braces are places for figures there, and none of a URL's are."""
    requests = "its /sleep/… paths" if target.path is None else "exactly that"
    text = (
        f"Measured at the clients alone, against {target.shown} ({requests}): what is behind it logged nothing here, so"
        f" there is no split. Limits: {target.limits.rate:g} requests a second, {target.limits.concurrency} users,"
        f" {target.limits.duration:g} s."
    )
    left_outs = f" Left out, because only nginx and the app could tell: {'; '.join(left_out)}." if left_out else ""
    return (text + left_outs).replace("{", "(").replace("}", ")")


class ExternalRuntime(Lifecycle):
    """A context in which nothing runs but the generator; `url` is where somebody else answers."""

    kind: Literal["external"] = "external"

    def __init__(self, target: Target, logs: Path, interrupts: Interrupts) -> None:
        super().__init__(logs, interrupts)
        self._target = target
        self.versions = dict(NO_PART)

    @property
    def backends(self) -> Sequence[AppServer]:
        """None: whoever answers is not the lab's."""
        return ()

    @property
    def url(self) -> str:
        """Where somebody else answers."""
        return self._target.base

    def planned(self, plan: Plan, warmup: float) -> Plan:
        """Return the plan of a case as the target may be asked; `warmup` as the scenario has it, s.

        No law makes the warm-up of a closed loop longer: it would be of another system. Its users share the rate.
        """
        limits = self._target.limits
        attempts = 1 if plan.retries is None else plan.retries.attempts
        return msgspec.structs.replace(
            plan,
            path=self._target.path,
            warmup=warmup,
            max_in_flight=max(OPEN_CONNECTIONS, limits.concurrency),
            most_a_second=limits.rate / attempts,
        )

    def settle(self, deadline: float) -> None:
        """Return at once: nobody here knows whether a queue is left there."""

    def perform(self, action: Action) -> None:
        """Refuse: what is behind a URL is not the lab's to change."""
        raise LabError(f"{action.do}: what is behind a URL is not the lab's to change")


def external_runtime(target: Target) -> RuntimeMaker:
    """Return what makes the runtime of a target."""

    def made(
        topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> ExternalRuntime:
        del topology, folder, nginx_in  # nothing of it is started
        return ExternalRuntime(target, logs, interrupts)

    return made
