"""What is measured: nginx, the app servers behind it, and the order in which those take requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from sojourn_lab.load import NotNegative, Positive, scaled_seconds

Server = Literal["gunicorn", "unicorn", "queue"]
Balancer = Literal["round_robin", "least_conn", "random_two"]
Discipline = Literal["fifo", "lifo", "adaptive_lifo", "codel", "deadline"]

Backends = Annotated[int, msgspec.Meta(ge=1, le=64)]
Workers = Annotated[int, msgspec.Meta(ge=1, le=64)]
Backlog = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class QueueRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the disciplines, and the waiting places, of the server `queue`; times in seconds."""

    deadline_margin: NotNegative = 0.0
    codel_target: Positive = 0.005
    codel_interval: Positive = 0.1
    lifo_threshold: Annotated[int, msgspec.Meta(ge=0)] = 10
    capacity: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """nginx with one worker in front of `backends` app servers; times in seconds.

    `server`: gunicorn and unicorn take connections from the kernel's accept queue, first in, first out; `queue` is the
    lab's own, which accepts at once and takes requests by a `discipline`. It has no `worker_timeout`: a thread cannot
    be killed.
    """

    backends: Backends = 2
    server: Server = "gunicorn"
    workers: Workers = 1
    backlog: Backlog = 64
    worker_timeout: Positive = 60.0
    proxy_read_timeout: Positive = 60.0
    balancer: Balancer = "round_robin"
    discipline: Discipline = "fifo"
    rules: QueueRules = QueueRules()

    def __post_init__(self) -> None:
        if self.server != "queue" and (self.discipline != "fifo" or self.rules != QueueRules()):
            raise ValueError(
                f"{self.server} takes connections from the kernel, first in, first out: "
                'a discipline and rules need server = "queue"'
            )


class TopologyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is different for one case; None: as in the scenario's topology."""

    backends: Backends | None = None
    server: Server | None = None
    workers: Workers | None = None
    backlog: Backlog | None = None
    balancer: Balancer | None = None
    discipline: Discipline | None = None
    rules: QueueRules | None = None

    def made(self, topology: Topology) -> Topology:
        """Return the topology with this change; ValueError where the two do not go together."""
        told: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        return changed(topology, **{name: value for name, value in told.items() if value is not None})


def changed(topology: Topology, **values: Any) -> Topology:
    """Return the topology with other values; ValueError where they do not go together."""
    fields = {name: getattr(topology, name) for name in topology.__struct_fields__}
    return Topology(**{**fields, **values})


def topology_with_time_scaled(topology: Topology, scale: float) -> Topology:
    """Return the topology with every duration multiplied by `scale`."""
    return changed(
        topology,
        worker_timeout=scaled_seconds(topology.worker_timeout, scale),
        proxy_read_timeout=scaled_seconds(topology.proxy_read_timeout, scale),
        rules=_scaled_rules(topology.rules, scale),
    )


def change_with_time_scaled(change: TopologyChange, scale: float) -> TopologyChange:
    """Return the change with every duration multiplied by `scale`."""
    rules = change.rules
    return change if rules is None else msgspec.structs.replace(change, rules=_scaled_rules(rules, scale))


def _scaled_rules(rules: QueueRules, scale: float) -> QueueRules:
    if rules == QueueRules():
        return rules  # nobody asked for a discipline that has any
    return msgspec.structs.replace(
        rules,
        deadline_margin=scaled_seconds(rules.deadline_margin, scale),
        codel_target=scaled_seconds(rules.codel_target, scale),
        codel_interval=scaled_seconds(rules.codel_interval, scale),
    )
