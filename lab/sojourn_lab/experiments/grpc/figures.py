"""Compute the figures of a gRPC case from the records of the clients and the servers.

A call's wait begins when its client sends it and ends when a worker takes it, by the server's log; both are on one
machine and one clock. It is the same measure whether there is a proxy between or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import polars as pl
from sojourn.timeline.visits import FROM_OPTION, Visits, Workers

from sojourn_lab.experiments.grpc.servers import Call
from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import ClientRecord, Summary
from sojourn_lab.results.analyses.balance import SETTLED, before_and_after, shares_and_waits


def case_figures(
    records: Sequence[ClientRecord],
    calls: Mapping[str, Sequence[Call]],
    summary: Summary,
    *,
    workers: int,
    at: float | None,
) -> dict[str, Any]:
    """Return the figures of a case: those of the analysis `balance`, and those of the clients.

    `calls` has every server's, by its name; `at` is when a backend was added, unix s. `client`: counts, and
    `response_time` (s; mean, p50, p90, p95, p99) of the calls answered in the window, and with an addition of those
    intended before and after it and in the last third. `unmatched`: answered calls that no server has in its log.
    """
    since, until = summary.window.since, summary.window.until
    inside = [each for each in records if since <= each.intended < until]
    visits = visits_of(inside, calls, workers=workers, base=since)
    names = {name: name for name in calls}
    client: dict[str, Any] = {
        "offered": summary.offered,
        "answered": summary.answered,
        "failed": summary.failed,
        "failed_share": summary.failed / summary.offered if summary.offered else None,
        "errors": summary.errors,
        "rate": summary.answered / (until - since),
        "response_time": _response_times(inside, since, until),
        "unmatched": summary.answered - len(visits),
    }
    if at is None:
        return {**shares_and_waits(visits, names, until - since), "client": client}
    early = visits_of([each for each in inside if each.sent < at], calls, workers=workers, base=since)
    spread = before_and_after(early, visits, names, since=since, at=at, until=until)
    phases = {"before": (since, at), "after": (at, until), "settled": (until - SETTLED * (until - at), until)}
    for name, (begin, end) in phases.items():
        client[name] = {"response_time": _response_times(inside, begin, end)}
    return {**spread, "client": client}


def _response_times(records: Sequence[ClientRecord], since: float, until: float) -> dict[str, float | None]:
    quantiles = quantiles_of(
        each.done - each.intended
        for each in records
        if since <= each.intended < until and each.error is None and each.done is not None
    )
    return msgspec.to_builtins(quantiles)


def visits_of(
    records: Sequence[ClientRecord], calls: Mapping[str, Sequence[Call]], *, workers: int, base: float
) -> Visits:
    """Return the calls as visits, in the order of their arrivals; instants in seconds after `base` (unix s).

    Those that no server took are left out. Backends are the servers, by name, with `workers` threads each.
    """
    names = tuple(calls)
    answered = {call.id: (number, call) for number, name in enumerate(names) for call in calls[name]}
    rows = sorted(
        (record.sent - base, call.start - base, call.end - base, number)
        for record in records
        if record.id in answered
        for number, call in (answered[record.id],)
    )
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    arrival, start, end = (np.ascontiguousarray(table[:, column]) for column in range(3))
    return Visits(
        base=datetime.fromtimestamp(base, UTC),
        arrival=arrival,
        wait_end=start,
        busy_start=start.copy(),
        busy_end=end,
        backend=table[:, 3].astype(np.int32),
        backends=names,
        pool=np.zeros(len(names), np.int32),
        pools=(", ".join(names),),
        workers=Workers(
            np.full(len(names), workers, np.int64), (FROM_OPTION,) * len(names), np.full(len(names), workers, np.int64)
        ),
        rows=pl.DataFrame({"route": ["/lab.Lab/Sleep"] * len(table)}),
    )
