"""Compute the figures of a case from its connections."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sojourn_lab.experiments.websocket.plan import Connection, ConnectionPlan, ConnectionSummary
from sojourn_lab.experiments.websocket.stations import (
    QUEUEING,
    WAITS,
    described,
    onset_of,
    slices_of,
    stations_of,
    waited,
)
from sojourn_lab.load.generator.verdict import ACHIEVED_SHARE, lag_limit
from sojourn_lab.scenario.experiment_settings import Websocket


def cost_of(connections: Sequence[Connection], settled_in: int) -> float | None:
    """Return the processor seconds of an app per connection, from the sequential connections.

    The handshake, the data-sync and the close: what a process has used at one answer less what it had used at the one
    before. The first `settled_in` are left out (imports, caches). None where fewer than three remain.
    """
    by_process: dict[int, list[float]] = defaultdict(list)
    for each in connections[settled_in:]:
        if each.server is not None:
            by_process[each.server.pid].append(each.server.cpu)
    spent = sum(used[-1] - used[0] for used in by_process.values())
    steps = sum(len(used) - 1 for used in by_process.values())
    return spent / steps if steps >= 2 else None


def unloaded_figures(connections: Sequence[Connection]) -> dict[str, Any]:
    """Return the time of a connection without queueing, s."""
    opened = [each for each in connections if each.made]
    return {"connections": len(opened), **_latencies(opened)}


def stage_figures(
    settings: Websocket,
    plan: ConnectionPlan,
    summary: ConnectionSummary,
    connections: Sequence[Connection],
    capacity: float,
) -> dict[str, Any]:
    """Return the figures of the ramp; durations in s, rates in connections per second."""
    opened = [each for each in connections if each.made]
    latencies = _latencies(opened)
    slices = slices_of(opened, summary.window.since, plan.rate / plan.ramp) if opened else []
    work = latencies["stations"]["work"]["mean"] or 0.0
    p99 = latencies["response"]["p99"]
    return {
        "rate": plan.rate,
        "capacity": capacity,
        "offered_load": plan.rate / capacity,
        "connections": {
            "offered": summary.offered,
            "made": len(opened),
            "failed": summary.offered - len(opened),
            "lost": sum(each.lost is not None for each in connections),
            "errors": dict(Counter(each.error for each in connections if each.error is not None)),
        },
        **latencies,
        "limit": settings.limit,
        "within_limit": None if p99 is None else int(p99 <= settings.limit),
        "slices": slices,
        "onset": onset_of(slices, QUEUEING * work, capacity),
        "end": _end_of_ramp(slices),
        "generator": {
            "late": summary.late.p99,
            "loop_lag": None if summary.loop_lag is None else summary.loop_lag.p99,
            "cpu": summary.cpu,
            "dropped": summary.dropped,
        },
    }


def _latencies(connections: Sequence[Connection]) -> dict[str, Any]:
    """Return `response` (data-sync sent to answered), `handshake` (begun to 101), `whole` (intended to answered).

    `reached`: begun to nginx's stamp, in steps of 1 ms. And `wait`, for the app at every station together, with the
    `stations` by themselves and `shares` of the mean wait.
    """
    stations = [waits for each in connections if (waits := stations_of(each)) is not None]
    names = list(stations[0]) if stations else [*WAITS, "work"]
    by_name = {name: described(each[name] for each in stations) for name in names}
    wait = described(waited(each) for each in stations)
    mean = wait["mean"]
    return {
        "response": described(each.answered - each.sent for each in connections if each.answered and each.sent),
        "handshake": described(each.upgraded - each.began for each in connections if each.upgraded),
        "reached": described(each["connect"] + each["proxy"] for each in stations),
        "whole": by_name.pop("whole", described([])),
        "wait": wait,
        "stations": by_name,
        "shares": {name: share_of(by_name[name]["mean"], mean) for name in WAITS},
    }


def share_of(part: float | None, whole: float | None) -> float | None:
    """Return part / whole, None if one of them is missing."""
    return part / whole if part is not None and whole else None


def _end_of_ramp(slices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the last slice, and the share of its mean wait at each station."""
    if not slices:
        return {}
    last = slices[-1]
    whole = sum(last[f"{name}_mean"] for name in WAITS)
    return {**last, "shares": {name: share_of(last[f"{name}_mean"], whole) for name in WAITS}}


def log_figures(access_log: Path, case: str, connections: Iterable[Connection]) -> dict[str, Any]:
    """Return nginx's log of the case: `upgraded` rows (101), `other` rows, and connections `missing` from it."""
    ids: set[str] = set()
    other = 0
    with access_log.open("rb") as lines:
        for line in lines:
            # nginx passes bytes on as they came, UTF-8 or not.
            row = json.loads(line.decode("utf-8", errors="replace"))
            if row["service"] != case:
                continue
            if row["status"] == "101":
                ids.add(row["request_id"])
            else:
                other += 1
    answered = {each.server.request_id for each in connections if each.server is not None}
    return {"upgraded": len(ids), "other": other, "missing": len(answered - ids)}


def void_reasons(summary: ConnectionSummary, connections: Sequence[Connection], median: float | None) -> list[str]:
    """Return the reasons, as sentences, that the figures cannot be trusted; `median` of the response, s."""
    limit = lag_limit(median)
    loop = None if summary.loop_lag is None else summary.loop_lag.p99
    lags = (("connections began", summary.late.p99), ("the event loop was", loop))
    reasons = [
        f"the generator was late: {what} {lag * 1000:.1f} ms late at p99, more than {limit * 1000:.1f} ms"
        for what, lag in lags
        if lag is not None and lag > limit
    ]
    if summary.dropped:
        reasons.append(f"the generator dropped {summary.dropped} connections: all its users were busy")
    begun = sum(each.began < summary.window.until + limit for each in connections)
    if not summary.offered:
        reasons.append("the schedule has no instant in the ramp")
    elif begun < ACHIEVED_SHARE * summary.offered:
        reasons.append(
            f"the generator began {begun} of {summary.offered} intended connections in time, less than"
            f" {ACHIEVED_SHARE:.0%}"
        )
    return reasons
