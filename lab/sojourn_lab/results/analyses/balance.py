"""How evenly the load was spread: requests and waits of each backend, and the waiting that imbalance caused.

`imbalance` is defined as in `sojourn blame`: the seconds that requests waited at one backend while another had a free
worker. With an action `add_backend` the figures are given before and after it, with the share of the added backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from sojourn.model.arrays import Bools, Floats, Ints
from sojourn.timeline.charge import accounts
from sojourn.timeline.services import services_of
from sojourn.timeline.visits import Visits, visits

from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.runtime.backends import HOST

SETTLED = 1.0 / 3.0
"""The last part of the time after an addition, in which queues that had built up before it have drained."""

OF_FAIR = 0.8
"""The added backend has its share when it gets this part of an even one."""

LOOKED_BACK = 10
"""Requests per backend over which that share is computed."""


def figures(data: CaseData) -> dict[str, Any]:
    """Return how a case's requests were spread over the backends.

    Without an addition: `shares_and_waits` of the window. With one: the same `before` and `after` it and in its last
    third (`settled`), and `newcomer_figures` as `joined`.
    """
    names = backend_names(data)
    added = next((action.at for action in data.case.actions if action.do == "add_backend"), None)
    if added is None:
        return shares_and_waits(visits(data.rows.lazy()), names, data.until - data.since)
    at = data.since + added
    return before_and_after(
        visits(data.rows_between(data.since, at).lazy()),
        visits(data.rows.lazy()),
        names,
        since=data.since,
        at=at,
        until=data.until,
    )


def before_and_after(
    early: Visits, visits: Visits, names: Mapping[str, str], *, since: float, at: float, until: float
) -> dict[str, Any]:
    """Return `before`, `after`, `settled` and `joined` of an addition at the instant `at` (unix s).

    `early` holds only the requests that arrived before the addition: none could go to the added backend, and later
    requests were behind them in the queue. `visits` holds the whole window.
    """
    arrival = visits.base.timestamp() + visits.arrival
    from_when = until - SETTLED * (until - at)
    return {
        "before": shares_and_waits(early, names, at - since),
        "after": shares_and_waits(visits, names, until - at, arrival >= at),
        "settled": shares_and_waits(visits, names, until - from_when, arrival >= from_when),
        "joined": newcomer_figures(arrival, visits.backend.astype(np.int64), at, from_when, len(names)),
    }


def shares_and_waits(
    visits: Visits, names: Mapping[str, str], seconds: float, mask: Bools | None = None
) -> dict[str, Any]:
    """Return the share and the waits of each backend, over the visits of `mask` (None: all).

    `backends`: by name, `requests`, `share` of all, `rate` per second, means of `service_time` and `queueing_delay`
    (s). `most` and `least`: the largest and smallest share. `queueing_delay`: mean and p99, s. `waited`: the sum of all
    waits, s; `imbalance`: its part during which another backend had a free worker; `imbalance_share`: of `waited`;
    `imbalance_mean`: seconds per request.
    """
    chosen = np.ones(len(visits), dtype=np.bool_) if mask is None else mask
    count = int(chosen.sum())
    codes = {name: code for code, name in enumerate(visits.backends)}
    spread = {
        name: _at_one(visits, chosen & (visits.backend == codes.get(address, -1)), count, seconds)
        for address, name in names.items()
    }
    charged = accounts(visits, services_of(visits), chosen)
    waited, imbalance = float(visits.wait[chosen].sum()), float(charged.imbalance.sum())
    shares = [each["share"] for each in spread.values()]
    wait = visits.wait[chosen]
    return {
        "requests": count,
        "rate": count / seconds if seconds > 0.0 else None,
        "backends": spread,
        "most": max(shares, default=0.0),
        "least": min(shares, default=0.0),
        "queueing_delay": {
            "mean": float(wait.mean()) if count else None,
            "p99": float(np.quantile(wait, 0.99)) if count else None,
        },
        "waited": waited,
        "imbalance": imbalance,
        "imbalance_share": imbalance / waited if waited > 0.0 else None,
        "imbalance_mean": imbalance / count if count else None,
    }


def _at_one(visits: Visits, there: Bools, count: int, seconds: float) -> dict[str, Any]:
    own = int(there.sum())
    held = visits.held[there]
    measured = held[~np.isnan(held)]
    return {
        "requests": own,
        "share": own / count if count else 0.0,
        "rate": own / seconds if seconds > 0.0 else None,
        "service_time": float(measured.mean()) if len(measured) else None,
        "queueing_delay": float(visits.wait[there].mean()) if own else None,
    }


def newcomer_figures(arrival: Floats, backend: Ints, at: float, settled: float, backends: int) -> dict[str, Any]:
    """Return the requests that the backend added at `at` got; instants in unix s, arrivals in order.

    `share`: of all requests after the addition; `settled_share`: of those from the instant `settled` on; `fair`: an
    even share. `seconds_to_first`: from the addition to its first request; `seconds_to_share`: until it had OF_FAIR of
    an even share of the latest requests. None where that did not happen.
    """
    later = arrival >= at
    early = set(backend[~later].tolist())
    new = later & ~np.isin(backend, list(early))
    fair = 1.0 / backends
    own = arrival[new]
    late = arrival >= settled
    span = LOOKED_BACK * backends
    since = np.flatnonzero(later)
    due: float | None = None
    if len(since) >= span:
        got = np.convolve(new[since].astype(np.float64), np.ones(span), mode="valid") / span
        enough = np.flatnonzero(got >= OF_FAIR * fair)
        due = float(arrival[since[enough[0] + span - 1]] - at) if len(enough) else None
    return {
        "requests": len(own),
        "share": len(own) / int(later.sum()) if later.any() else 0.0,
        "settled_share": float(new[late].mean()) if late.any() else 0.0,
        "fair": fair,
        "seconds_to_first": float(own[0] - at) if len(own) else None,
        "seconds_to_share": due,
    }


def backend_names(data: CaseData) -> dict[str, str]:
    """Return address -> name of every backend that was up in the case's window, in the order of the names.

    The names come from listen.jsonl, which samples the socket of each. Without it, the address is the name.
    """
    answered = set(data.rows["upstream"].unique().drop_nulls())
    backends = {f"backend-{number + 1}" for number in range(data.topology.backends + data.topology.standby)}
    names: dict[str, str] = {}
    samples = data.folder / "listen.jsonl"
    if samples.exists():
        with samples.open("rb") as lines:
            for line in lines:
                sample = msgspec.json.decode(line)
                if sample.get("socket") in backends and data.since <= sample["time"] < data.until:
                    names[f"{HOST}:{sample['port']}"] = sample["socket"]
    if len(names) < len(backends) or not answered <= names.keys():
        names = {address: address for address in answered}
    return dict(sorted(names.items(), key=lambda pair: (len(pair[1]), pair[1])))
