"""Compiled: the deterministic map of a first-come-first-served queue, and what it needs of arrivals and departures."""

from __future__ import annotations

import numpy as np

from sojourn.model.compilation import compiled


@compiled
def service_times(arrival, departure, ordered, workers):  # type: ignore[no-untyped-def] # numba
    """Return the service time of each request: its departure less the instant at which a worker was free for it, s.

    ``workers``: their number at each request.
    """
    count = len(arrival)
    service = np.empty(count)
    for k in range(count):
        begin = arrival[k]
        if k >= workers[k] and ordered[k - workers[k]] > begin:
            begin = ordered[k - workers[k]]
        service[k] = departure[k] - begin
    return service


@compiled
def depth_on_arrival(arrival, ordered):  # type: ignore[no-untyped-def] # numba
    """Return the requests in the system that each arrival finds."""
    count = len(arrival)
    depth = np.empty(count, np.int64)
    gone = 0
    for k in range(count):
        while gone < count and ordered[gone] <= arrival[k]:
            gone += 1
        depth[k] = max(k - gone, 0)
    return depth


@compiled
def older_inside(arrival, departure, ordered, margin):  # type: ignore[no-untyped-def] # numba
    """Return the older requests that are still inside when each request leaves, both by more than ``margin``, s."""
    count = len(departure)
    tree = np.zeros(count + 1, np.int64)  # Fenwick 1994: sums over the older requests, by the rank of their departure
    inside = np.empty(count, np.int64)
    older = 0
    for k in range(count):
        while arrival[older] < arrival[k] - margin:
            node = np.searchsorted(ordered, departure[older], side="left") + 1
            while node <= count:
                tree[node] += 1
                node += node & -node
            older += 1
        node = np.searchsorted(ordered, departure[k] + margin, side="right")
        gone = 0
        while node > 0:
            gone += tree[node]
            node -= node & -node
        inside[k] = older - gone
    return inside


@compiled
def log_likelihoods(arrival, departure, ordered, codes, classes, workers, step, bin_of, widths, block):  # type: ignore[no-untyped-def] # numba
    """Return the sum of log densities of the service times by block, and their mean (s).

    The density of a class of requests is the histogram of its own service times, less the one value that is looked at.

    Args:
        arrival: s, ascending.
        departure: s, of the same requests.
        ordered: the departures, ascending.
        codes: class of each request.
        classes: number of classes.
        workers: number of workers.
        step: s; bin edges are multiples of it, the first is ``-step``.
        bin_of: bin of each step, the last of all that is longer.
        widths: of the bins, s.
        block: requests of a block.
    """
    count, bins = len(arrival), len(widths)
    counts = np.zeros((classes, bins), np.int64)
    at = np.empty(count, np.int32)
    total = 0.0
    for k in range(count):
        begin = arrival[k]
        if k >= workers and ordered[k - workers] > begin:
            begin = ordered[k - workers]
        service = departure[k] - begin
        total += service
        if service < -step:
            at[k] = -1 - np.int32(min((-step - service) * 1e3, 1e9))  # ms below the first bin
        else:
            at[k] = bin_of[min(np.int64((service + step) / step), len(bin_of) - 1)]
            counts[codes[k], at[k]] += 1
    logs = np.empty((classes, bins))
    below = np.empty(classes)
    for code in range(classes):
        members = max(counts[code].sum(), 2)
        for k in range(bins):
            logs[code, k] = np.log(max(counts[code, k] - 1.0, 0.5) / (members - 1.0) / widths[k])
        below[code] = np.log(0.1 / (members * widths[0]))
    sums = np.zeros((count + block - 1) // block)
    for k in range(count):
        sums[k // block] += logs[codes[k], at[k]] if at[k] >= 0 else below[codes[k]] + 0.1 * (at[k] + 1)
    return sums, total / max(count, 1)


@compiled
def served_in_order(arrival, service, workers):  # type: ignore[no-untyped-def] # numba
    """Return the begin of each service where workers serve in the order of the arrivals, s."""
    free = np.zeros(workers) + arrival[0]
    start = np.empty(len(arrival))
    for k in range(len(arrival)):
        first = np.argmin(free)
        start[k] = max(arrival[k], free[first])
        free[first] = start[k] + service[k]
    return start
