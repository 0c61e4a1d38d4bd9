"""Simulate a queue with generated requests, and evaluate its closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Floats
from sojourn.model.figures import Summary, summary
from sojourn.model.formatting import counted
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
    """The result of a simulation. Durations in s.

    Attributes:
        arrivals, service, system, seed: the simulated processes and system.
        requests, counted: total; requests after the warm-up, which the figures describe.
        utilisation: share of the workers' time spent on services, from the first arrival to the end.
        offered: offered load per worker; at 1 or more it cannot be served.
        wait, sojourn: figures of requests that were not rejected in the end, until they were served or failed.
        answered: figures of the sojourn of requests answered in time; None if every accepted request was.
        mean_wait: with its interval; None for too few requests.
        theory, approximation, reason: the closed form; or an approximation, and why there is no closed form.
        counts: status -> requests counted.
        attempts: total number.
        goodput: requests answered in time per s, from the first arrival to the end.
        busy: worker seconds.
        wasted: worker seconds for requests whose client had given up.
        notes: caveats.
        outcome: of every request.
    """

    TABLES: ClassVar = ("outcome",)

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

    def waits(self) -> Floats:
        """Return the waits that ``wait`` summarises, s."""
        return _accepted(self.outcome, self.requests - self.counted)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as in the JSON."""
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
    """Send requests through a system that is empty at first; arguments as of ``sojourn.simulate``.

    Arrivals, services and the balancer draw from separate streams: one seed gives the same requests to any system. The
    balancers ``given`` and ``pinned`` are not possible.

    Raises:
        ValueError: an argument is not valid.
        SojournError: a trace cannot be read.
    """
    system = system or System((1,))
    if system.balancer in {"given", "pinned"}:
        raise ValueError(f"balancer={system.balancer} needs requests of a log (sojourn whatif)")
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup={warmup}: give a share from 0 to below 1")
    if seed < 0:
        raise ValueError(f"seed={seed}: give 0 or more")
    arriving, serving = arrival_process(arrivals), service_process(service)
    count = _count(requests, arriving)
    streams = np.random.SeedSequence(seed).spawn(3)
    gaps = arriving.drawn(count, np.random.Generator(np.random.PCG64(streams[0])))
    services = serving.drawn(count, np.random.Generator(np.random.PCG64(streams[1])))
    outcome = replay(np.cumsum(gaps), services, system, seed=int(streams[2].generate_state(1)[0]))
    left_out = int(count * warmup)
    wait, sojourn, status = _accepted(outcome, left_out)
    answered = sojourn[status == SERVED]
    exact, close, reason = model(arriving, serving, system)
    mean_wait = interval(wait)
    offered = serving.mean / arriving.mean / sum(system.workers) if arriving.mean > 0 else float("inf")
    return SimulationResult(
        arriving, serving, system, seed, count, count - left_out, outcome.utilisation, offered,
        summary(wait.copy()), summary(sojourn.copy()),
        None if len(answered) == len(status) else summary(answered.copy()),
        mean_wait, exact, close, reason, counts_of(outcome.status[left_out:]), int(outcome.attempts.sum()),
        outcome.goodput, outcome.busy, outcome.wasted, tuple(_notes(serving, count, mean_wait, offered)), outcome,
    )  # fmt: skip


def _accepted(outcome: Outcome, left_out: int) -> tuple[Floats, Floats, npt.NDArray[np.int8]]:
    """Return wait, sojourn and status of the requests after the warm-up that were not rejected in the end."""
    status = outcome.status[left_out:]
    accepted = status != REJECTED
    return outcome.wait[left_out:][accepted], outcome.sojourn[left_out:][accepted], status[accepted]


def _count(requests: int | None, arrivals: Process) -> int:
    available = len(arrivals.trace) if arrivals.kind == "trace" else None
    count = requests if requests is not None else available or 1_000_000
    if available is not None and count > available:
        raise ValueError(f"requests={count}: the trace of arrivals has only {available}")
    if not 1 <= count <= MOST_REQUESTS:
        raise ValueError(f"requests={count}: give a number from 1 to {MOST_REQUESTS:,}")
    return count


def _notes(service: Process, count: int, mean_wait: Interval | None, offered: float) -> list[str]:
    notes = []
    if service.kind == "trace" and count > len(service.trace):
        notes.append(
            f"the trace of services has {counted(len(service.trace), 'value')} and was repeated from the beginning"
        )
    if mean_wait is None:
        notes.append("too few requests for an interval of the mean wait: give at least 1,000")
    elif mean_wait.doubtful and offered < 1:
        notes.append(
            "neighbouring batches are correlated: the interval of the mean wait is too narrow; simulate more requests"
        )
    return notes
