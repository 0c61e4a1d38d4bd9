"""How an upstream's balancer seems to choose, seen from where requests went."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.explain.visits import Visits

Floats = npt.NDArray[np.float64]

OTHERWISE = "round_robin"
TELLING = 100  # arrivals that met backends with different numbers of connections, to tell
MOSTLY = 0.9  # of them went where the fewest were: the logged instants are milliseconds, so not all do


def balancers_seen(found: Visits, end: Floats) -> tuple[str, ...]:
    """Per upstream ``least_conn`` where requests went to the backend with the fewest connections, else ``round_robin``.

    Of two backends a balancer that does not look meets the one with fewer about every other time.

    Args:
        found: the requests.
        end: s after their base, n: when nginx was done with each.
    """
    pool = found.pool[found.backend] if len(found) else np.empty(0, np.int32)
    return tuple(
        "least_conn" if _share_to_fewest(found, end, np.flatnonzero(pool == number)) >= MOSTLY else OTHERWISE
        for number in range(len(found.pools))
    )


def _share_to_fewest(found: Visits, end: Floats, rows: npt.NDArray[np.int64]) -> float:
    """Of the arrivals that had a choice, the share that went where the fewest connections were; 0 where few had."""
    arrival, backend = found.arrival[rows], found.backend[rows]
    chosen = np.zeros(len(rows), np.int64)
    fewest = np.full(len(rows), np.iinfo(np.int64).max)
    most = np.zeros(len(rows), np.int64)
    for code in np.unique(backend):
        here = backend == code
        come = np.cumsum(here) - here
        gone = np.searchsorted(np.sort(end[rows][here]), arrival, side="right")
        present = come - gone
        chosen[here] = present[here]
        fewest, most = np.minimum(fewest, present), np.maximum(most, present)
    choice = most > fewest
    return float((chosen[choice] == fewest[choice]).mean()) if choice.sum() >= TELLING else 0.0
