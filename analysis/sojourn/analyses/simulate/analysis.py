"""A queue with made-up requests, and what theory says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.model.figures import Summary, summary
from sojourn.model.result import Result
from sojourn.queueing.batch_means import Interval, interval
from sojourn.queueing.models import Model, model
from sojourn.queueing.outcome import REJECTED, SERVED, Outcome, counts_of
from sojourn.queueing.processes import Process, arrival_process, service_process
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System

MOST_REQUESTS = 20_000_000
WARMUP = 0.05


@dataclass(frozen=True, repr=False)
class SimulationResult(Result):
    """What a simulation found. Durations in s.

    Attributes:
        arrivals, service, system, seed: what was simulated.
        requests, counted: in all; those after the warm-up, over whom the figures go.
        utilisation: share of the workers' time spent on services, from the first arrival to the end.
        offered: the load the processes offer, per worker; at 1 or more it cannot be served.
        wait, sojourn: figures of those not rejected in the end, until they were served or failed.
        answered: figures of the sojourn of those answered in time; None where nobody else was accepted.
        mean_wait: with its interval; None where there are too few.
        theory, approximation, reason: the closed form, or what comes close and why there is none.
        counts: status -> requests counted. attempts: all that were made.
        goodput: answered in time per s, from the first arrival to the end.
        wasted: worker seconds for nobody. busy: worker seconds.
        notes: what to know.
        outcome: of every request.
    """

    arrivals: Process
    service: Process
    system: System
    seed: int
    requests: int
    counted: int
    utilisation: float
    offered: float
    wait: Summary
    sojourn: Summary
    answered: Summary | None
    mean_wait: Interval | None
    theory: Model | None
    approximation: Model | None
    reason: str
    counts: dict[str, int]
    attempts: int
    goodput: float
    busy: float
    wasted: float
    notes: tuple[str, ...]
    outcome: Outcome = field(repr=False)

    def waits(self) -> npt.NDArray[np.float64]:
        """The waits that ``wait`` sums up, s."""
        return _kept(self.outcome, self.requests - self.counted).wait

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        simulated = self.wait["mean"]
        timeouts = self.counts["timed_out_waiting"] + self.counts["timed_out_served"]
        return {
            "requests": self.requests,
            "counted": self.counted,
            "seed": self.seed,
            "utilisation": self.utilisation,
            "offered_load": self.offered,
            "wait": self.wait,
            "sojourn": self.sojourn,
            "answered": self.answered,
            "mean_wait": self.mean_wait.to_dict() if self.mean_wait else None,
            "theory": self.theory.to_dict(simulated) if self.theory else None,
            "theory_reason": self.reason or None,
            "approximation": self.approximation.to_dict(simulated) if self.approximation else None,
            "goodput": self.goodput,
            "timeouts": timeouts,
            "counts": self.counts,
            "attempts": self.attempts,
            "busy": self.busy,
            "wasted": self.wasted,
            "notes": list(self.notes),
        }


def simulate(
    arrivals: str,
    service: str,
    system: System | None = None,
    *,
    requests: int | None = None,
    warmup: float = WARMUP,
    seed: int = 1,
) -> SimulationResult:
    """Send requests through a system that is empty at first.

    Arrivals, services and the balancer draw from streams of their own: one seed gives the same requests to any system.

    Args:
        arrivals, service: see ``processes``.
        system: one worker, first come first served, if None. Its balancer needs no backends or sessions told.
        requests: how many; None: as many as a trace of arrivals has, or a million.
        warmup: share of the requests, the first ones, that the figures leave out.

    Raises:
        ValueError: an argument is not what it should be, in words.
        SojournError: a trace cannot be read.
    """
    system = system or System((1,))
    if system.balancer in {"given", "pinned"}:
        raise ValueError(f"the balancer {system.balancer} needs requests of a log")
    if not 0 <= warmup < 1:
        raise ValueError("the share for the warm-up lies in [0, 1)")
    if seed < 0:
        raise ValueError("the seed must be 0 or more")
    coming, taking = arrival_process(arrivals), service_process(service)
    count = _count(requests, coming)
    streams = np.random.SeedSequence(seed).spawn(3)
    gaps = coming.drawn(count, np.random.Generator(np.random.PCG64(streams[0])))
    services = taking.drawn(count, np.random.Generator(np.random.PCG64(streams[1])))
    outcome = replay(np.cumsum(gaps), services, system, seed=int(streams[2].generate_state(1)[0]))
    left_out = int(count * warmup)
    kept = _kept(outcome, left_out)
    answered = kept.sojourn[kept.status == SERVED]
    exact, close, reason = model(coming, taking, system)
    found = interval(kept.wait)
    offered = taking.mean / coming.mean / sum(system.workers) if coming.mean > 0 else float("inf")
    return SimulationResult(
        coming, taking, system, seed, count, count - left_out, outcome.utilisation, offered,
        summary(kept.wait.copy()), summary(kept.sojourn.copy()),
        None if len(answered) == len(kept.status) else summary(answered.copy()),
        found, exact, close, reason, kept.counts, int(outcome.attempts.sum()), outcome.goodput, outcome.busy,
        outcome.wasted, tuple(_notes(taking, count, found, offered)), outcome,
    )  # fmt: skip


@dataclass(frozen=True)
class _Kept:
    wait: npt.NDArray[np.float64]
    sojourn: npt.NDArray[np.float64]
    status: npt.NDArray[np.int8]
    counts: dict[str, int]


def _kept(outcome: Outcome, left_out: int) -> _Kept:
    """Requests after the warm-up, without those that were rejected in the end."""
    status = outcome.status[left_out:]
    accepted = status != REJECTED
    wait, sojourn = outcome.wait[left_out:], outcome.sojourn[left_out:]
    return _Kept(wait[accepted], sojourn[accepted], status[accepted], counts_of(status))


def _count(requests: int | None, arrivals: Process) -> int:
    there = len(arrivals.trace) if arrivals.kind == "trace" else None
    count = requests if requests is not None else there or 1_000_000
    if there is not None and count > there:
        raise ValueError(f"{count} requests, but the trace of arrivals has {there}")
    if not 1 <= count <= MOST_REQUESTS:
        raise ValueError(f"from 1 to {MOST_REQUESTS:,} requests")
    return count


def _notes(service: Process, count: int, found: Interval | None, offered: float) -> list[str]:
    notes = []
    if service.kind == "trace" and count > len(service.trace):
        notes.append(f"the trace of services has {len(service.trace):,}; they were gone through again from the begin")
    if found is None:
        notes.append("too few requests for an interval of the mean wait: give at least 1,000")
    elif found.doubtful and offered < 1:
        notes.append(
            "neighbouring batches are alike: the interval of the mean wait is too narrow; simulate more requests"
        )
    return notes
