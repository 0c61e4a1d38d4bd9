"""Measure how much other programs and other virtual machines disturbed the servers of a run.

The generator's own lateness shows in its lag (`generator/verdict.py`). A disturbance of the servers does not: they
answer later, and the figures look like those of a slower system. /proc has three facts about it: the seconds for which
the servers' threads were runnable and had no core (schedstat), the processor time of every process, and the time that
the hypervisor gave to other machines (steal).

The load of the run itself makes servers wait for a core as well, on purpose in some scenarios. Only the part that
others explain counts, with w the wait of the servers' threads, o and r the processor time of processes outside and
inside of the run, s the servers' own, and v the stolen time, all in seconds of the measured window:

    lost     = min(w · o / (o + r), o) + v · s / (o + r)
    delayed  = lost / (seconds that the requests ask the servers to wait or sleep + s)

Runnable threads share a core by turns, so others caused the share o / (o + r) of the wait; and a process that ran for
one second cannot have cost several servers that waited for that core more than one second of work. Stolen time is
counted by the kernel as processor time of the process that was running.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from sojourn.model.formatting import milliseconds, printable

from sojourn_lab.load.generator.verdict import LAG_SHARE
from sojourn_lab.load.plan import Summary, Window
from sojourn_lab.measure.proc import GONE, PROC, Stat, family_in, run_queue_waits_of, stats_of_all, stolen_time
from sojourn_lab.measure.sampling import SamplerThread
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.load import expected_requests
from sojourn_lab.scenario.topology import Topology

DELAYED_LIMIT = LAG_SHARE
"""The share of what its requests take that a case may lose to others: as much as a generator may be late."""

BUSY_FROM = 0.05
"""Processes outside of the run are reported from this share of a core on."""

MOST_NEIGHBOURS = 5

KERNEL_THREADS, KERNEL_NAME = 2, "kthreadd"
"""The parent of the kernel's threads, which work for the run as well (the loopback) and cannot be closed. In a PID
namespace the same id may be of an ordinary process."""

SHORTEST_PERIOD, LONGEST_PERIOD = 0.15, 5.0
"""Seconds between two looks at /proc. One costs about 3 ms with a hundred processes."""


class Neighbour(msgspec.Struct):
    """A process outside of the run, and the cores that it used on average."""

    name: str
    pid: int
    cores: float


class Disturbance(msgspec.Struct):
    """How much others disturbed the servers in the measured window of a case.

    Attributes:
        cores: of the machine.
        outside: cores that processes outside of the run used on average.
        stolen: cores that the hypervisor gave to other machines on average.
        waited: seconds for which the servers' threads were runnable and had no core.
        lost: the part of them that others explain, and of the stolen time, s.
        delayed: `lost` as a share of the time that the requests take of the servers.
        limit: of `delayed`; above it the case is void.
        neighbours: the processes outside of the run that used most processor time.
        unknown: why nothing is known; the figures are None then.
    """

    cores: int | None = None
    outside: float | None = None
    stolen: float | None = None
    waited: float | None = None
    lost: float | None = None
    delayed: float | None = None
    limit: float = DELAYED_LIMIT
    neighbours: list[Neighbour] = []
    unknown: str = ""

    def reasons(self) -> list[str]:
        """Return the reasons, as sentences, that the figures of the case cannot be trusted; empty if they can."""
        if self.delayed is None or self.lost is None or self.delayed <= self.limit:
            return []
        return [
            f"the servers were disturbed: others delayed them by {milliseconds(self.lost)} ms,"
            f" {self.delayed:.1%} of the time that the requests take, more than {self.limit:.0%}"
            f" (processes outside of the run used {self.outside:.2f} of {self.cores} cores,"
            f" {self.stolen:.2f} were stolen)"
        ]


class Outside(NamedTuple):
    """A process outside of the run: its name, its processor time and that of its ended children, s."""

    name: str
    cpu: float
    children: float


class Snapshot(NamedTuple):
    """/proc at one instant (`time`, unix s): seconds of processor time, and of waiting for a core by thread.

    `run`: of all processes of the run, `servers`: of the servers among them. `outside` is by (id, start).
    """

    time: float
    stolen: float
    run: float
    servers: float
    waited: dict[tuple[int, int], float]
    outside: dict[tuple[int, int], Outside]


def snapshot_of(run: int, groups: Collection[int], root: Path = PROC) -> Snapshot:
    """Return a snapshot; `run` is the first process of the run, `groups` the servers' process groups.

    Raises one of ``GONE`` where /proc does not have what is needed.
    """
    stats = stats_of_all(root)
    kernel = _kernel_threads(stats)
    family = {pid for pid in family_in(stats, run) if pid in stats}
    waited: dict[tuple[int, int], float] = {}
    servers = 0.0
    for pid in family:
        if stats[pid].group in groups and pid != run:
            servers += stats[pid].cpu + stats[pid].children
            waited |= _waits(pid, root)
    return Snapshot(
        time=time.time(),
        stolen=stolen_time(root),
        run=sum(stats[pid].cpu + stats[pid].children for pid in family),
        servers=servers,
        waited=waited,
        outside={
            (pid, stat.start): Outside(stat.name, stat.cpu, stat.children)
            for pid, stat in stats.items()
            if pid not in family and pid not in kernel
        },
    )


def _kernel_threads(stats: Mapping[int, Stat]) -> set[int]:
    if KERNEL_THREADS not in stats or stats[KERNEL_THREADS].name != KERNEL_NAME:
        return set()
    return {pid for pid, stat in stats.items() if KERNEL_THREADS in (pid, stat.parent)}


def _waits(pid: int, root: Path) -> dict[tuple[int, int], float]:
    try:
        return {(pid, thread): seconds for thread, seconds in run_queue_waits_of(pid, root).items()}
    except GONE:
        if (root / str(pid)).exists():
            raise  # the kernel keeps no such account
        return {}  # it ended while we were reading


def disturbance_between(first: Snapshot, last: Snapshot, waiting: float) -> Disturbance:
    """Return how much others disturbed the servers between two snapshots.

    `waiting`: seconds for which the requests between them ask servers to wait or sleep, beside their work.
    """
    seconds = last.time - first.time
    cores = os.cpu_count() or 1
    outside, run = outside_time(first, last, cores * seconds), max(0.0, last.run - first.run)
    servers, stolen = max(0.0, last.servers - first.servers), max(0.0, last.stolen - first.stolen)
    waited = sum(max(0.0, value - first.waited.get(thread, 0.0)) for thread, value in last.waited.items())
    busy = outside + run
    lost = min(waited * outside / busy, outside) + stolen * servers / busy if busy else 0.0
    needed = waiting + servers
    return Disturbance(
        cores=cores,
        outside=outside / seconds,
        stolen=stolen / seconds,
        waited=waited,
        lost=lost,
        delayed=lost / needed if needed else 0.0,
        neighbours=neighbours_of(first, last),
    )


def outside_time(first: Snapshot, last: Snapshot, most: float) -> float:
    """Return the processor seconds that processes outside of the run used between two snapshots, at most `most`.

    The processor time of a process that ended is added to the process that waited for it, so the sum over all keeps it.
    Where none waited, it is missing from the sum; the time of the processes that still run is certain.
    """
    whole = sum(each.cpu + each.children for each in last.outside.values())
    whole -= sum(each.cpu + each.children for each in first.outside.values())
    certain = sum(_own_time(first, last, key) for key in last.outside)
    return min(max(whole, certain), most)


def _own_time(first: Snapshot, last: Snapshot, key: tuple[int, int]) -> float:
    before = first.outside.get(key)
    return max(0.0, last.outside[key].cpu - (0.0 if before is None else before.cpu))


def neighbours_of(first: Snapshot, last: Snapshot) -> list[Neighbour]:
    """Return the processes outside of the run that used most between two snapshots, busiest first."""
    seconds = last.time - first.time
    used = [Neighbour(each.name, key[0], _own_time(first, last, key) / seconds) for key, each in last.outside.items()]
    busy = [each for each in used if each.cores >= BUSY_FROM]
    return sorted(busy, key=lambda each: -each.cores)[:MOST_NEIGHBOURS]


class DisturbanceSampler(SamplerThread):
    """A thread that reads /proc about ten times in a case's measured window of `duration` s.

    `groups` returns the process groups of the servers. Entered at the beginning of the case; `between` is for when it
    was left.
    """

    def __init__(self, duration: float, groups: Callable[[], Collection[int]], root: Path = PROC) -> None:
        super().__init__("disturbance-sampler")
        self._period = min(max(duration / 10.0, SHORTEST_PERIOD), LONGEST_PERIOD)
        self._groups = groups
        self._root = root
        self._snapshots: list[Snapshot] = []
        self._unknown = ""

    def _run(self) -> None:
        while not self._end.wait(self._period):
            try:
                self._snapshots.append(snapshot_of(os.getpid(), self._groups(), self._root))
            except GONE as error:
                self._unknown = f"/proc does not have what is needed: {error}"
                return

    def between(self, window: Window, waiting: float) -> Disturbance:
        """Return the disturbance between two instants of the case, after the context was left.

        `waiting`: seconds for which the requests of the whole window ask servers to wait or sleep.
        """
        inside = [each for each in self._snapshots if window.since <= each.time <= window.until]
        if self._unknown:
            return Disturbance(unknown=self._unknown)
        if len(inside) < 2:
            return Disturbance(unknown="the window is too short to look at /proc twice")
        share = (inside[-1].time - inside[0].time) / (window.until - window.since)
        return disturbance_between(inside[0], inside[-1], waiting * share)


def requested_wait(case: Case, topology: Topology, window: Window, summary: Summary | None = None) -> float:
    """Return the seconds for which the requests of a window make servers wait or sleep, beside their work.

    `summary`: of a case of requests through nginx. No more than all workers can wait at the same time. How long the
    user's own app waits is unknown: its response times are the most.
    """
    seconds = window.until - window.since
    if summary is not None:
        attempts = summary.answered + sum(summary.errors.values())
        most = topology.served_at_once * seconds
        if case.paths:
            return min(summary.answered * (summary.latency.uncorrected.mean or 0.0), most)
        return min(attempts * (case.mean_idle + case.dependency), most)
    if case.grpc is not None:
        return case.grpc.rate * seconds * case.grpc.service_time
    if case.autoscale is not None and case.load is not None:
        return (expected_requests(case.load, 0.0, seconds) or 0.0) * case.mean_service_time
    if case.collector is not None:
        return case.collector.rate * seconds * case.collector.ack / case.collector.batch
    return 0.0


def what_to_do(disturbances: Sequence[Disturbance]) -> str:
    """Return a sentence on what to close or change before a void run is repeated.

    `disturbances`: of its void cases.
    """
    most: dict[int, Neighbour] = {}
    for each in disturbances:
        for neighbour in each.neighbours:
            if neighbour.pid not in most or most[neighbour.pid].cores < neighbour.cores:
                most[neighbour.pid] = neighbour
    busiest = sorted(most.values(), key=lambda each: -each.cores)[:MOST_NEIGHBOURS]
    if busiest:
        texts = [f"{printable(each.name, 40)} (process {each.pid}, {each.cores:.0%} of a core)" for each in busiest]
        return f"Close {', '.join(texts)} and run it again."
    stolen = max((each.stolen or 0.0 for each in disturbances), default=0.0)
    if stolen >= BUSY_FROM:
        return f"The hypervisor gave {stolen:.0%} of a core to other machines: run it again when they are less busy."
    if reasons := [each.unknown for each in disturbances if each.unknown]:
        return f"Which other programs used the processor is unknown: {reasons[0]}. Close what you can and run it again."
    return (
        f"No process outside of the run used {BUSY_FROM:.0%} of a core: give the machine less to do,"
        " such as --scale 2, which halves the rates, and run it again."
    )
