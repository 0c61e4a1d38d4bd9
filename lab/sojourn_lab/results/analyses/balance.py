"""How evenly the load was spread: who got what, who waited, and what of it was waiting in the wrong line.

`imbalance` is the account of `sojourn blame`: the seconds that requests waited at one backend while another had a free
worker. With an action `add_backend` the figures are given before and after it, and say what the newcomer got.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.runtime.backends import HOST

if TYPE_CHECKING:
    from sojourn.timeline.visits import Visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SETTLED = 1.0 / 3.0
"""The part of the time after an addition, its end, in which queues that had built up before have gone."""

OF_FAIR = 0.8
"""The newcomer has its share when it gets this part of an even one."""

LOOKED_BACK = 10
"""Requests for each backend, over which that share is taken."""


def figures(data: CaseData) -> dict[str, Any]:
    """Return how a case's requests were spread over the backends.

    Without an addition: what `shares_and_waits` finds in the window. With one: the same `before` and `after` it and in
    its last third (`settled`), and as `joined` what `newcomer_figures` finds.
    """
    from sojourn.timeline.visits import visits  # noqa: PLC0415 - brings Polars

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
    early: Visits, found: Visits, names: Mapping[str, str], *, since: float, at: float, until: float
) -> dict[str, Any]:
    """Return `before`, `after`, `settled` and `joined` of an addition at the instant `at` (unix s).

    `early` has the requests that came before it alone: they could not know of the newcomer, and what came later was
    behind them in line. `found` has all of the window.
    """
    arrival = found.base.timestamp() + found.arrival
    from_when = until - SETTLED * (until - at)
    return {
        "before": shares_and_waits(early, names, at - since),
        "after": shares_and_waits(found, names, until - at, arrival >= at),
        "settled": shares_and_waits(found, names, until - from_when, arrival >= from_when),
        "joined": newcomer_figures(arrival, found.backend.astype(np.int64), at, from_when, len(names)),
    }


def shares_and_waits(
    found: Visits, names: Mapping[str, str], seconds: float, asked: Bools | None = None
) -> dict[str, Any]:
    """Return who got what and how long it waited there, of the visits `asked` (None: all).

    `backends`: by name, `requests`, `share` of all, `rate` per second, means of `service_time` and `queueing_delay`
    (s). `most` and `least`: the largest and smallest share. `queueing_delay`: mean and p99, s. `waited` is the sum of
    all waits, s, and `imbalance` what of it was spent while another backend had a free worker; `imbalance_share` is of
    `waited`, `imbalance_mean` in seconds a request.
    """
    from sojourn.timeline.charge import accounts, services_of  # noqa: PLC0415 - brings numba

    chosen = np.ones(len(found), dtype=np.bool_) if asked is None else asked
    count = int(chosen.sum())
    known = {name: code for code, name in enumerate(found.backends)}
    spread = {
        name: _at_one(found, chosen & (found.backend == known.get(address, -1)), count, seconds)
        for address, name in names.items()
    }
    charged = accounts(found, services_of(found), chosen)
    waited, imbalance = float(found.wait[chosen].sum()), float(charged.imbalance.sum())
    shares = [each["share"] for each in spread.values()]
    wait = found.wait[chosen]
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


def _at_one(found: Visits, there: Bools, count: int, seconds: float) -> dict[str, Any]:
    own = int(there.sum())
    held = found.held[there]
    told = held[~np.isnan(held)]
    return {
        "requests": own,
        "share": own / count if count else 0.0,
        "rate": own / seconds if seconds > 0.0 else None,
        "service_time": float(told.mean()) if len(told) else None,
        "queueing_delay": float(found.wait[there].mean()) if own else None,
    }


def newcomer_figures(arrival: Floats, backend: Ints, at: float, settled: float, backends: int) -> dict[str, Any]:
    """Return what the backend that was added at `at` got; instants in unix s, arrivals in order.

    `share` of all requests after it, `settled_share` of those from the instant `settled` on, `fair` an even share.
    `seconds_to_first`: from the addition to its first request, `seconds_to_share`: until it had OF_FAIR of an even
    share of the requests before; None where it never came to that.
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
    """Return the name of every backend that was up in the case's window, by its address, in the order of the names.

    They are in listen.jsonl, which samples the socket of each. Where it could not, addresses stand for names.
    """
    answered = set(data.rows["upstream"].unique().drop_nulls())
    wanted = {f"backend-{number + 1}" for number in range(data.topology.backends + data.topology.standby)}
    found: dict[str, str] = {}
    samples = data.folder / "listen.jsonl"
    if samples.exists():
        with samples.open("rb") as lines:
            for line in lines:
                sample = msgspec.json.decode(line)
                if sample.get("socket") in wanted and data.since <= sample["time"] < data.until:
                    found[f"{HOST}:{sample['port']}"] = sample["socket"]
    if len(found) < len(wanted) or not answered <= found.keys():
        found = {address: address for address in answered}
    return dict(sorted(found.items(), key=lambda pair: (len(pair[1]), pair[1])))
