"""Arrival schedules: the instants at which an open-loop client intends to send.

Each function returns a sorted one-dimensional float array of seconds after the
start of the schedule, every one of them in [0, horizon). The instants are fixed
before the first request leaves: what the system under test does cannot move them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Instants = NDArray[np.float64]


def constant_instants(rate: float, horizon: float) -> Instants:
    """Return evenly spaced instants, `rate` of them a second.

    t_k = k / rate
    """
    # The small allowance keeps 10/s for 0.3 s at three instants although 10 * 0.3 > 3 in floats.
    count = int(np.ceil(rate * horizon - 1e-9))
    return np.arange(max(count, 0), dtype=np.float64) / rate


def poisson_instants(rate: float, horizon: float, rng: np.random.Generator) -> Instants:
    """Return the instants of a Poisson process of `rate` a second.

    t_k = sum of k exponential gaps of mean 1 / rate; gaps are independent, so the
    burstiness is c_a² = 1. The same generator state gives the same instants.
    """
    instants: list[Instants] = []
    last = 0.0
    while last < horizon:
        chunk = max(16, int((horizon - last) * rate * 1.1))
        block = last + np.cumsum(rng.exponential(1.0 / rate, chunk))
        last = float(block[-1])
        instants.append(block)
    joined = np.concatenate(instants) if instants else np.empty(0)
    return joined[joined < horizon]


def stepped_instants(spells: list[tuple[float, float, float]], rng: np.random.Generator) -> Instants:
    """Return the instants of a Poisson process whose rate is constant in each (begin, end, rate) of `spells`."""
    parts = [begin + poisson_instants(rate, end - begin, rng) for begin, end, rate in spells if rate > 0.0]
    return np.concatenate(parts) if parts else np.empty(0)


def diurnal_instants(
    low: float, high: float, period: float, before: float, horizon: float, rng: np.random.Generator
) -> Instants:
    """Return the instants of a Poisson process whose rate follows a cosine that is lowest after `before` seconds.

    rate(t) = (low + high)/2 - (high - low)/2 · cos(2π(t - before)/period)

    By thinning (Lewis & Shedler 1979): instants of a process of the rate `high` remain with the probability
    rate(t) / high.
    """
    instants = poisson_instants(high, horizon, rng)
    rates = (low + high) / 2.0 - (high - low) / 2.0 * np.cos(2.0 * np.pi * (instants - before) / period)
    return instants[rng.uniform(0.0, high, len(instants)) < rates]


def ramp_instants(first_rate: float, last_rate: float, horizon: float) -> Instants:
    """Return instants whose rate goes linearly from `first_rate` to `last_rate`.

    rate(t) = a + (b - a)·t/T        rate
    N(t)    = a·t + (b - a)·t²/(2T)     b|          ,-'
                                         |      ,-'      N(t): the area below,
    The k-th instant solves N(t_k) = k; a|  ,-'          arrivals up to t
    the root is written so that it also  |-'
    holds when a = b, where the usual    +-----------> t
    form would divide by zero:                       T

    t_k = 2k / (a + sqrt(a² + 2·k·(b - a)/T))
    """
    total = (first_rate + last_rate) * horizon / 2.0
    k = np.arange(max(int(np.ceil(total - 1e-9)), 0), dtype=np.float64)
    slope = (last_rate - first_rate) / horizon
    # Rounding can take the root's argument a hair below zero at the end of a ramp down to nothing.
    root = np.sqrt(np.maximum(first_rate**2 + 2.0 * k * slope, 0.0))
    with np.errstate(invalid="ignore"):
        instants = 2.0 * k / (first_rate + root)
    instants[:1] = 0.0  # k = 0 of a ramp that starts at rate 0 is 0/0
    return instants[instants < horizon]


def service_times(mean: float, distribution: str, count: int, rng: np.random.Generator) -> Instants:
    """Return `count` service times in seconds: all equal (`constant`) or `exponential` with that mean.

    Raises ValueError for another distribution.
    """
    if distribution == "constant":
        return np.full(count, mean)
    if distribution == "exponential":
        return rng.exponential(mean, count)
    raise ValueError(f"unknown distribution of service times: {distribution!r}")


def chosen_routes(shares: list[float], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return `count` numbers of routes, drawn independently in proportion to `shares`."""
    weights = np.asarray(shares, dtype=np.float64)
    return rng.choice(len(weights), size=count, p=weights / weights.sum())
