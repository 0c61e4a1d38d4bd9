"""Compute the figures of a case from the records of the clients, the collector and the broker.

Durations in seconds, instants in unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from sojourn_lab.experiments.collector.plan import HEARTBEAT
from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import ClientRecord, Quantiles, Summary, Window
from sojourn_lab.scenario.experiment_settings import Collector

T = TypeVar("T")


class Acknowledged(msgspec.Struct, frozen=True):
    """A batch that the broker acknowledged: its consumer, when it left the channel, its events."""

    consumer: int
    taken: float
    acknowledged: float
    ids: list[str]


class Sample(msgspec.Struct, frozen=True):
    """The collector at one instant: processor time since its start, s, and events in the channel."""

    time: float
    cpu: float
    depth: int


def rows_in(path: Path, kind: type[T]) -> list[T]:
    """Return the rows of a file of JSON lines, without an incomplete last line."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    decoder = msgspec.json.Decoder(kind)
    return [decoder.decode(line) for line in lines if line]


def capacity_of(settings: Collector) -> float:
    """Return the capacity of the consumers, events/s: c · b / (a + b · w), and at most cores / w.

    c consumers, b events a batch, a the wait for an acknowledgement, w the work on an event: the utilisation law
    (Denning & Buzen 1978) at a utilisation of 1, of the consumers and of the cores.
    """
    cycle = settings.ack + settings.batch * settings.event_cpu
    by_consumers = settings.consumers * settings.batch / cycle if cycle > 0.0 else float("inf")
    by_cores = settings.cores / settings.event_cpu if settings.event_cpu > 0.0 else float("inf")
    return min(by_consumers, by_cores)


def law_of(settings: Collector, offered: float) -> dict[str, float | None]:
    """Return the law's figures for `offered` heartbeats/s: `capacity` and `throughput`, events/s.

    What is offered beyond the capacity is refused once the channel is full, however large that is.
    """
    capacity = capacity_of(settings)
    return {"capacity": capacity if np.isfinite(capacity) else None, "throughput": min(offered, capacity)}


def write_latencies(clients: Sequence[ClientRecord], batches: Sequence[Acknowledged], window: Window) -> list[float]:
    """Return, for every processed heartbeat of the window, the seconds from its intended instant to then."""
    done = {name: batch.acknowledged for batch in batches for name in batch.ids}
    return [done[each.id] - each.intended for each in beats_of(clients, window) if each.id in done]


def beats_of(clients: Sequence[ClientRecord], window: Window) -> list[ClientRecord]:
    """Return the heartbeats whose intended instant lies in the window."""
    return [each for each in clients if each.route == HEARTBEAT and window.since <= each.intended < window.until]


def throughput_of(batches: Sequence[Acknowledged], window: Window) -> float:
    """Return the events acknowledged per second of the window."""
    inside = sum(len(each.ids) for each in batches if window.since <= each.acknowledged < window.until)
    return inside / (window.until - window.since)


def consumers_of(batches: Sequence[Acknowledged], consumers: int, window: Window) -> dict[str, float | None]:
    """Return the consumers' figures in the window.

    `busy` is the share of their time they had events in hand, `cost` the seconds of one consumer for each event,
    `batch` the mean number of events in a batch. busy · consumers / cost is the throughput.
    """
    inside = [each for each in batches if window.since <= each.acknowledged < window.until]
    events = sum(len(each.ids) for each in inside)
    busy = sum(max(0.0, min(each.acknowledged, window.until) - max(each.taken, window.since)) for each in batches)
    return {
        "busy": busy / (consumers * (window.until - window.since)),
        "cost": sum(each.acknowledged - each.taken for each in inside) / events if events else None,
        "batch": events / len(inside) if inside else None,
    }


def cpu_of(samples: Sequence[Sample], cores: int, window: Window) -> dict[str, float | None]:
    """Return how many cores the collector used in the window, and their share of those it had."""
    inside = [each for each in samples if window.since <= each.time < window.until]
    if len(inside) < 2:
        return {"cores": None, "share": None}
    used = (inside[-1].cpu - inside[0].cpu) / (inside[-1].time - inside[0].time)
    return {"cores": used, "share": used / cores}


def channel_of(samples: Sequence[Sample], size: int, window: Window) -> dict[str, float | None]:
    """Return the channel's mean and largest depth in the window, and the share of samples in which it was full."""
    depths = np.asarray([each.depth for each in samples if window.since <= each.time < window.until], dtype=float)
    if not depths.size:
        return {"mean": None, "max": None, "full": None}
    return {"mean": float(depths.mean()), "max": float(depths.max()), "full": float((depths >= size).mean())}


def case_figures(
    settings: Collector,
    window: Window,
    clients: Sequence[ClientRecord],
    batches: Sequence[Acknowledged],
    samples: Sequence[Sample],
    stored: Sequence[str],
    heartbeats: Summary,
    reads: Summary | None,
) -> dict[str, Any]:
    """Return all figures of a case; rates a second, durations in seconds.

    `errors_per_s`: heartbeats of the window that were refused or got no answer. `lost`: events of the whole case that
    the collector took and the broker does not have (`stored`: the broker's, one id for each event), `twice`: those it
    has more than once.
    """
    seconds = window.until - window.since
    beats = beats_of(clients, window)
    statuses = [each.status for each in beats]
    accepted = {each.id for each in clients if each.route == HEARTBEAT and each.status == 202}
    read = reads.latency.corrected if reads is not None else Quantiles()
    return {
        "law": law_of(settings, len(beats) / seconds),
        "offered": len(beats) / seconds,
        "throughput": throughput_of(batches, window),
        "errors_per_s": heartbeats.failed / seconds,
        "refused": statuses.count(503) / len(beats) if beats else None,
        "other_failures": heartbeats.failed - statuses.count(503),
        "write_latency": msgspec.to_builtins(quantiles_of(write_latencies(clients, batches, window))),
        "read_latency": msgspec.to_builtins(read),
        "read_failures": reads.failed if reads is not None else 0,
        "reads": reads.answered if reads is not None else 0,
        "cpu": cpu_of(samples, settings.cores, window),
        "channel": channel_of(samples, settings.channel, window),
        "consumers": consumers_of(batches, settings.consumers, window),
        "lost": len(accepted - set(stored)),
        "twice": len(stored) - len(set(stored)),
        "generator": {"cpu": heartbeats.cpu, "lag_p99": heartbeats.schedule_lag.p99},
    }
