"""Recovery from a burst: how long until clients are served again, and until the queue is empty.

For a load in steps. The burst is the step with the highest rate, and all seconds count from its end. The recovery is
measured in the step that follows; a later change of the load, such as a cut, is not part of it.

    burst      begin, end (s after the warm-up), rate (intended requests a second)
    capacity   requests a second that the workers can serve, as in the analysis goodput
    goodput    until clients are served again: from the intended instant of the first of SEVERAL successive requests of
               which at least ENOUGH got an answer below 400 (retries included). `recovered`; `seconds`, without a
               recovery those until the end of the step: a lower bound
    queue      `waiting`: requests that wait for a worker when the burst ends; `emptied`: whether the queue became
               empty, `seconds` until then (or a lower bound, as above). A request whose client has left waits until
               a worker takes it or the server drops it
    queue.law  waiting / (capacity - rate after the burst), s: the time of a server that serves every request and is
               never idle meanwhile, in any order (work conservation); None where the rate is not below capacity
    after, settled   of the requests intended after the burst, and in the last third of that time: `wanted`, the `share`
               served, the `attempts` for each, and `pressure`: attempts a second / capacity
    amplification   attempts per intended request, of the whole case: `sent`, from the clients' log, and `logged`, from
               `sojourn goodput` of nginx's log, which cannot identify retries
    last       the same of the last half of the load's last step, where that is not the one after the burst
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from sojourn.analyses.goodput.analysis import goodput
from sojourn.model.arrays import Floats

from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import ClientRecord
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.results.analyses.goodput import capacity_of
from sojourn_lab.scenario.load import StepsLoad

SEVERAL = 20
"""Successive requests that decide on a recovery: with fewer, two served by chance would look like one."""

ENOUGH = 0.9


@dataclass(frozen=True)
class Burst:
    """The burst, and the step after it; instants in seconds after the warm-up, rates in requests a second.

    `over` is the end of the step after the burst; None where that step lasts to the end.
    """

    begin: float
    end: float
    rate: float
    rate_after: float
    over: float | None


@dataclass(frozen=True)
class IntendedRequest:
    """A request that a client intended: when (unix s), whether it was served in the end, and its attempts."""

    intended: float
    served: bool
    attempts: int


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; LabError if its load has no burst with a step after it."""
    if not isinstance(data.case.load, StepsLoad):
        raise LabError('the analysis `recovery` needs a load in steps (`kind = "steps"`)')
    burst = burst_of(data.case.load)
    end = data.since + burst.end
    if end >= data.until:
        raise LabError("the burst ends after the measured time: lengthen `duration`")
    over = data.until if burst.over is None else min(data.since + burst.over, data.until)
    capacity = capacity_of(data.topology, data.case)
    if capacity is None:
        raise LabError("the analysis `recovery` needs a service time above 0")
    requests = intended_requests(data.records)
    rows = data.rows_between()
    arrived, left = waits_of(rows)
    waiting = int(np.sum((arrived <= end) & (left > end)))
    spare = capacity - burst.rate_after
    result: dict[str, Any] = {
        "burst": {"begin": burst.begin, "end": burst.end, "rate": burst.rate},
        "capacity": capacity,
        "goodput": _since(end, over, "recovered", served_again(requests, end, over)),
        "queue": {
            "waiting": waiting,
            **_since(end, over, "emptied", emptied_at(arrived, left, end)),
            "law": waiting / spare if spare > 0.0 else None,
        },
        "after": spell_of(requests, data.records, end, over, capacity),
        "settled": spell_of(requests, data.records, over - (over - end) / 3.0, over, capacity),
    }
    result["amplification"] = {
        "sent": len(data.records) / len(requests) if requests else None,
        "logged": goodput(rows.lazy()).attempts,
    }
    last = data.since + data.case.load.at[-1]
    if over <= last < data.until:
        result["last"] = spell_of(requests, data.records, (last + data.until) / 2.0, data.until, capacity)
    return result


def burst_of(load: StepsLoad) -> Burst:
    """Return the step with the highest rate; LabError if it is the last one."""
    highest = max(range(len(load.rates)), key=lambda number: load.rates[number])
    if highest == len(load.rates) - 1:
        raise LabError("the load ends with its highest rate: add a step with a lower one to `rates` and `at`")
    begin = load.at[highest - 1] if highest else 0.0
    over = load.at[highest + 1] if highest + 1 < len(load.at) else None
    return Burst(begin, load.at[highest], load.rates[highest], load.rates[highest + 1], over)


def intended_requests(records: Sequence[ClientRecord]) -> list[IntendedRequest]:
    """Return every request that clients intended, with its outcome, in the order of the intended instants."""
    begun = {record.id: record.intended for record in records if record.attempt == 1}
    attempts = dict.fromkeys(begun, 0)
    served = set()
    for record in records:
        attempts[record.id] += 1
        if record.error is None and record.status is not None and record.status < 400:
            served.add(record.id)
    requests = [IntendedRequest(intended, name in served, attempts[name]) for name, intended in begun.items()]
    return sorted(requests, key=lambda each: each.intended)


def served_again(requests: Sequence[IntendedRequest], since: float, until: float) -> float | None:
    """Return the instant from which on requests are served again, None if there is none before `until`."""
    after = [each for each in requests if since <= each.intended < until]
    for number in range(len(after) - SEVERAL + 1):
        row = after[number : number + SEVERAL]
        if sum(each.served for each in row) >= ENOUGH * SEVERAL:
            # From the end of the burst if these are the first; otherwise from the first of them that was served.
            return next(each.intended for each in row if each.served) if number else since
    return None


def waits_of(rows: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return the begin and the end of each request's wait for a worker, of split rows, unix s.

    The wait ends at the start of the app's span, also when the client has left. A request without a span was turned
    away: its wait ends then.
    """
    proxied = rows.filter("proxied").select(
        arrived=pl.col("proxy_start").dt.epoch("us") / 1e6,
        left=pl.coalesce("span_start", "time").dt.epoch("us") / 1e6,
    )
    waits = proxied.drop_nulls()
    return waits["arrived"].to_numpy(), waits["left"].to_numpy()


def emptied_at(arrived: Floats, left: Floats, since: float) -> float | None:
    """Return the first instant from `since` on at which no request waits; None without any request."""
    if not len(arrived):
        return None
    instants = np.concatenate([left, arrived])
    steps = np.concatenate([np.full(len(left), -1), np.full(len(arrived), 1)])
    order = np.argsort(instants, kind="stable")
    waiting = np.cumsum(steps[order])
    instants = instants[order]
    # The number that holds at `since` is the one after the last instant up to it.
    before = int(np.searchsorted(instants, since, side="right"))
    if before == 0 or waiting[before - 1] <= 0:
        return since
    empty = np.flatnonzero(waiting[before:] <= 0)
    return float(instants[before + int(empty[0])]) if len(empty) else None


def spell_of(
    requests: Sequence[IntendedRequest], records: Sequence[ClientRecord], since: float, until: float, capacity: float
) -> dict[str, Any]:
    """Return the outcome of the requests intended between two unix instants, and the pressure of all attempts then."""
    inside = [each for each in requests if since <= each.intended < until]
    sent = sum(since <= record.intended < until for record in records)
    count = len(inside)
    return {
        "wanted": count,
        "share": sum(each.served for each in inside) / count if count else None,
        "attempts": sum(each.attempts for each in inside) / count if count else None,
        "pressure": sent / (until - since) / capacity,
    }


def _since(end: float, until: float, name: str, instant: float | None) -> dict[str, Any]:
    happened = instant is not None and instant < until
    return {name: happened, "seconds": (instant if happened and instant is not None else until) - end}
