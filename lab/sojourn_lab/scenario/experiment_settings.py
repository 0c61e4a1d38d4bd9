"""What a case says about an experiment that is not plain requests through nginx; one struct each.

They stand apart from what runs them, so that a scenario can be read without anything it needs being installed. Each
has `with_time_scaled(scale)`, which returns it with every duration multiplied by `scale` and every rate divided by it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import msgspec

from sojourn_lab.scenario.load import Distribution, NotNegative, Positive, Rate, scaled_seconds

OTHER_KINDS = ("websocket", "grpc", "collector", "pipeline")
"""Keys of a case that stand in place of a `load`."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What they have in common."""

    def with_time_scaled(self, scale: float) -> Self:
        """Return the same with every duration multiplied by `scale`."""
        del scale
        return self


class Websocket(Settings, frozen=True):
    """WebSocket connections through nginx, made at a rate that grows from 0 over the case's duration, and then held.

    Each asks once for the variations of `flags` flags, which is the app's work. The final rate is `rate` a second, or
    `offered_load` times the capacity, which is found beforehand: `unloaded` connections are made one after the other,
    then for `probe` seconds by users who never rest. `hold`: seconds for which all are held after the last answer.
    `heartbeat`: seconds between two pings of the app. `limit`: what p99 of the response should not exceed, s.
    `generator`: the lab's own, or k6, which must be installed.

    With time the flags are scaled, too: they are the service time.
    """

    rate: Rate | None = None
    offered_load: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)] | None = None
    flags: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 40_000
    hold: NotNegative = 3.0
    heartbeat: Positive = 5.0
    limit: Positive = 0.2
    unloaded: Annotated[int, msgspec.Meta(ge=10, le=10_000)] = 40
    probe: Positive = 2.0
    generator: Literal["own", "k6"] = "own"

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.offered_load is None):
            raise ValueError("websocket needs either `rate` or `offered_load`")

    def with_time_scaled(self, scale: float) -> Self:
        """Return the same with every duration multiplied by `scale`, and the rate divided by it."""
        return msgspec.structs.replace(
            self,
            rate=None if self.rate is None else self.rate / scale,
            flags=max(1, round(self.flags * scale)),
            hold=scaled_seconds(self.hold, scale),
            heartbeat=scaled_seconds(self.heartbeat, scale),
            limit=scaled_seconds(self.limit, scale),
            probe=scaled_seconds(self.probe, scale),
        )


class Grpc(Settings, frozen=True):
    """gRPC calls over long-lived connections: `channels` clients, who make `rate` calls a second, Poisson, in all.

    `balanced`: each `connection`, once, when it is made, as a Service of Kubernetes without a proxy does, by turns; or
    each `call`, by nginx, as the topology's `balancer` says. Backends are those of the topology, with `workers` threads
    each; an action `add_backend` brings in one that stands by. `service_time` (s) is what every call asks for.
    """

    balanced: Literal["connection", "call"]
    rate: Rate
    service_time: NotNegative
    channels: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 12
    distribution: Distribution = "constant"

    def with_time_scaled(self, scale: float) -> Self:
        """Return the same with the service time multiplied by `scale`, and the rate divided by it."""
        return msgspec.structs.replace(
            self, rate=self.rate / scale, service_time=scaled_seconds(self.service_time, scale)
        )


class Collector(Settings, frozen=True):
    """Heartbeats through nginx into a bounded channel, and consumers that bring them to a broker.

    `rate` heartbeats and `read_rate` questions a second, both Poisson. The channel holds `channel` events; each of the
    `consumers` takes up to `batch` of them, works `event_cpu` seconds of a core on each, and waits `ack` seconds for
    the broker. `cores`: how many the collector may use.
    """

    rate: Rate
    read_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1_000.0)] = 5.0
    channel: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 25
    consumers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1
    batch: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    ack: NotNegative = 0.04
    event_cpu: NotNegative = 0.0
    cores: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1

    def with_time_scaled(self, scale: float) -> Self:
        """Return the same with every duration multiplied by `scale` and every rate divided by it."""
        return msgspec.structs.replace(
            self,
            rate=self.rate / scale,
            read_rate=self.read_rate / scale,
            ack=scaled_seconds(self.ack, scale),
            event_cpu=scaled_seconds(self.event_cpu, scale),
        )


class Pipeline(Settings, frozen=True):
    """The toolkit's own pipeline, one `part` of it at a time, as fast as it goes.

    `vector`: nginx's log through Vector and the shipped program for requests, on `threads` threads. `store`: rows into
    the embedded engine, `batch` of them an insert, into the shipped table (`table = "shipped"`, with everything that
    hangs on it) or into one like it that is partitioned by the day, by the hour or not at all. `spread`: seconds of log
    time that the rows of one insert lie within. `threads` is what the engine may use to insert and to read.

    Nothing here moves with `--scale` but how long is measured: a row costs what it costs.
    """

    part: Literal["vector", "store"]
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    batch: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    table: Literal["shipped", "day", "hour", "none"] = "shipped"
    spread: Annotated[float, msgspec.Meta(gt=0.0, le=31 * 86_400.0)] = 3600.0
