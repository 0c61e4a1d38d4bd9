"""The figures of one case: what clients got, what it cost in workers, and how the autoscaler behaved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sojourn_lab.load.plan import ClientRecord, Window

from studies.autoscale.loop import Recorded
from studies.autoscale.oracle import Objective


@dataclass(frozen=True)
class Wait:
    """A request that a client intended at an instant (unix s), and its queueing delay, s.

    The delay is infinite if it got no answer, or one of 400 and above: such a request misses any objective.
    """

    intended: float
    delay: float


@dataclass(frozen=True)
class Needed:
    """The yardstick: the edges of its windows (unix s) and the workers in each."""

    edges: Sequence[float]
    workers: Sequence[int]


def waits_in(records: Sequence[ClientRecord], delays: Mapping[str, float], window: Window) -> tuple[list[Wait], int]:
    """Return the wait of every request intended in the window, and how many were answered but have none in the log."""
    waits, unlogged = [], 0
    for record in records:
        if not window.since <= record.intended < window.until:
            continue
        answered = record.error is None and record.status is not None and record.status < 400
        delay = delays.get(record.request_id or "") if answered else math.inf
        if delay is None:
            unlogged += 1
        waits.append(Wait(record.intended, math.inf if delay is None else delay))
    return waits, unlogged


def worker_seconds(live: Sequence[tuple[float, int]], since: float, until: float) -> float:
    """Return the integral of the living workers between two instants; each count holds until the next one."""
    spans = pairwise([*live, (until, 0)])
    return sum(max(0.0, min(end, until) - max(begin, since)) * workers for (begin, workers), (end, _) in spans)


def counts_between(live: Sequence[tuple[float, int]], since: float, until: float) -> list[int]:
    """Return the counts of workers in a time: that at its beginning, and every later one."""
    before = [workers for instant, workers in live if instant <= since]
    return before[-1:] + [workers for instant, workers in live if since < instant < until]


def changes_of(numbers: Sequence[int]) -> tuple[int, int]:
    """Return how often a number changed, and how often a change had the opposite direction of the one before it."""
    moves = [after - before for before, after in pairwise(numbers) if after != before]
    return len(moves), sum((one > 0) != (other > 0) for one, other in pairwise(moves))


def met_in(waits: Sequence[Wait], objective: Objective) -> int:
    """Return how many requests met the objective."""
    return sum(each.delay <= objective.threshold for each in waits)


def windows_of(
    waits: Sequence[Wait], live: Sequence[tuple[float, int]], needed: Needed, objective: Objective
) -> list[dict[str, Any]]:
    """Return what happened in each window of the yardstick, for tables and pictures.

    Each has `at` (its middle, s after the first edge), `seconds`, `rate` (requests a second), `needed`, `workers` (mean
    of those that lived), `most` of them, `delay` (95th percentile of the queueing delay, s; None: without requests, or
    of requests without an answer), `met` and `requests`.
    """
    windows = []
    for (begin, end), workers in zip(pairwise(needed.edges), needed.workers, strict=True):
        inside = [each for each in waits if begin <= each.intended < end]
        delay = float(np.quantile([each.delay for each in inside], 0.95, method="higher")) if inside else math.inf
        windows.append({
            "at": (begin + end) / 2.0 - needed.edges[0],
            "seconds": end - begin,
            "rate": len(inside) / (end - begin),
            "needed": workers,
            "workers": worker_seconds(live, begin, end) / (end - begin),
            "most": max(counts_between(live, begin, end), default=0),
            "delay": None if math.isinf(delay) else delay,
            "met": met_in(inside, objective),
            "requests": len(inside),
        })  # fmt: skip
    return windows


def case_figures(
    waits: Sequence[Wait], recorded: Recorded, needed: Needed, objective: Objective
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the figures of a case, by the names that criteria use, and its windows.

    `within_share`: of all requests, those that met the objective. `worker_seconds`: the integral of the workers.
    `overshoot`: the most workers above the yardstick at any time. `changes` of the number that was set, and `reversals`
    of its direction. `violation`: windows in which the objective did not hold, in seconds and as a share of the time.
    """
    since, until = needed.edges[0], needed.edges[-1]
    windows = windows_of(waits, recorded.live, needed, objective)
    violated = sum(each["seconds"] for each in windows if not objective.holds(each["met"], each["requests"]))
    answered = [each.delay for each in waits if not math.isinf(each.delay)]
    looks = [each for each in recorded.values if since <= each.time < until]
    before = [each.wanted for each in recorded.values if each.time < since][-1:]
    changes, reversals = changes_of(before + [each.wanted for each in looks])
    counts = counts_between(recorded.live, since, until)
    spent = worker_seconds(recorded.live, since, until)
    least = sum(each["needed"] * each["seconds"] for each in windows)
    return {
        "requests": len(waits),
        "within_share": met_in(waits, objective) / len(waits) if waits else None,
        "unanswered": len(waits) - len(answered),
        "queueing_delay": {"p95": float(np.quantile(answered, 0.95)) if answered else None},
        "worker_seconds": spent,
        "workers": {"mean": spent / (until - since), "most": max(counts, default=0), "least": min(counts, default=0)},
        "oracle": {"worker_seconds": least, "mean": least / (until - since), "most": max(needed.workers)},
        "of_oracle": spent / least,
        "overshoot": max(each["most"] - each["needed"] for each in windows),
        "changes": changes,
        "reversals": reversals,
        "violation": {"seconds": violated, "share": violated / (until - since)},
        "looks": len(looks),
        "missed_looks": recorded.missed,
        "looks_without_value": sum(since <= instant < until for instant in recorded.without_value),
    }, windows
