"""Infer an upstream's balancer from the backends that the requests were sent to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Floats
from sojourn.model.compilation import compiled
from sojourn.timeline.visits import Visits, places_of

PINNED = 0.99  # share of a client's requests at one backend: a balancer that ignores clients does not do that
REQUESTS_OF_CLIENT, CLIENTS = 10, 3  # fewest
OTHERWISE = "round_robin"
ENOUGH_CHOICES = 100  # arrivals at which the backends' numbers of connections differed, for a decision
MOSTLY = 0.9  # share of them sent to the fewest connections; not all, because the log has milliseconds


def inferred_balancers(visits: Visits, end: Floats) -> tuple[str, ...]:
    """Return per upstream ``least_conn`` if requests went to the fewest connections, else ``round_robin``.

    Of two backends, a balancer that ignores connections chooses the one with fewer about every other time. ``end``: s
    after the base of the visits, n: when nginx finished each.
    """
    return tuple(
        "least_conn" if _share_to_fewest(visits, end, rows) >= MOSTLY else OTHERWISE
        for rows in places_of(visits.pool[visits.backend], len(visits.pools))
    )


def pinned_share(visits: Visits) -> float:
    """Return the share of the requests that went to the backend where most of their client's went; 0 if few could tell.

    Clients with at least ``REQUESTS_OF_CLIENT`` requests to upstreams of several backends count, if there are several
    of them and they do not all use one backend. Clients are identified by address, else by connection.
    """
    several = np.bincount(visits.pool, minlength=len(visits.pools))[visits.pool[visits.backend]] > 1
    names = (name for name in ("remote_addr", "connection") if name in visits.rows.columns)
    name = next((name for name in names if visits.rows[name].n_unique() > 1), None)
    if name is None or not several.any():
        return 0.0
    pairs = pl.DataFrame({"client": visits.rows[name], "backend": visits.backend})
    counts = pairs.filter(pl.Series(several)).drop_nulls().group_by("client", "backend").len()
    clients = (
        counts.sort("len", descending=True)
        .group_by("client")
        .agg(requests=pl.col("len").sum(), most=pl.col("len").first(), backend=pl.col("backend").first())
        .filter(pl.col("requests") >= REQUESTS_OF_CLIENT)
    )
    if len(clients) < CLIENTS or clients["backend"].n_unique() < 2:
        return 0.0
    most, requests = clients.select(pl.col("most", "requests").sum()).row(0)
    return float(most / requests)


def _share_to_fewest(visits: Visits, end: Floats, rows: npt.NDArray[np.int64]) -> float:
    """Return the share of arrivals with a choice that went to the fewest connections; 0 if few had a choice."""
    used = np.bincount(visits.backend[rows], minlength=len(visits.backends)) > 0
    backend = (np.cumsum(used) - 1)[visits.backend[rows]]
    leave = end[rows]
    order = np.argsort(leave, kind="stable")  # which is fast where most is in order
    chosen, fewest, most = _present(visits.arrival[rows], backend, leave, order, int(used.sum()))
    choice = most > fewest
    return float((chosen[choice] == fewest[choice]).mean()) if choice.sum() >= ENOUGH_CHOICES else 0.0


@compiled
def _present(arrival, backend, leave, order, backends):  # type: ignore[no-untyped-def]
    """Return the connections at each arrival, in order: at the chosen backend, and the fewest and most at any backend.

    One pass over arrivals and departures, at the same cost for any number of backends.
    """
    count = len(arrival)
    present = np.zeros(backends, np.int64)
    chosen, fewest, most = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    # Backends by their connections, from -count on: a request may seem to leave before it arrives.
    having = np.zeros(2 * count + 1, np.int64)
    having[count] = backends
    low, high = 0, 0
    gone = 0
    for i in range(count):
        while gone < count and leave[order[gone]] <= arrival[i]:
            b = backend[order[gone]]
            gone += 1
            having[count + present[b]] -= 1
            present[b] -= 1
            having[count + present[b]] += 1
            low = min(low, present[b])
            if having[count + high] == 0:
                high -= 1
        b = backend[i]
        chosen[i], fewest[i], most[i] = present[b], low, max(high, 0)
        having[count + present[b]] -= 1
        present[b] += 1
        having[count + present[b]] += 1
        high = max(high, present[b])
        if having[count + low] == 0:
            low += 1
    return chosen, fewest, most
