"""One case of a scenario: a load on a topology, measured by itself."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sojourn_lab.scenario.experiment_settings import OTHER_KINDS, Collector, Grpc, Pipeline, Websocket
from sojourn_lab.scenario.load import AnyLoad, Distribution, InstantsLoad, Name, NotNegative, Positive, Retries, Route
from sojourn_lab.scenario.topology import TopologyChange

MOST_HALF_OPEN = 300
"""Half-open connections that one case may begin, at most."""


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something done to the system `at` seconds after the warm-up of a case; in a longer run later in proportion.

    `add_backend` brings a standby backend into the upstream, `remove_backend` takes the last one out; `mirror` sets
    the `percent` of dark reads, 0 being the kill switch. `half_open` begins `count` connections to every backend that
    nobody will complete; it needs a `namespace` in the topology.
    """

    at: NotNegative
    do: Literal["add_backend", "remove_backend", "mirror", "half_open"]
    percent: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_HALF_OPEN)] | None = None

    def __post_init__(self) -> None:
        if (self.do == "mirror") != (self.percent is not None):
            raise ValueError("`percent` goes with `mirror`")
        if (self.do == "half_open") != (self.count is not None):
            raise ValueError("`count` goes with `half_open`")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load on the topology, measured by itself; `service_time` in seconds.

    Either all requests have one `service_time`, or each draws one of the `routes`. Cases with the same `seed` get the
    same arrivals, routes and service times; without one, every case has its own. `topology` says what is different
    from the scenario's: the servers are then started anew. `dependency`: seconds of work that every request asks of the
    tier behind the app. `timeout` and `retries`: the clients' own, instead of the scenario's.

    `local_ports`: the generator may send from so many ports only. `expect_void`: the case is there to show a generator
    that is the bottleneck; it must be void, and does not make the run void.

    `quick = false`: the short form of the scenario does without this case, and without the criteria that only it meets.

    A case of another kind than requests through nginx has `websocket`, `grpc`, `collector` or `pipeline` in place of a
    `load`.
    """

    name: Name
    load: AnyLoad | None = None
    service_time: NotNegative | None = None
    distribution: Distribution = "constant"
    routes: list[Route] = []
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    topology: TopologyChange = TopologyChange()
    dependency: NotNegative = 0.0
    timeout: Positive | None = None
    retries: Retries | None = None
    actions: list[Action] = []
    duration: Positive | None = None
    quick: bool = True
    generator: Literal["own", "siege"] = "own"
    local_ports: Annotated[int, msgspec.Meta(ge=1, le=20_000)] | None = None
    expect_void: bool = False
    websocket: Websocket | None = None
    grpc: Grpc | None = None
    collector: Collector | None = None
    pipeline: Pipeline | None = None

    def __post_init__(self) -> None:
        told = [kind for kind in OTHER_KINDS if getattr(self, kind) is not None]
        if len(told) + (self.load is not None) != 1:
            raise ValueError(f"a case needs exactly one of `load`, {', '.join(f'`{kind}`' for kind in OTHER_KINDS)}")
        if told:
            return
        own = isinstance(self.load, InstantsLoad) and self.load.service_times is not None
        if own and self.service_time is None and not self.routes:
            return
        if (self.service_time is None) != bool(self.routes):
            raise ValueError("a case needs either `service_time` or `routes`")
        if self.routes and own:
            raise ValueError("a case with `routes` draws its service times: the load's `service_times` would be lost")

    @property
    def kind(self) -> str:
        """`http`, or what the case has in place of a load."""
        return next((kind for kind in OTHER_KINDS if getattr(self, kind) is not None), "http")

    @property
    def mean_service_time(self) -> float:
        """The mean service time over all requests, s; 0 where there is none to be known."""
        if self.service_time is not None:
            return self.service_time
        if isinstance(self.load, InstantsLoad) and self.load.service_times:
            return sum(self.load.service_times) / len(self.load.service_times)
        if not self.routes:
            return 0.0
        share = sum(route.share for route in self.routes)
        return sum(route.share * route.service_time for route in self.routes) / share

    def same_draws(self, other: Case) -> bool:
        """Whether both cases get the same requests at the same instants."""
        offered = ("load", "service_time", "distribution", "routes")
        return (
            self.seed is not None
            and self.seed == other.seed
            and all(getattr(self, name) == getattr(other, name) for name in offered)
        )
