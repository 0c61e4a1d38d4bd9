"""Compiled: sample the departures of a first-come-first-served queue from the order, seconds and durations of lines.

Metropolis sampling over the deterministic map of the queue (Sutton & Jordan 2011): blocks of neighbouring departures
are shifted between their neighbours and the bounds of their seconds, and a shift is kept by the density of the service
times that follow from it. Departures are in the order of the lines, so the departure that frees a worker for the k-th
arrival is that of line k - W.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.compilation import compiled, compiled_part

STEP = 0.002  # s, of the bins of service times
NOISE = 2  # steps below 0 that the durations' own error explains
BELOW, SLOPE = -2.3, 100.0  # log density of a service below that, and its fall per second
PENALTY = 4.0  # nats: the worker that a request needs is freed after its own departure


@compiled_part
def _place(service, bin_of):  # type: ignore[no-untyped-def] # numba
    return bin_of[min(np.int64((service + NOISE * STEP) / STEP), len(bin_of) - 1)]


@compiled_part
def _service(line, departure, arrival, rank, workers):  # type: ignore[no-untyped-def] # numba
    begin = arrival[line]
    freed = rank[line] - workers
    if freed >= 0 and departure[freed] > begin:
        begin = departure[freed]
    return departure[line] - begin


@compiled_part
def _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of):  # type: ignore[no-untyped-def] # numba
    if rank[line] - workers >= line:
        return logs[codes[line], bin_of[NOISE]] - PENALTY
    service = _service(line, departure, arrival, rank, workers)
    if service < -NOISE * STEP:
        return BELOW + SLOPE * service
    return logs[codes[line], _place(service, bin_of)]


@compiled_part
def _moved(line, arrival, order, rank):  # type: ignore[no-untyped-def] # numba
    """Put a line whose arrival has changed into its place, and return the lowest and the highest rank touched."""
    first = at = rank[line]
    while at + 1 < len(order) and arrival[order[at + 1]] < arrival[line]:
        order[at] = order[at + 1]
        rank[order[at]] = at
        at += 1
    while at > 0 and arrival[order[at - 1]] > arrival[line]:
        order[at] = order[at - 1]
        rank[order[at]] = at
        at -= 1
    order[at] = line
    rank[line] = at
    return min(first, at), max(first, at)


@compiled_part
def _shift(begin, end, by, departure, arrival, order, rank):  # type: ignore[no-untyped-def] # numba
    """Shift the departures [begin, end) and their arrivals; return the lowest and the highest rank touched."""
    low, high = len(order), -1
    for line in range(begin, end):
        departure[line] += by
        arrival[line] += by
    for step in range(end - begin):
        line = end - 1 - step if by > 0 else begin + step
        one, other = _moved(line, arrival, order, rank)
        low, high = min(low, one), max(high, other)
    return low, high


@compiled
def fitted(departure, arrival, rank, workers, codes, classes, bin_of, widths):  # type: ignore[no-untyped-def] # numba
    """Return (class, bin) -> log density of the service times, by their histogram with half a value in each bin."""
    counts = np.full((classes, len(widths)), 0.5)
    for line in range(len(departure)):
        service = _service(line, departure, arrival, rank, workers)
        if rank[line] - workers < line and service >= -NOISE * STEP:
            counts[codes[line], _place(service, bin_of)] += 1
    for code in range(classes):
        counts[code] = np.log(counts[code] / counts[code].sum() / widths)
    return counts


@compiled
def log_densities(departure, arrival, rank, workers, codes, logs, bin_of):  # type: ignore[no-untyped-def] # numba
    """Return the log density of the service time of each line."""
    result = np.empty(len(departure))
    for line in range(len(departure)):
        result[line] = _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of)
    return result


@compiled
def services_of(departure, arrival, rank, workers):  # type: ignore[no-untyped-def] # numba
    """Return the service time of each line, s."""
    result = np.empty(len(departure))
    for line in range(len(departure)):
        result[line] = _service(line, departure, arrival, rank, workers)
    return result


@compiled
def sweep(departure, arrival, second, order, rank, workers, codes, logs, bin_of, sizes, heat, seed):  # type: ignore[no-untyped-def] # numba
    """Shift blocks of lines at random, as often as there are lines, for each size; change the arrays in place.

    Args:
        departure: s, ascending.
        arrival: s, of the same lines.
        second: s, the second that each departure lies in.
        order: lines by their arrival.
        rank: place of each line in ``order``.
        workers: number of workers.
        codes: class of each line.
        logs: class, bin -> log density of service times.
        bin_of: bin of each step.
        sizes: lines of a block.
        heat: power of the density; 0: only order and seconds count.
        seed: of the random numbers.
    """
    np.random.seed(seed)
    count = len(departure)
    density = log_densities(departure, arrival, rank, workers, codes, logs, bin_of)
    for size in sizes:
        for _ in range(count // size):
            begin = np.random.randint(0, count - size + 1)
            end = begin + size
            low, high = -1e9, 1e9
            for line in range(begin, end):
                low = max(low, second[line] - departure[line])
                high = min(high, second[line] + 1.0 - departure[line])
            if begin > 0:
                low = max(low, departure[begin - 1] - departure[begin])
            if end < count:
                high = min(high, departure[end] - departure[end - 1])
            if high <= low:
                continue
            by = low + (high - low) * np.random.random()
            first, last = _shift(begin, end, by, departure, arrival, order, rank)
            gained = 0.0
            for k in range(first, last + 1):
                line = order[k]
                gained += _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of) - density[line]
            # Requests that a departure of the block makes room for.
            for k in range(begin + workers, min(end + workers, count)):
                if k < first or k > last:
                    line = order[k]
                    gained += _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of) - density[line]
            if gained < 0 and np.random.random() >= np.exp(heat * gained):
                _shift(begin, end, -by, departure, arrival, order, rank)
                continue
            for k in range(first, last + 1):
                line = order[k]
                density[line] = _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of)
            for k in range(begin + workers, min(end + workers, count)):
                line = order[k]
                density[line] = _log_density(line, departure, arrival, rank, workers, codes, logs, bin_of)
    return density
