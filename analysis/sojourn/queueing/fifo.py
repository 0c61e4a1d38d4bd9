"""First come, first served, by recursion: one pass over the requests.

With one worker, service starts at the arrival or when the preceding request ends, whichever is later (Lindley 1952).
With c workers it starts when the first of them is free; the state is the ordered times at which the workers become
free (Kiefer & Wolfowitz 1955).
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from sojourn.model.compilation import compiled


@compiled
def starts(arrivals, services, queue, first, free, label, start, by):
    """Compute when each service starts, and by which worker.

    Args:
        arrivals: s, n, in order.
        services: s, n.
        queue: n, the queue of each request; empty: all in queue 0.
        first: the workers of queue q are those from ``first[q]`` up to ``first[q + 1]``.
        free: s, per worker, when it becomes free, ascending within a queue; changed.
        label: per worker, its entry in ``by``; moves with it.
        start: n, filled in: s.
        by: n, filled in: label of the worker.
    """
    one_queue = len(queue) == 0
    for i in range(len(arrivals)):
        q = 0 if one_queue else queue[i]
        low, high = first[q], first[q + 1]
        begin = max(arrivals[i], free[low])
        end = begin + services[i]
        owner = label[low]
        # This worker becomes free at `end`: workers that become free before move up.
        k = low + 1
        while k < high and free[k] <= end:
            free[k - 1] = free[k]
            label[k - 1] = label[k]
            k += 1
        free[k - 1] = end
        label[k - 1] = owner
        start[i] = begin
        by[i] = owner
