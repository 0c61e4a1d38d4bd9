"""Goodput of a case: requests served for clients that were waiting, and work done for clients that had left.

wanted, served      requests that clients intended in the window, and those of them that were answered below 400
share, rate         served / wanted; served a second
capacity            requests a second that the workers can serve: workers / mean service time
of_capacity         rate / capacity
given_up            requests of the whole case that nginx or the client gave up on (504, 499)
turned_away         requests of the whole case that were refused (503)
worked, wasted      seconds for which workers were held; of these, for requests that had been given up on. From the
                    app's spans: requests without one are counted in `unknown`, not as 0
wasted_share        wasted / worked
"""

from __future__ import annotations

from typing import Any

from sojourn.analyses.goodput.analysis import goodput

from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.topology import Topology


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module."""
    # The whole case: work wasted in the window may belong to requests that arrived before it.
    rows = data.rows_between()
    result = goodput(rows.lazy())
    useful = data.summary.useful
    capacity = capacity_of(data.topology, data.case)
    rate = None if useful is None else useful.rate
    return {
        "wanted": None if useful is None else useful.wanted,
        "served": None if useful is None else useful.served,
        "share": None if useful is None else useful.share,
        "rate": rate,
        "capacity": capacity,
        "of_capacity": rate / capacity if rate is not None and capacity is not None else None,
        "given_up": result.given_up,
        "turned_away": int((rows["status"] == 503).sum()),
        "unknown": result.unknown,
        "worked": result.worked,
        "wasted": result.wasted,
        "wasted_share": result.share,
    }


def capacity_of(topology: Topology, case: Case) -> float | None:
    """Return the requests a second that all backends can serve together, None where a service takes no time.

    workers / mean service time, each backend by its own slowdown; pools and standby backends are not counted.
    """
    factors = [*topology.slowdown, *[1.0] * topology.backends][: topology.backends]
    if not case.mean_service_time:
        return None
    return sum(topology.workers * topology.threads / (case.mean_service_time * factor) for factor in factors)
