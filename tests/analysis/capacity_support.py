"""Loads whose capacity is known: ramps, queues and closed loops."""

from __future__ import annotations

import heapq
import math

import numpy as np
import polars as pl

BASE = 1_767_225_600
SERVED = 100.0  # requests/s that the queue of the ramp serves at most
FLOAT = np.ndarray


def frame(start: FLOAT, response: FLOAT, *, status: object = 200, upstream: object = "a:80") -> pl.LazyFrame:
    """Rows as a split has them, as far as windows of load look at them; clocks of a millisecond, as nginx has."""
    begin = BASE * 1_000_000 + np.round(start * 1e3).astype(np.int64) * 1000
    length = np.maximum(np.round(response * 1e3), 1).astype(np.int64) * 1000
    count = len(begin)
    return pl.LazyFrame(
        {
            "start": begin,
            "time": begin + length,
            "request_time": length / 1e6,
            "status": np.broadcast_to(np.asarray(status, np.int16), count),
            "upstream": np.broadcast_to(np.asarray(upstream, object), count).tolist(),
        },
        schema_overrides={"upstream": pl.String},
    ).with_columns(pl.col("start", "time").cast(pl.Datetime("us", "UTC")))


def ramp(
    low: float = 5, high: float = 95, *, windows: int = 60, width: float = 60, seed: int = 1
) -> tuple[FLOAT, FLOAT]:
    """Poisson arrivals at rates from low to high; responses as M/M/1 has them: exponential of 1/(mu - r)."""
    rng = np.random.default_rng(seed)
    starts, responses = [], []
    for number, rate in enumerate(np.linspace(low, high, windows)):
        count = rng.poisson(rate * width)
        starts.append(np.sort(rng.uniform(0, width, count)) + number * width)
        responses.append(rng.exponential(1 / (SERVED - rate), count))
    return np.concatenate(starts), np.concatenate(responses)


def breaks_at(p: float, limit: float) -> float:
    """The rate at which the quantile p of an exponential of mean 1/(mu - r) is the limit."""
    return SERVED - math.log(1 / (1 - p)) / limit


def served_by(arrivals: FLOAT, services: FLOAT, workers: int) -> FLOAT:
    """Response times, first come first served."""
    free = [0.0] * workers
    matches = []
    for arrival, service in zip(arrivals, services, strict=True):
        end = max(arrival, heapq.heappop(free)) + service
        heapq.heappush(free, end)
        matches.append(end - arrival)
    return np.array(matches)


def closed_loop(clients: list[int], workers: int, *, seconds: float, mean: float, turn: float = 0.001) -> pl.LazyFrame:
    """So many clients, one number after the other, each sending again as soon as it has its answer."""
    rng = np.random.default_rng(3)
    starts, responses = [], []
    for stage, count in enumerate(clients):
        free, due = [stage * seconds] * workers, [stage * seconds] * count
        while due[0] < (stage + 1) * seconds:
            arrival = heapq.heappop(due)
            end = max(arrival, heapq.heappop(free)) + rng.exponential(mean)
            heapq.heappush(free, end)
            heapq.heappush(due, end + turn)
            starts.append(arrival)
            responses.append(end - arrival)
    return frame(np.array(starts), np.array(responses))
