"""How long a system takes to come back from a burst: for its clients, and for its queue.

For a load in steps; the burst is the spell with the highest rate, and all seconds count from its end. What comes after
it is the spell that follows; a later change of the load, such as a cut, is not part of its recovery.

    burst      begin, end (s after the warm-up), rate (requests wanted a second)
    capacity   requests a second that the workers can do, as the analysis goodput has it
    goodput    from whose intended instant on those who ask are served again: the first of SEVERAL requests in a row of
               which at least ENOUGH got an answer below 400 (retries included). `recovered`; `seconds`, if it is not
               recovered those that were left to see it: at least so long
    queue      `waiting` for a worker when the burst ends, until the first instant at which nobody waits: `emptied`,
               `seconds` (in the same way). Whose client has gone waits all the same, until a worker or the server is
               rid of it
    queue.law  waiting / (capacity - rate after the burst), s: what a server takes that does all the work and is never
               idle meanwhile, in whatever order (work conservation); None where the rate is not below capacity
    after, settled   of those who asked after the burst, and in the last third of that time: `wanted`, the `share`
               served, the `attempts` for each, and what these came to, in `pressure`: attempts a second / capacity
    amplification   attempts for each request that was wanted, of the whole case: `sent`, as the clients know it, and
               `logged`, as `sojourn goodput` finds it in nginx's log, which does not know who asks again
    last       the same of the last half of the load's last spell, where that is not the one after the burst
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import ClientRecord
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.results.analyses.goodput import capacity_of
from sojourn_lab.scenario.load import StepsLoad

if TYPE_CHECKING:
    import polars as pl

Floats = npt.NDArray[np.float64]

SEVERAL = 20
"""So many in a row: with fewer, two that were lucky would look like a recovery."""

ENOUGH = 0.9


@dataclass(frozen=True)
class Burst:
    """When it was, in seconds after the warm-up, and until when its rate held that came after; requests a second.

    `over` is None where that rate held to the end.
    """

    begin: float
    end: float
    rate: float
    rate_after: float
    over: float | None


@dataclass(frozen=True)
class Asked:
    """A request as somebody wanted it: when (unix s), whether it was served in the end, after how many attempts."""

    intended: float
    served: bool
    attempts: int


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; LabError if its load has no burst with something after it."""
    from sojourn.analyses.goodput.analysis import goodput  # noqa: PLC0415 - brings Polars

    if not isinstance(data.case.load, StepsLoad):
        raise LabError("a recovery needs a load in steps")
    burst = burst_of(data.case.load)
    end = data.since + burst.end
    if end >= data.until:
        raise LabError("the burst ends after the measured time: there is nothing to recover in")
    over = data.until if burst.over is None else min(data.since + burst.over, data.until)
    capacity = capacity_of(data.topology, data.case)
    if capacity is None:
        raise LabError("without a service time there is no capacity to speak of")
    asked = asked_of(data.records)
    rows = data.rows_between()
    arrived, left = waits_of(rows)
    waiting = int(np.sum((arrived <= end) & (left > end)))
    spare = capacity - burst.rate_after
    found: dict[str, Any] = {
        "burst": {"begin": burst.begin, "end": burst.end, "rate": burst.rate},
        "capacity": capacity,
        "goodput": _since(end, over, "recovered", served_again(asked, end, over)),
        "queue": {
            "waiting": waiting,
            **_since(end, over, "emptied", emptied_at(arrived, left, end)),
            "law": waiting / spare if spare > 0.0 else None,
        },
        "after": spell_of(asked, data.records, end, over, capacity),
        "settled": spell_of(asked, data.records, over - (over - end) / 3.0, over, capacity),
    }
    found["amplification"] = {
        "sent": len(data.records) / len(asked) if asked else None,
        "logged": goodput(rows.lazy()).amplification,
    }
    last = data.since + data.case.load.at[-1]
    if over <= last < data.until:
        found["last"] = spell_of(asked, data.records, (last + data.until) / 2.0, data.until, capacity)
    return found


def burst_of(load: StepsLoad) -> Burst:
    """Return the spell with the highest rate; LabError if it is the last one."""
    which = max(range(len(load.rates)), key=lambda number: load.rates[number])
    if which == len(load.rates) - 1:
        raise LabError("the load ends with its highest rate: there is nothing to recover in")
    begin = load.at[which - 1] if which else 0.0
    over = load.at[which + 1] if which + 1 < len(load.at) else None
    return Burst(begin, load.at[which], load.rates[which], load.rates[which + 1], over)


def asked_of(records: Sequence[ClientRecord]) -> list[Asked]:
    """Return what became of every request somebody wanted, in the order in which they did."""
    begun = {record.id: record.intended for record in records if record.attempt == 1}
    attempts = dict.fromkeys(begun, 0)
    served = set()
    for record in records:
        attempts[record.id] += 1
        if record.error is None and record.status is not None and record.status < 400:
            served.add(record.id)
    asked = [Asked(intended, name in served, attempts[name]) for name, intended in begun.items()]
    return sorted(asked, key=lambda each: each.intended)


def served_again(asked: Sequence[Asked], since: float, until: float) -> float | None:
    """Return the instant from which on requests are served again, None if that is not to be seen before `until`."""
    after = [each for each in asked if since <= each.intended < until]
    for number in range(len(after) - SEVERAL + 1):
        row = after[number : number + SEVERAL]
        if sum(each.served for each in row) >= ENOUGH * SEVERAL:
            # From the end of the burst, if those are the first ones; and not from one of the few that were not served.
            return next(each.intended for each in row if each.served) if number else since
    return None


def waits_of(rows: pl.DataFrame) -> tuple[Floats, Floats]:
    """Return when each request of split rows began to wait for a worker and when it no longer did, unix s.

    It waits until a worker takes it, as the app's span tells, also when nobody wants the answer any more. One that no
    worker ever took was turned away, and waited until then.
    """
    import polars as pl  # noqa: PLC0415

    proxied = rows.filter("proxied").select(
        arrived=pl.col("proxy_start").dt.epoch("us") / 1e6,
        left=pl.coalesce("span_start", "time").dt.epoch("us") / 1e6,
    )
    kept = proxied.drop_nulls()
    return kept["arrived"].to_numpy(), kept["left"].to_numpy()


def emptied_at(arrived: Floats, left: Floats, since: float) -> float | None:
    """Return the first instant from `since` on at which nobody waits; None of no requests at all."""
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
    asked: Sequence[Asked], records: Sequence[ClientRecord], since: float, until: float, capacity: float
) -> dict[str, Any]:
    """Return what became of those who asked between two unix instants, and how hard all attempts then pressed."""
    inside = [each for each in asked if since <= each.intended < until]
    sent = sum(since <= record.intended < until for record in records)
    count = len(inside)
    return {
        "wanted": count,
        "share": sum(each.served for each in inside) / count if count else None,
        "attempts": sum(each.attempts for each in inside) / count if count else None,
        "pressure": sent / (until - since) / capacity,
    }


def _since(end: float, until: float, name: str, instant: float | None) -> dict[str, Any]:
    seen = instant is not None and instant < until
    return {name: seen, "seconds": (instant if seen and instant is not None else until) - end}
