"""Estimate by how much the clocks of several proxies in front of one backend differ, from their logs alone.

If a clock is ahead, the merged order of the arrivals is wrong and services that follow from it are blurred: the
likelihood of the number of workers (``sojourn.estimation.likelihood``) is highest at the true difference.
"""

from __future__ import annotations

import math

import numpy as np

from sojourn.estimation.kernels import depth_on_arrival
from sojourn.estimation.likelihood import Queue, busiest, searched
from sojourn.model.arrays import Floats, Ints

SAMPLE = 20_000  # requests of the busiest stretch
LEAST = 1_000  # requests of a proxy in it
FURTHEST = 0.1  # s
STEPS = (0.004, 0.001)  # s, of the first search and of the one around its best
NEAR = 2  # numbers of workers on each side of the likeliest one without a correction
NATS, ERRORS = 10.0, 3.0  # by which the likelihood has to rise


def skews_of(arrival: Floats, departure: Floats, proxies: Ints, routes: Ints, error: float) -> Floats:
    """Return by how much the clock of each proxy is ahead of that of the one with most requests, s.

    0 where no difference is certain: few requests, no queue, or no overlap in time.

    Args:
        arrival: s, as each proxy's clock shows them.
        departure: s, likewise.
        proxies: number of each request's proxy, from 0.
        routes: number of each request's route, from 0.
        error: of the instants, s.
    """
    counts = np.bincount(proxies)
    skews = np.zeros(len(counts))
    if len(counts) < 2:
        return skews
    chosen = _busiest(arrival, departure)
    a, d, p, r = arrival[chosen], departure[chosen], proxies[chosen], routes[chosen]
    deepest = int(depth_on_arrival(np.sort(a), np.sort(d)).max()) + 1
    likeliest = searched(Queue.of(*_in_order(a, d, r), error), 1, deepest).best
    numbers = range(max(likeliest - NEAR, 1), likeliest + NEAR + 1)

    def evidence(shifts: Floats) -> Floats:
        queue = Queue.of(*_in_order(a - shifts[p], d - shifts[p], r), error)
        blocks = [queue.block_likelihoods(number) for number in numbers]
        return max(blocks, key=lambda each: float(each.sum()))

    for proxy in np.argsort(-counts, kind="stable")[1:]:
        if (p == proxy).sum() < LEAST or (p != proxy).sum() < LEAST:
            continue
        before, best = evidence(skews), 0.0
        for step in STEPS:
            reach = FURTHEST if step == STEPS[0] else STEPS[0]
            shifts = best + np.arange(-round(reach / step), round(reach / step) + 1) * step
            sums = [float(evidence(_with(skews, proxy, shift)).sum()) for shift in shifts]
            best = float(shifts[int(np.argmax(sums))])
        gained = evidence(_with(skews, proxy, best)) - before
        deviation = float(gained.std(ddof=1)) * math.sqrt(len(gained)) if len(gained) > 1 else math.inf
        if float(gained.sum()) > max(NATS, ERRORS * deviation):
            skews[proxy] = best
    return skews


def _with(skews: Floats, proxy: int, shift: float) -> Floats:
    changed = skews.copy()
    changed[proxy] = shift
    return changed


def _in_order(arrival: Floats, departure: Floats, routes: Ints) -> tuple[Floats, Floats, Ints]:
    order = np.lexsort((departure, arrival))
    return arrival[order], departure[order], routes[order]


def _busiest(arrival: Floats, departure: Floats) -> Ints:
    """Return the positions of the requests of the stretch with the most requests in the system."""
    order = np.argsort(arrival, kind="stable")
    if len(order) <= SAMPLE:
        return order
    begin = busiest(depth_on_arrival(arrival[order], np.sort(departure)), SAMPLE)
    return order[begin : begin + SAMPLE]
