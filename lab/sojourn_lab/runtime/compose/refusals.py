"""Refuse what cannot run in containers before anything is started."""

from __future__ import annotations

from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology


def why_not_in_containers(scenario: Scenario) -> str | None:
    """Return why this scenario cannot run with `--runtime compose`, and a remedy; None if it can."""
    if scenario.capture:
        return (
            f"{scenario.name}: packets can be captured only of processes of this machine; for containers use "
            "`docker compose --profile capture`"
        )
    for case in scenario.cases:
        if case.kind == "pipeline":
            return (
                f"{scenario.name}: pipeline cases need the embedded engine and Vector, which are in no lab image; "
                "run it without --runtime compose"
            )
        if case.kind != "http":
            return (
                f"{scenario.name}: {case.kind} cases start their own servers, which run as processes only; "
                f"`docker compose run --rm lab run {scenario.name}` runs everything in one container"
            )
        if (reason := why_topology_refused(scenario.topology_of(case))) is not None:
            return f"{scenario.name}: {reason}; run it without --runtime compose"
    return None


def why_topology_refused(topology: Topology) -> str | None:
    """Return which part of a topology has no container; None if each has one."""
    if topology.command is not None:
        return "a `command` starts your own app as processes of this machine"
    own = topology.worker_log or topology.masters > 1 or topology.limit is not None or topology.loading > 0
    refusals = {
        f"no image of the lab contains {topology.server} (gunicorn and queue are available)": topology.server
        not in ("gunicorn", "queue"),
        "containers communicate over ports, not Unix sockets": topology.unix,
        "every container already has its own network namespace, and no permission to change its sysctls": (
            topology.namespace is not None
        ),
        "the containers' nginx writes no plain.log": topology.plain_log,
        "`worker_log`, `masters`, `limit` and `loading` are for processes of this machine": own,
        "gunicorn binds its own socket in a container, and has no setting for TCP_DEFER_ACCEPT": (
            topology.defer_accept is not None
        ),
    }
    return next((reason for reason, refused in refusals.items() if refused), None)
