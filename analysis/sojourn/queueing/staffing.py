"""Number of workers for a bound on the wait, in closed form. Rates per s, durations in s."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from sojourn.queueing.theory import mmc_wait_exceeds, offered_load

MOST = 1_000_000  # workers


def erlang_c_workers(arrival_rate: float, mean_service: float, seconds: float, share: float) -> int:
    """Return the smallest number of workers of M/M/c for which a ``share`` of the requests waits at most ``seconds``.

    P(wait > t) = C(c, a) exp(-(c - a)t/S) with a = rate · S (Erlang 1917), first come first served.

    Args:
        arrival_rate: requests/s.
        mean_service: s.
        seconds: the longest acceptable wait, s.
        share: of the requests, between 0 and 1.

    Raises:
        ValueError: a value is out of its range, or more than ``MOST`` workers would be needed.
    """
    low = math.floor(_load(arrival_rate, mean_service, seconds, share)) + 1
    if arrival_rate == 0 or mean_service == 0:
        return 0

    def holds(workers: int) -> bool:
        return mmc_wait_exceeds(arrival_rate, mean_service, workers, seconds) <= 1 - share

    workers = least_that_holds(holds, low, low, MOST)
    if workers is None:
        raise ValueError(f"more than {MOST:,} workers would be needed")
    return workers


def square_root_workers(arrival_rate: float, mean_service: float, seconds: float, share: float) -> int:
    """Return the number of workers by square-root staffing: a + beta·sqrt(a), rounded up.

    beta solves P(wait > t) = exp(-beta·sqrt(a)·t/S) / (1 + beta·Phi(beta)/phi(beta)) (Halfin & Whitt 1981), the limit
    of M/M/c with many workers.

    Args:
        arrival_rate: requests/s.
        mean_service: s.
        seconds: the longest acceptable wait, s.
        share: of the requests, between 0 and 1.

    Raises:
        ValueError: a value is out of its range.
    """
    load = _load(arrival_rate, mean_service, seconds, share)
    if load == 0:
        return 0
    steepness = math.sqrt(load) * seconds / mean_service

    def beyond(beta: float) -> float:
        # Phi/phi as a logarithm: it overflows for a large beta.
        log_phi = math.log1p(-math.erfc(beta / math.sqrt(2)) / 2)
        ratio = math.exp(min(log_phi + beta**2 / 2 + math.log(2 * math.pi) / 2, 700.0))
        return -beta * steepness - math.log1p(beta * ratio) - math.log(1 - share)

    return math.ceil(load + _falling_root(beyond) * math.sqrt(load))


def least_that_holds(holds: Callable[[int], bool], low: int, guess: int, most: int) -> int | None:
    """Return the smallest number for which ``holds``, which then holds for every larger one; None if it is above most.

    Args:
        holds: the condition.
        low: the smallest possible number.
        guess: the number to try first, at least ``low``; twice as many are next.
        most: the largest possible number.
    """
    high = guess
    while not holds(high):
        if high >= most:
            return None
        low, high = high + 1, min(2 * high, most)
    return low + bisect_left(range(low, high), True, key=holds)


def _falling_root(function: Callable[[float], float]) -> float:
    """Return where a function that falls from 0 on, and from above 0 at 0, is 0, by bisection to the last digit."""
    low, high = 0.0, 1.0
    while function(high) > 0:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def _load(arrival_rate: float, mean_service: float, seconds: float, share: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ValueError("seconds: must be 0 or more, and finite")
    if not 0 < share < 1:
        raise ValueError("share: must be between 0 and 1")
    return offered_load(arrival_rate, mean_service)
