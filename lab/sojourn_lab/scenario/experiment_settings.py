"""Settings of cases that are more than plain requests through nginx; one struct per kind.

They are separate from the code that runs them, so that a scenario can be read without its programs being installed.
Each has `with_time_scaled(scale)`, which returns it with every duration multiplied by `scale` and every rate divided.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

import msgspec

from sojourn_lab.scenario.load import Distribution, NotNegative, Positive, Rate, scaled_seconds
from sojourn_lab.scenario.topology_parts import Workers

OTHER_KINDS = ("websocket", "grpc", "collector", "pipeline")
"""Keys of a case that replace its `load`."""

Signal = Literal[
    "cpu",
    "cpu_of_busy",
    "in_flight",
    "queueing_delay",
    "knative",
    "aws_tracking",
    "workers_needed",
    "workers_live",
    "fixed_mean",
    "fixed_peak",
]
"""What an autoscaler goes by; the last two are no signals: the number of workers is constant, as the yardstick says."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the settings."""

    def with_time_scaled(self, scale: float) -> Self:
        """Return the settings with every duration multiplied by `scale`."""
        del scale
        return self


class Websocket(Settings, frozen=True):
    """WebSocket connections through nginx, made at a rate that grows from 0 over the case's duration, and then held.

    Each requests the variations of `flags` flags once, which is the app's work. The final rate is `rate` a second, or
    `offered_load` times the capacity, which is measured first: with `unloaded` successive connections, then for `probe`
    seconds with users without a pause. `hold`: seconds for which all connections are held after the last answer.
    `heartbeat`: seconds between two pings of the app. `limit`: the largest acceptable p99 of the response, s.
    `generator`: the lab's own, or k6, which must be installed.

    A time scale applies to `flags` too: they determine the service time.
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
        """Return the settings with every duration multiplied by `scale`, and the rate divided by it."""
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
    """gRPC calls over long-lived connections: `channels` clients make `rate` calls a second in total, Poisson.

    `balanced`: each `connection` once, when it is made, in rotation, like a Service of Kubernetes without a proxy; or
    each `call`, by nginx, with the topology's `balancer`. Backends are those of the topology, with `workers` threads
    each; an action `add_backend` adds a standby one. `service_time`: of every call, s.
    """

    balanced: Literal["connection", "call"]
    rate: Rate
    service_time: NotNegative
    channels: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 12
    distribution: Distribution = "constant"

    def with_time_scaled(self, scale: float) -> Self:
        """Return the settings with the service time multiplied by `scale`, and the rate divided by it."""
        return msgspec.structs.replace(
            self, rate=self.rate / scale, service_time=scaled_seconds(self.service_time, scale)
        )


class Collector(Settings, frozen=True):
    """Heartbeats through nginx into a bounded channel, and consumers that send them to a broker.

    `rate` heartbeats and `read_rate` reads a second, both Poisson. The channel holds `channel` events; each of the
    `consumers` takes up to `batch` of them, uses `event_cpu` seconds of a core for each, and waits `ack` seconds for
    the broker. `cores`: the number of cores that the collector may use.
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
        """Return the settings with every duration multiplied by `scale` and every rate divided by it."""
        return msgspec.structs.replace(
            self,
            rate=self.rate / scale,
            read_rate=self.read_rate / scale,
            ack=scaled_seconds(self.ack, scale),
            event_cpu=scaled_seconds(self.event_cpu, scale),
        )


class Pipeline(Settings, frozen=True):
    """The toolkit's own pipeline, one `part` of it at a time, at full speed.

    `vector`: nginx's log through Vector with the agent's configuration, on `threads` threads. `store`: rows into
    the embedded engine, `batch` of them per insert, into the shipped table (`table = "shipped"`, with its materialized
    views) or into a copy of it that is partitioned by the day, by the hour or not at all. `spread`: seconds of log time
    over which the rows of one insert are spread. `threads`: threads of the engine for inserts and reads.

    `--scale` changes only how long is measured: the cost of a row does not scale.
    """

    part: Literal["vector", "store"]
    threads: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    batch: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    table: Literal["shipped", "day", "hour", "none"] = "shipped"
    spread: Annotated[float, msgspec.Meta(gt=0.0, le=31 * 86_400.0)] = 3600.0


class Autoscale(Settings, frozen=True):
    """An autoscaler beside the case's `load`: every `period` seconds it sets the number of gunicorn's workers.

    `signal`: what it goes by. `target`: the value per worker that it aims at: a share of a core (`cpu`), of what a busy
    worker of this app uses of a core (`cpu_of_busy`), or requests in flight (`in_flight`, `knative`, `aws_tracking`).
    The number rises at once and falls when no recommendation of the last `stabilisation` seconds was higher, within
    `minimum` and `maximum`; `knative` and `aws_tracking` have rules of their own, whose times are in proportion to
    `stabilisation`. The objective: `share` of the requests wait at most `threshold` seconds. `factor`: a
    `queueing_delay` is compared with so many thresholds. `signal_share`: the share for which the exporter computes
    `workers_needed` and `workers_live`; None: that of the objective. `window`: seconds of requests that the exporter's
    gauges cover. `beside`: requests a second to a second service, which the same nginx answers by itself.
    """

    signal: Signal
    minimum: Workers = 2
    maximum: Workers = 16
    period: Positive = 2.0
    stabilisation: NotNegative = 10.0
    target: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.7
    threshold: Positive = 0.1
    share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] = 0.95
    factor: Annotated[float, msgspec.Meta(gt=0.0, le=100.0)] = 1.0
    signal_share: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] | None = None
    window: Positive = 8.0
    beside: Rate | None = None

    def __post_init__(self) -> None:
        if self.minimum > self.maximum:
            raise ValueError("`minimum` must not exceed `maximum`")

    @property
    def gauge_share(self) -> float:
        """The share of the requests for which the exporter computes its gauges."""
        return self.share if self.signal_share is None else self.signal_share

    def with_time_scaled(self, scale: float) -> Self:
        """Return the settings with every duration multiplied by `scale` and every rate divided by it."""
        times = ("period", "stabilisation", "threshold", "window")
        return msgspec.structs.replace(
            self,
            beside=None if self.beside is None else self.beside / scale,
            **{name: scaled_seconds(getattr(self, name), scale) for name in times},
        )
