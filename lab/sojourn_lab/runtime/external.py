"""Offer a scenario's load to a given URL, within limits, and measure at the clients.

The lab starts no server and knows nothing of the system behind the URL, so there is no split, no law and no article
with the figures. The limits are low, hold for every host including this machine, and are raised only by options: a
scenario that exceeds one is refused before its first request.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.load.plan import Plan
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.lifecycle import Lifecycle
from sojourn_lab.runtime.runtime import AppServer, RuntimeMaker
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
    """Limits of the load: requests a second, users of a closed loop, total seconds of load."""

    rate: float = 5.0
    concurrency: int = 4
    duration: float = 60.0


@dataclass(frozen=True)
class Target:
    """A URL: `base` (scheme and host), and the `path` with query to request; None for the lab's app."""

    base: str
    path: str | None
    limits: Limits

    @property
    def without_query(self) -> str:
        """The URL for the records, without its query, which may hold a key."""
        return self.base + (self.path or "").partition("?")[0]


def target_from_options(
    url: str | None, *, limits: Mapping[str, float | None], lab_app: bool, starts: bool
) -> Target | None:
    """Return the target of a command's options, None without a URL.

    Args:
        url: of `--url`.
        limits: options by the names of `Limits`; None for those not set.
        lab_app: whether the lab's app is behind the URL.
        starts: whether other options say which servers the lab starts.

    Raises:
        ScenarioError: options that do not go together.
    """
    limited = {key: value for key, value in limits.items() if value is not None}
    if url is None:
        if limited or lab_app:
            raise ScenarioError("--lab-app and the limits --max-… need --url")
        return None
    if starts:
        raise ScenarioError("--server, --runtime, --capture select what the lab starts; with --url it starts nothing")
    allowed = Limits(
        rate=limited.get("rate", Limits.rate),
        concurrency=int(limited.get("concurrency", Limits.concurrency)),
        duration=limited.get("duration", Limits.duration),
    )
    return target_of(url, allowed, lab_app=lab_app)


def target_of(url: str, limits: Limits, *, lab_app: bool = False) -> Target:
    """Return the target of a URL; ScenarioError if it is invalid or holds a password."""
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
    """Return the part of a scenario that can run against a target; ScenarioError if it cannot run.

    Criteria, contrasts, predictions and analyses that need data of nginx or the app are left out; `learned` names
    every one.
    """
    _refuse_unless_plain(scenario)
    _refuse_beyond(scenario, target.limits)
    criteria = [each for each in scenario.criteria if _needs_only_clients(each, scenario.contrasts)]
    contrasts = [each for each in scenario.contrasts if _is_of_clients(each.metric)]
    left_out = [f"criterion: {each.name}" for each in scenario.criteria if each not in criteria]
    left_out += [f"contrast: {each.name}" for each in scenario.contrasts if each not in contrasts]
    left_out += [f"prediction: {each.change}" for each in scenario.predictions]
    left_out += [f"analysis: {each}" for each in scenario.analyses]
    answered = Criterion("the URL answered", "client.answered", above=0.0)
    cases = scenario.cases if target.path is None else [_without_service_time(case) for case in scenario.cases]
    columns = [
        msgspec.structs.replace(each, reference=None) for each in scenario.columns if _is_of_clients(each.metric)
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
        columns=[msgspec.structs.replace(each, reference=None) for each in columns] or COLUMNS,
        reference=[],
        reference_note="",
        learned=_external_note(target, left_out),
    )


def _refuse_unless_plain(scenario: Scenario) -> None:
    for case in scenario.cases:
        where = f"{scenario.name}: the case {case.name}"
        if case.load is None:
            raise ScenarioError(f"{where} is of the kind {case.kind}: only loads of requests can be offered to a URL")
        if case.actions or case.topology != TopologyChange():
            what = "acts on the servers" if case.actions else "needs servers of another topology"
            raise ScenarioError(f"{where} {what}, and the lab cannot change the servers behind a URL")
        if case.dependency or any(route.dependency for route in case.routes):
            raise ScenarioError(f"{where} needs a tier behind the app, which only the lab's own app has")
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
    """Return the case without service times, which a foreign URL does not accept."""
    load = case.load
    if isinstance(load, InstantsLoad):
        load = msgspec.structs.replace(load, service_times=None, routes=None)
    return msgspec.structs.replace(case, load=load, service_time=0.0, distribution="constant", routes=[])


def _is_of_clients(path: str) -> bool:
    return path.rpartition(":")[2].startswith(CLIENT_METRICS)


def _needs_only_clients(criterion: Criterion, contrasts: Sequence[Contrast]) -> bool:
    """Return whether a criterion can be evaluated from measurements at the clients alone."""
    if criterion.predictions is not None:
        return False
    if criterion.contrasts is not None:
        meant = [each for each in contrasts if fnmatchcase(each.name, criterion.contrasts)]
        return bool(meant) and all(_is_of_clients(each.metric) for each in meant)
    bounds = (criterion.metric, criterion.below, criterion.above, criterion.equals, criterion.of)
    return all(_is_of_clients(each) for each in bounds if isinstance(each, str))


def _external_note(target: Target, left_out: Sequence[str]) -> str:
    """Return the paragraph for the report; braces are reserved for figures, so those of a URL are replaced."""
    requests = "its /sleep/… paths" if target.path is None else "exactly that"
    text = (
        f"Measured at the clients alone, against {target.without_query} ({requests}): its servers write no log here, so"
        f" there is no split. Limits: {target.limits.rate:g} requests a second, {target.limits.concurrency} users,"
        f" {target.limits.duration:g} s."
    )
    omitted = f" Left out, because they need data of nginx or the app: {'; '.join(left_out)}." if left_out else ""
    return (text + omitted).replace("{", "(").replace("}", ")")


class ExternalRuntime(Lifecycle):
    """A context in which only the generator runs; `url` is the target, which the lab does not control."""

    kind: Literal["external"] = "external"

    def __init__(self, target: Target, logs: Path, interrupts: Interrupts) -> None:
        super().__init__(logs, interrupts)
        self._target = target
        self.versions = dict(NO_PART)

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
            path=self._target.path,
            warmup=warmup,
            max_in_flight=max(OPEN_CONNECTIONS, limits.concurrency),
            most_a_second=limits.rate / attempts,
        )

    def settle(self, deadline: float) -> None:
        """Return at once: the target's queue is unknown."""

    def perform(self, action: Action) -> None:
        """Raise LabError: the lab cannot change the servers behind a URL."""
        raise LabError(f"{action.do}: the lab cannot change the servers behind a URL")


def external_runtime(target: Target) -> RuntimeMaker:
    """Return the factory of the runtime of a target."""

    def make(
        topology: Topology, folder: Path, logs: Path, interrupts: Interrupts, *, nginx_in: Path | None = None
    ) -> ExternalRuntime:
        del topology, folder, nginx_in  # no server is started
        return ExternalRuntime(target, logs, interrupts)

    return make
