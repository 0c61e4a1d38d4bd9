"""One case of a scenario: a load on a topology, measured separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec

from sojourn_lab.scenario.experiment_settings import OTHER_KINDS, Autoscale, Collector, Grpc, Pipeline, Websocket
from sojourn_lab.scenario.load import (
    AnyLoad,
    ClosedLoad,
    Distribution,
    InstantsLoad,
    Name,
    NotNegative,
    Positive,
    Retries,
    Route,
)
from sojourn_lab.scenario.topology import TopologyChange

RequestPath = Annotated[str, msgspec.Meta(pattern=r"^/[!-~]*$", max_length=8_000)]

MOST_HALF_OPEN = 300
"""The most half-open connections that one case may begin."""


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the system `at` seconds after the warm-up of a case; in a longer run proportionally later.

    `add_backend` adds a standby backend to the upstream, `remove_backend` removes the last one; `mirror` sets the
    `percent` of dark reads, 0 being the kill switch. `half_open` begins `count` connections to every backend and never
    completes them; it needs a `namespace` in the topology.
    """

    at: NotNegative
    do: Literal["add_backend", "remove_backend", "mirror", "half_open"]
    percent: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_HALF_OPEN)] | None = None

    def __post_init__(self) -> None:
        if (self.do == "mirror") != (self.percent is not None):
            raise ValueError("`percent` is needed for `mirror`, and not allowed for other actions")
        if (self.do == "half_open") != (self.count is not None):
            raise ValueError("`count` is needed for `half_open`, and not allowed for other actions")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load on the topology, measured separately; `service_time` in seconds.

    Either all requests have one `service_time`, or each draws one of the `routes`; both are of the lab's app. The
    user's own app (`command` in the topology) gets `paths` instead: path with query -> share of the requests. Cases
    with the same `seed` get the same arrivals, routes and service times; without a seed, every case has its own.
    `topology`: differences from the scenario's topology; the servers are then restarted. `dependency`: seconds of work
    that every request needs from the tier behind the app. `timeout` and `retries`: those of the case's clients, instead
    of the scenario's.

    `local_ports`: the number of ports that the generator may send from. `expect_void`: the case shows a generator that
    is the bottleneck; it must be void, and does not make the run void.

    `quick = false`: the short form of the scenario leaves out this case, and criteria that match no other case.

    A case of another kind than requests through nginx has `websocket`, `grpc`, `collector` or `pipeline` instead of a
    `load`. `autoscale`: an autoscaler changes the number of workers while the load is offered.
    """

    name: Name
    load: AnyLoad | None = None
    service_time: NotNegative | None = None
    distribution: Distribution = "constant"
    routes: list[Route] = []
    paths: Annotated[dict[RequestPath, Positive], msgspec.Meta(max_length=1_000)] = {}
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
    autoscale: Autoscale | None = None

    def __post_init__(self) -> None:
        if reasons := list(self._reasons()):
            raise ValueError("\n".join(reasons))

    def _reasons(self) -> Iterator[str]:
        kinds = [kind for kind in OTHER_KINDS if getattr(self, kind) is not None]
        if len(kinds) + (self.load is not None) != 1:
            yield f"a case needs exactly one of `load`, {', '.join(f'`{kind}`' for kind in OTHER_KINDS)}"
        if self.autoscale is not None and (self.load is None or isinstance(self.load, ClosedLoad)):
            yield "`autoscale` needs an open `load`: the yardstick replays its schedule"
        if not kinds:
            yield from self._reasons_of_requests()

    def _reasons_of_requests(self) -> Iterator[str]:
        own = isinstance(self.load, InstantsLoad) and self.load.service_times is not None
        if self.paths:
            of_lab = {"service_time": self.service_time is not None, "routes": self.routes, "service_times": own}
            for name in (name for name, value in of_lab.items() if value):
                yield f"`paths` and `{name}` exclude each other: your own app decides its service times"
            if self.generator != "own":
                yield f"{self.generator} offers the load of the lab's app only: leave out `generator`"
            return
        if own and self.service_time is None and not self.routes:
            return
        if (self.service_time is None) != bool(self.routes):
            yield "a case needs either `service_time` or `routes`, or `paths` of your own app"
        if self.routes and own:
            yield "`routes` and the load's `service_times` exclude each other: remove one of them"

    @property
    def kind(self) -> str:
        """The kind of the case: `http`, `autoscale`, or the key that it has instead of a load."""
        if self.autoscale is not None:
            return "autoscale"
        return next((kind for kind in OTHER_KINDS if getattr(self, kind) is not None), "http")

    @property
    def mean_service_time(self) -> float:
        """The mean service time over all requests, s; 0 if it is unknown."""
        if self.service_time is not None:
            return self.service_time
        if isinstance(self.load, InstantsLoad) and self.load.service_times:
            return sum(self.load.service_times) / len(self.load.service_times)
        return self._mean_of_routes(lambda route: route.service_time)

    @property
    def uses_processor(self) -> bool:
        """Whether the service time of any route is processor time."""
        return any(route.cpu for route in self.routes)

    @property
    def mean_idle(self) -> float:
        """The mean time for which a request holds its worker and needs no processor, s; 0 if it is unknown."""
        computing = self._mean_of_routes(lambda route: route.service_time * route.cpu)
        return self.mean_service_time - computing + self._mean_of_routes(lambda route: route.body + route.after)

    def _mean_of_routes(self, seconds: Callable[[Route], float]) -> float:
        """Return the mean of some seconds over the routes, by their shares; 0 without routes."""
        share = sum(route.share for route in self.routes)
        return sum(route.share * seconds(route) for route in self.routes) / share if self.routes else 0.0

    def same_draws(self, other: Case) -> bool:
        """Return whether both cases get the same requests at the same instants."""
        offered = ("load", "service_time", "distribution", "routes", "paths")
        return (
            self.seed is not None
            and self.seed == other.seed
            and all(getattr(self, name) == getattr(other, name) for name in offered)
        )
