"""What the services of a case share, as `sojourn whatif` estimates it from nginx's log alone.

scope            `backend`, `host` or `all`: of what shares a resource; null: services depend on nothing, or no law fits
name             of the resource; of several, the one that slows services most
family           `cores`, `lock`, `part`, `coherence` or `none`
share            part of each service that needs the resource
capacity         services that the resource serves at full speed, with `low` and `high`, 95 %
busy             share of the capacity that is used
slowdown         mean service / mean service alone
places           of a queue inside the app, with `places_low` and `places_high`; null: there is none
inner_wait       mean wait in that queue, s
service          mean service by the log, s
replay_mean, replay_p99    error of the replay without a change: replayed / measured - 1
refused          why no change is predicted; null: changes are predicted
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.analyses.whatif.analysis import whatif
from sojourn.model.errors import SojournError

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData

UNCHANGED = {"load": "x1"}
OF_RESOURCE = ("name", "family", "share", "capacity", "low", "high", "busy", "slowdown")


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case, warm-up included; see the module. LabError if there is nothing to replay."""
    rows = data.rows_between()
    try:
        replayed = whatif(rows.lazy(), variants=[UNCHANGED]).to_dict()
    except SojournError as error:
        raise LabError(f"the analysis `contention`: {error}") from None
    return {**contention_figures(replayed), "service": rows["service_time"].mean()}


def contention_figures(replayed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a result of `sojourn whatif --json`; see the module."""
    contention = replayed["contention"] or {}
    resource: Mapping[str, Any] = max(
        contention.get("resources", ()), key=lambda each: float(each["slowdown"]), default={}
    )
    queue: Mapping[str, Any] = max(contention.get("inner_queues", ()), key=lambda each: float(each["wait"]), default={})
    return {
        "scope": contention.get("scope"),
        **{name: resource.get(name) for name in OF_RESOURCE},
        "places": queue.get("places"),
        "places_low": queue.get("low"),
        "places_high": queue.get("high"),
        "inner_wait": queue.get("wait"),
        "replay_mean": replayed["error"].get("mean"),
        "replay_p99": replayed["error"].get("p99"),
        "refused": replayed["refused"],
    }
