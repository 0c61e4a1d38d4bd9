"""The generator's local ports as a resource: how many a load needs, how many there were, and the rate they allowed.

A connection holds a port from its start to its end. By Little's law a load of λ requests a second needs λ · R of them
on average, R being the time a connection lasts; and P ports carry at most P / R requests a second, whatever the offered
load: the same plateau as that of an exhausted NAT gateway.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sojourn_lab.results.analyses.data import CaseData

REFUSED = "no_local_port"


def figures(data: CaseData) -> dict[str, Any]:
    """Return the use of the generator's ports in the window.

    `held`: mean seconds a connection held its port. `ports`: how many there were (None: the machine's default).
    `needed`: λ · R of the offered load. `limit`: ports / R, requests a second; `expected`: the smaller of `limit` and
    the offered rate. `rate`: requests a second that got a port. `refused`: requests that did not, `refused_share` of
    all. `most`: the most connections open at one instant. `logged_errors`: requests that failed, by nginx's log.
    """
    inside = [each for each in data.records if data.since <= each.intended < data.until and each.done is not None]
    sent = [each for each in inside if each.error != REFUSED]
    refused = len(inside) - len(sent)
    seconds = data.until - data.since
    spans = [(each.sent, each.done) for each in sent if each.done is not None]
    mean_held = sum(done - begun for begun, done in spans) / len(spans) if spans else None
    ports = data.case.local_ports
    offered = data.summary.offered_rate
    limit = ports / mean_held if ports is not None and mean_held else None
    return {
        "held": mean_held,
        "ports": ports,
        "needed": offered * mean_held if mean_held is not None else None,
        "limit": limit,
        "expected": offered if limit is None else min(offered, limit),
        "rate": len(sent) / seconds,
        "refused": refused,
        "refused_share": refused / len(inside) if inside else None,
        "most": most_at_once(spans),
        "logged_errors": int((data.rows["status"] >= 400).sum()),
    }


def most_at_once(spans: list[tuple[float, float]]) -> int:
    """Return the largest number of spans (begin, end) that hold at one instant; ends come before beginnings."""
    instants = np.array([[end, -1.0] for _, end in spans] + [[begin, 1.0] for begin, _ in spans])
    if not len(instants):
        return 0
    order = np.lexsort((instants[:, 1], instants[:, 0]))
    return int(np.cumsum(instants[order, 1]).max())
