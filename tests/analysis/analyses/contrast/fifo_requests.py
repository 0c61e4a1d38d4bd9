"""Requests through one first-come-first-served queue, as a canonical frame, with columns that the times do not know."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from sojourn.model.frame import INSTANT

EPOCH = 1_767_225_600
TENANTS = {"globex": 0.5, "initech": 0.3, "umbrella": 0.2}
PLANTED = "acme"


@dataclass(frozen=True)
class FifoRequests:
    """Requests and what is true of them.

    Attributes:
        rows: the canonical frame, with the column tenant.
        start, begin, end: arrival, begin and end of the service of each, s after ``EPOCH``.
        tenant: of each.
    """

    rows: pl.DataFrame
    start: npt.NDArray[np.float64]
    begin: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    tenant: npt.NDArray[np.str_]

    def at(self, part: float) -> float:
        """Return the instant (unix s) after a part of the log's time."""
        return EPOCH + part * float(self.start[-1])

    def response_quantile(self, level: float) -> float:
        """Return a quantile of the response time, s."""
        return float(np.quantile(self.end - self.start, level))


def fifo_requests(
    seed: int, *, count: int = 3_000, workers: int = 2, load: float = 0.7, planted: float = 0.05, factor: float = 8.0,
    session: int = 1,
) -> FifoRequests:  # fmt: skip
    """Simulate Poisson arrivals with exponential services at one backend.

    Args:
        seed: of the random numbers.
        count: number of requests.
        workers: number of workers.
        load: utilisation of the workers.
        planted: share of the requests that are of the tenant ``PLANTED``.
        factor: how many times as long its services take.
        session: successive requests of one tenant.
    """
    random = np.random.default_rng(seed)
    others = random.choice(list(TENANTS), -(-count // session), p=list(TENANTS.values()))
    drawn = np.where(random.random(len(others)) < planted, PLANTED, others)
    tenant = np.repeat(drawn, session)[:count]
    service = random.exponential(0.05, count) * np.where(tenant == PLANTED, factor, 1.0)
    start = np.cumsum(random.exponential(service.mean() / (workers * load), count))
    free = [(0.0, number) for number in range(workers)]
    begin, worker = np.empty(count), np.empty(count, np.int64)
    for number in range(count):
        at, worker[number] = heapq.heappop(free)
        begin[number] = max(at, start[number])
        heapq.heappush(free, (begin[number] + service[number], worker[number]))
    end = begin + service
    response = np.round(end - start, 6)
    rows = pl.DataFrame(
        {
            "time": _instants(end),
            "start": _instants(start),
            "status": pl.repeat(200, count, eager=True),
            "request_time": response,
            "request_start": _instants(start),
            "proxy_start": _instants(start),
            "upstream": pl.repeat("10.0.0.1:80", count, eager=True),
            "attempts": pl.repeat(1, count, eager=True),
            "retries": np.zeros(count),
            "connect": np.zeros(count),
            "header": response,
            "response": response,
            "app_queueing_delay": begin - start,
            "app_service_time": service,
            "route": random.choice(["/a", "/b"], count),
            "proxy": pl.repeat("edge", count, eager=True),
            "worker": worker.astype(str),
            "method": random.choice(["GET", "POST"], count, p=[0.9, 0.1]),
            "host": random.choice(["a.example", "b.example"], count),
            "bytes_sent": random.lognormal(8, 1, count).astype(np.int64),
            "request_id": [f"{seed}-{number}" for number in range(count)],
            "tenant": tenant,
        }
    )
    return FifoRequests(rows, start, begin, end, tenant)


def _instants(seconds: npt.NDArray[np.float64]) -> pl.Series:
    return pl.Series(np.round(seconds * 1e6).astype(np.int64) + EPOCH * 1_000_000).cast(INSTANT)
