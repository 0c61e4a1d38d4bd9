"""Number of workers from arrivals that are counted when they arrive. Rates per s, durations in s.

    lambda = max over w <= W of (N_w - z sqrt(N_w)) / w     N_w: arrivals in the last w seconds
    a      = lambda S                                       offered load
    b      = least c > a with C(c, a) exp(-2(c - a)t / (S(1 + c_s²))) <= 1 - p
    q      = max(0, n - c + (lambda - c/S) d)               queue when a worker that is started now is ready
    R      = ceil(b + sqrt(kappa S lambda q S / H))

The rate is the highest that the count is sure of: a long window wins while the rate is steady, a short one after a
jump. The root is the number of workers that makes the cost of x workers for H seconds, x·H, and of the requests that
are late while a queue drains, lambda·q·S/x requests of kappa·S each, the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sojourn.model.arrays import Floats
from sojourn.queueing.staffing import MOST

SURE = 1.5
"""z: standard deviations of a Poisson count by which it is lowered."""
LATENESS = 2.0
"""kappa: a late request is worth the worker time of so many requests."""


@dataclass(frozen=True)
class ServiceTimes:
    """Mean (s) and squared coefficient of variation (variance / mean²) of service times."""

    mean: float
    cs2: float = 1.0


@dataclass(frozen=True)
class Autoscaler:
    """What an autoscaler makes of a number of workers.

    Attributes:
        hold: H, for which it keeps the highest number, s.
        startup: d, until a worker that it starts is ready, s.
    """

    hold: float
    startup: float = 0.0


def sure_rate(samples: Sequence[tuple[float, float]], window: float, sure: float = SURE) -> float | None:
    """Return the highest rate of the last ``window`` seconds that a count is sure of, requests/s; at least 0.

    Args:
        samples: (instant, s; arrivals until then), oldest first.
        window: W, s; at least the last two samples are used.
        sure: z.

    Returns:
        The rate; None of fewer than two samples.
    """
    if len(samples) < 2:
        return None
    now, count = samples[-1]
    inside = sum(1 for instant, _ in samples[:-1] if now - instant <= window + 1e-9)
    best = 0.0
    for back in _steps(max(inside, 1)):
        instant, before = samples[-1 - back]
        if now > instant:
            arrived = max(count - before, 0.0)
            best = max(best, (arrived - sure * math.sqrt(arrived)) / (now - instant))
    return best


def since_restart(arrived: Floats) -> int:
    """Return the position of the first count of arrivals after a counter last fell; 0: it never fell."""
    fell = np.flatnonzero(np.diff(arrived) < 0)
    return int(fell[-1]) + 1 if len(fell) else 0


def _steps(most: int) -> list[int]:
    """Return 1, 2, … 8, 10, 12, 15, …, each a quarter more than the one before, and ``most``."""
    steps, back = [], 1
    while back < most:
        steps.append(back)
        back = max(back + 1, back * 5 // 4)
    return [*steps, most]


def base_workers(load: float, service: ServiceTimes, seconds: float, share: float) -> int:
    """Return the smallest number of workers above a load with which a ``share`` of requests waits ``seconds`` at most.

    The tail of M/M/c (Erlang 1917) with the exponent of Allen and Cunneen's approximation for M/G/c (Allen 1990, §5.3).

    Args:
        load: a, erlangs; 0 or less needs no worker.
        service: times of the requests.
        seconds: t, the longest acceptable wait, s.
        share: p, of the requests.

    Raises:
        ValueError: more than ``MOST`` workers would be needed.
    """
    if load <= 0:
        return 0
    steepness = 2 * seconds / (service.mean * (1 + service.cs2))
    blocked = 1.0
    for workers in range(1, MOST + 1):
        blocked = load * blocked / (workers + load * blocked)
        if workers <= load:
            continue
        waits = blocked / (1 - load / workers * (1 - blocked))
        if waits * math.exp(-(workers - load) * steepness) <= 1 - share:
            return workers
    raise ValueError(f"more than {MOST:,} workers would be needed")


def live_workers(
    rate: float, in_progress: float | None, workers: float | None, service: ServiceTimes, seconds: float, share: float,
    autoscaler: Autoscaler,
) -> int:  # fmt: skip
    """Return the number of workers for a rate of arrivals and what is in progress.

    Args:
        rate: lambda, requests/s, as of ``sure_rate``.
        in_progress: n, requests; None: unknown, and no queue counts.
        workers: c, that are ready; None: unknown, and a + 2 sqrt(a) is taken for it.
        service: how long requests hold a worker.
        seconds: the longest acceptable wait, s.
        share: of the requests that wait so long at most.
        autoscaler: what it makes of the number.

    Raises:
        ValueError: more than ``MOST`` workers would be needed.
    """
    load = rate * service.mean
    base = base_workers(load, service, seconds, share)
    if in_progress is None:
        return base
    if load <= 0:  # what waits needs a worker
        return int(in_progress >= 1 and service.mean > 0)
    ready = load + 2 * math.sqrt(load) if workers is None else workers
    queue = max(0.0, in_progress - ready + (rate - ready / service.mean) * autoscaler.startup)
    return math.ceil(base + math.sqrt(LATENESS * service.mean * load * queue / autoscaler.hold))
