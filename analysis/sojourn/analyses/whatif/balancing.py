"""How an upstream's balancer seems to choose, seen from where requests went."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.model.compilation import compiled
from sojourn.timeline.visits import Visits

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
    codes, backend = np.unique(found.backend[rows], return_inverse=True)
    leave = end[rows]
    chosen, fewest, most = _present(found.arrival[rows], backend, leave, np.argsort(leave), len(codes))
    choice = most > fewest
    return float((chosen[choice] == fewest[choice]).mean()) if choice.sum() >= TELLING else 0.0


@compiled
def _present(arrival, backend, leave, order, backends):  # type: ignore[no-untyped-def]
    """Connections at each arrival, which come in order: at the backend chosen, the fewest at any, and the most.

    One pass over arrivals and departures: sorting those of each backend anew would cost a pass for every backend.
    """
    count = len(arrival)
    present = np.zeros(backends, np.int64)
    chosen, fewest, most = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    gone = 0
    for i in range(count):
        while gone < count and leave[order[gone]] <= arrival[i]:
            present[backend[order[gone]]] -= 1
            gone += 1
        chosen[i] = present[backend[i]]
        fewest[i] = present.min()
        most[i] = max(present.max(), 0)
        present[backend[i]] += 1
    return chosen, fewest, most
