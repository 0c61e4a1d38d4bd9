"""Processor and memory usage of processes during a stage, from /proc."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sojourn_lab.measure.proc import GONE, memory_of, stat_of
from sojourn_lab.measure.sampling import SamplerThread

PERIOD = 0.25
"""Seconds between two samples."""

SPAN = 1.0
"""Seconds over which the share of a core is taken. The kernel counts in steps of 10 ms, which is 1 % of that."""


class Sample(NamedTuple):
    """At `time` (unix s): processor seconds used until then, and resident bytes."""

    time: float
    cpu: float
    memory: int


def sample_of(pids: Sequence[int]) -> Sample | None:
    """Return the usage of these processes together; None without /proc or if one of them has ended."""
    try:
        cpu = sum(stat_of(pid).cpu for pid in pids)
        memory = sum(memory_of(pid).resident for pid in pids)
    except GONE:
        return None
    return Sample(time.time(), cpu, memory)


def shares_of_a_core(samples: Sequence[Sample], since: float, until: float, span: float = SPAN) -> list[float]:
    """Return the share of one core used in every stretch of `span` seconds between two unix instants.

    A stretch ends at each sample and begins at the latest one at least `span` before it. Where all of it is shorter
    than that, one share over the whole.
    """
    inside = [each for each in samples if since <= each.time <= until]
    shares = []
    first = 0
    for last in range(1, len(inside)):
        while inside[last].time - inside[first + 1].time >= span - PERIOD / 5.0:
            first += 1
        seconds = inside[last].time - inside[first].time
        if seconds >= span - PERIOD / 5.0:
            shares.append((inside[last].cpu - inside[first].cpu) / seconds)
    if not shares and len(inside) > 1 and inside[-1].time > inside[0].time:
        shares.append((inside[-1].cpu - inside[0].cpu) / (inside[-1].time - inside[0].time))
    return shares


def usage_between(samples: Sequence[Sample], since: float, until: float) -> dict[str, Any]:
    """Return `cpu_peak` and `cpu_mean`, shares of one core, and `memory_peak`, bytes; None if unknown."""
    inside = [each for each in samples if since <= each.time <= until]
    shares = shares_of_a_core(samples, since, until)
    seconds = inside[-1].time - inside[0].time if inside else 0.0
    return {
        "cpu_peak": max(shares, default=None),
        "cpu_mean": (inside[-1].cpu - inside[0].cpu) / seconds if seconds else None,
        "memory_peak": max((each.memory for each in inside), default=None),
    }


class UsageSampler(SamplerThread):
    """A thread that samples groups of processes by name, four times a second, until it is left."""

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        super().__init__("usage-sampler")
        self._groups = groups
        self.samples: dict[str, list[Sample]] = {name: [] for name in groups}

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            for name, pids in self._groups.items():
                if (sample := sample_of(pids)) is not None:
                    self.samples[name].append(sample)
            due = max(due + PERIOD, time.monotonic())
            if self._end.wait(due - time.monotonic()):
                return
