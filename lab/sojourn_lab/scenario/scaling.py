"""Scale the durations of a scenario."""

from __future__ import annotations

import msgspec

from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.experiment_settings import OTHER_KINDS
from sojourn_lab.scenario.load import Route, load_with_time_scaled, retries_with_time_scaled, scaled_seconds
from sojourn_lab.scenario.schema import Reference, Scenario
from sojourn_lab.scenario.topology import change_with_time_scaled, topology_with_time_scaled


def scenario_with_time_scaled(scenario: Scenario, scale: float) -> Scenario:
    """Return the scenario with every duration multiplied by `scale` and every rate divided by it.

    Scaled: service times, think times, instants, duration, warm-up, every timeout, and the reference figures. Not
    scaled: numbers in criteria, and costs of the machine (a connect, a fork, a context switch), which therefore have a
    larger share in a short run.
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
            body=scaled_seconds(route.body, scale),
            after=scaled_seconds(route.after, scale),
        )

    others = {
        kind: settings.with_time_scaled(scale) for kind in OTHER_KINDS if (settings := getattr(case, kind)) is not None
    }
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
        autoscale=None if case.autoscale is None else case.autoscale.with_time_scaled(scale),
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
