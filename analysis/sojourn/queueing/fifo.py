"""First come, first served, by recursion: nobody is looked at twice.

For one worker a request begins when it comes or when its forerunner is done, whichever is later (Lindley 1952). For c
workers it begins when the first of them is free; the times at which they get free are all there is to remember, in
order (Kiefer & Wolfowitz 1955).
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from sojourn.model.compilation import compiled


@compiled
def starts(arrivals, services, queue, first, free, label, start, by):
    """Fill in when each request begins, and by whose worker.

    Args:
        arrivals, services: s, n each, arrivals in order.
        queue: n, where each waits; empty: all in queue 0.
        first: the workers of queue q are those from ``first[q]`` up to ``first[q + 1]``.
        free: s, per worker, when it gets free, ascending within a queue; changed.
        label: per worker, what to note of whoever it serves; moves with it.
        start, by: n each, filled in.
    """
    one_queue = len(queue) == 0
    for i in range(len(arrivals)):
        q = 0 if one_queue else queue[i]
        low, high = first[q], first[q + 1]
        begin = max(arrivals[i], free[low])
        end = begin + services[i]
        owner = label[low]
        # This worker gets free at `end`: those who get free before move up.
        k = low + 1
        while k < high and free[k] <= end:
            free[k - 1] = free[k]
            label[k - 1] = label[k]
            k += 1
        free[k - 1] = end
        label[k - 1] = owner
        start[i] = begin
        by[i] = owner
