"""Parts of a topology: the limits of its numbers, pools, tiers beside and behind the app, network namespaces."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sojourn_lab.scenario.load import Name, NotNegative, Positive, RouteName

Backends = Annotated[int, msgspec.Meta(ge=1, le=64)]
Workers = Annotated[int, msgspec.Meta(ge=1, le=64)]
Backlog = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
DeferAccept = Annotated[int, msgspec.Meta(ge=1, le=60)]
Threads = Annotated[int, msgspec.Meta(ge=1, le=64)]
Keepalive = Annotated[int, msgspec.Meta(ge=1, le=1_024)]
Masters = Annotated[int, msgspec.Meta(ge=1, le=16)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
Count = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Connections = Annotated[int, msgspec.Meta(ge=1, le=1_024)]
Retransmissions = Annotated[int, msgspec.Meta(ge=1, le=15)]


class QueueRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of the disciplines, and the waiting places, of the server `queue`; times in seconds."""

    deadline_margin: NotNegative = 0.0
    codel_target: Positive = 0.005
    codel_interval: Positive = 0.1
    lifo_threshold: Annotated[int, msgspec.Meta(ge=0)] = 10
    calm_timeout: Positive = 0.1
    busy_timeout: Positive = 0.005
    capacity: Annotated[int, msgspec.Meta(ge=0)] | None = None


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Separate app servers for some routes, of the same kind as the others."""

    name: Name
    routes: Annotated[list[RouteName], msgspec.Meta(min_length=1)]
    backends: Backends = 1
    workers: Workers = 1


class Dependency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tier behind the app that all app servers share: its servers do the `dependency` work of the requests.

    `lock`: its workers hold one common lock while they work, so that only one works at a time. `slowdown`: a factor on
    the time that its work takes.
    """

    backends: Backends = 1
    workers: Workers = 1
    backlog: Backlog = 64
    lock: bool = False
    slowdown: Positive = 1.0


class Mirror(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Dark reads: nginx sends copies of `percent` of the requests to separate app servers and drops the answers.

    `slowdown` multiplies the service time of the copies; `differs`: the share of copies that get another answer.
    """

    percent: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)]
    backends: Backends = 1
    workers: Workers = 1
    slowdown: Positive = 1.0
    differs: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0


class Namespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A network namespace for the run and its sysctls, by their last names; None: the kernel's default.

    None of them changes with `--scale`: the kernel's timers for a SYN are independent of service times.
    """

    somaxconn: Annotated[int, msgspec.Meta(ge=1, le=65_535)] | None = None
    tcp_abort_on_overflow: Literal[0, 1] | None = None
    tcp_max_syn_backlog: Count | None = None
    tcp_syn_linear_timeouts: Annotated[int, msgspec.Meta(ge=0, le=127)] | None = None
    tcp_syn_retries: Retransmissions | None = None
    tcp_synack_retries: Retransmissions | None = None
    tcp_syncookies: Literal[0, 1, 2] | None = None

    @property
    def sysctls(self) -> dict[str, int]:
        """The sysctls that are set, by their last names."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
