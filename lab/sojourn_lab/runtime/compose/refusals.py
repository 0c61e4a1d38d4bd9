"""What cannot be run in containers of its own, said before anything is started."""

from __future__ import annotations

from sojourn_lab.scenario.schema import Scenario
from sojourn_lab.scenario.topology import Topology


def why_not_in_containers(scenario: Scenario) -> str | None:
    """Return why this scenario cannot be run by `--runtime compose`, and what can be done; None when it can."""
    if scenario.capture:
        return (
            f"{scenario.name}: packets are captured where the parts are processes of this machine; in containers "
            "`docker compose --profile capture` does it"
        )
    for case in scenario.cases:
        if case.kind == "pipeline":
            return (
                f"{scenario.name}: pipeline cases use the embedded engine and Vector, which are in no image here; "
                "run it without --runtime compose"
            )
        if case.kind != "http":
            return (
                f"{scenario.name}: {case.kind} cases bring servers of their own, which run as processes only; "
                f"`docker compose run --rm lab run {scenario.name}` runs all of it inside one container"
            )
        if (reason := why_topology_refused(scenario.topology_of(case))) is not None:
            return f"{scenario.name}: {reason}; run it without --runtime compose"
    return None


def why_topology_refused(topology: Topology) -> str | None:
    """Return which part of a topology has no container yet; None when each has one."""
    if topology.server not in ("gunicorn", "queue"):
        return f"{topology.server} is in no image here (gunicorn and queue are)"
    if topology.unix:
        return "containers reach each other by ports, and not by Unix sockets"
    if topology.namespace is not None:
        return "every container has a network namespace of its own already, and no right to change its sysctls"
    if topology.defer_accept is not None:
        return "gunicorn makes its own socket in a container, and has no setting for TCP_DEFER_ACCEPT"
    return None
