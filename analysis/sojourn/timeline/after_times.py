"""The times after the answer where some are known only to lie between two bounds.

A worker whose next request waited for it was held until that request started: the time is exact. Where no request
waited for it, the worker became free between the last moment at which a request waited, as it would have taken it, and
its next start: the time is censored between two bounds. The distribution is estimated from both by self-consistency
(Turnbull 1976): what is known only to lie between bounds counts for each value between them by its probability.
"""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Floats

ITERATIONS, PRECISION = 500, 1e-7


def distribution(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the values, s, ascending, and the probabilities of times between bounds; equal bounds: an exact time.

    ``upper``: inf where there is no bound.
    """
    exact = lower == upper
    values, count = np.unique(upper[exact], return_counts=True)
    low, high = lower[~exact], upper[~exact]
    # Where no exact time lies between two bounds, the lower one is a value, too.
    alone = np.searchsorted(values, high, "right") <= np.searchsorted(values, low, "left")
    at = np.unique(np.concatenate([values, low[alone]]))
    exact_counts = np.zeros(len(at))
    exact_counts[np.searchsorted(at, values)] = count
    first, last = np.searchsorted(at, low, "left"), np.searchsorted(at, high, "right")
    share = np.full(len(at), 1.0 / max(len(at), 1))
    for _ in range(ITERATIONS if len(low) else 1):
        below = np.append(0.0, np.cumsum(share))
        each = 1.0 / np.maximum(below[last] - below[first], 1e-300)
        steps = np.bincount(first, each, len(at) + 1) - np.bincount(last, each, len(at) + 1)
        improved = (exact_counts + share * np.maximum(np.cumsum(steps)[:-1], 0.0)) / len(lower)
        moved = float(np.abs(improved - share).max(initial=0.0))
        share = improved
        if moved < PRECISION:
            break
    return at, share / max(float(share.sum()), 1e-300)


def completed(lower: Floats, upper: Floats) -> Floats:
    """Return a time, s, for each pair of bounds: drawn from the distribution of all, between the bounds.

    The draws are even: equally spaced probabilities, in a random order that is the same each time.
    """
    result, censored = upper.copy(), np.flatnonzero(lower < upper)
    if not len(censored):
        return result
    at, share = distribution(lower, upper)
    below = np.append(0.0, np.cumsum(share))
    first = np.searchsorted(at, lower[censored], "left")
    last = np.searchsorted(at, upper[censored], "right")
    even = (np.random.default_rng(0).permutation(len(censored)) + 0.5) / len(censored)
    targets = below[first] + even * (below[last] - below[first])
    drawn = np.clip(np.searchsorted(below, targets, "right") - 1, first, np.maximum(last - 1, first))
    result[censored] = at[np.minimum(drawn, len(at) - 1)]
    return result
