"""Processes of one backend with queues of their own: which workers belong together.

A request that the kernel (SO_REUSEPORT), a master process or a balancer in the app server has handed to a process waits
for a worker of this process, also while another process has a free worker. The log shows it: requests start at once
while older ones wait, and within each process they start in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.timeline.worker_evidence import Evidence


@dataclass(frozen=True)
class Processes:
    """The processes of a backend.

    Attributes:
        of_worker: worker value -> number of its process.
        workers: of each process.
        reserved: whether each process serves routes of its own.
    """

    of_worker: dict[str, int]
    workers: tuple[int, ...]
    reserved: bool = False


def processes_of(evidence: Evidence, names: Sequence[str], *, reserved: bool) -> Processes:
    """Return the processes of a backend: its workers by the text before the last dot of their values, or one by one.

    ``reserved``: workers that serve the same routes belong together.
    """
    if reserved:
        keys = [tuple(row.tolist()) for row in evidence.serves]
    else:
        before = [name.rpartition(".")[0] for name in names]
        several = 1 < len(set(before)) < len(names) and all(before)
        keys = [(name,) for name in (before if several else names)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    of_worker = {name: numbers[key] for name, key in zip(names, keys, strict=True)}
    sizes = np.bincount(list(of_worker.values()))
    return Processes(of_worker, tuple(int(size) for size in sizes), reserved)


def evidence_by_process(evidence: Evidence, names: Sequence[str], processes: Processes) -> tuple[Evidence, ...]:
    """Return the evidence of each process alone."""
    process = np.array([processes.of_worker[name] for name in names])[evidence.worker]
    return tuple(evidence.of(process == number) for number in range(len(processes.workers)))
