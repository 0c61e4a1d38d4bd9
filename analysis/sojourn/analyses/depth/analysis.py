"""Queue length, requests in service and utilisation: over time, and at arrivals.

Everything is counted from the log's own instants. At a backend, at instant t:

    waiting      requests with arrival <= t < end of their wait
    gone         abandoned requests that the app has yet to take: they are still ahead of others in the queue
    in service   requests that hold a worker, until its release (``sojourn.timeline.holds``)
    utilisation  in service / workers

By Little's law (Little 1961) the time average of the waiting equals the arrival rate times the mean wait. The average
at arrivals equals the time average if arrivals are Poisson (PASTA: Wolff 1982); a round-robin balancer, or clients that
send bursts, make the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import polars as pl

from sojourn.analyses.depth.groups import (
    Group,
    deepest_queue,
    figures_of,
    groups_of,
    over_time,
    peak_utilisation,
    table_of,
)
from sojourn.analyses.queue_source import MEASURED, QueueSource
from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import iso
from sojourn.model.result import Result
from sojourn.timeline.busiest_excerpt import Scene, scene_of
from sojourn.timeline.classes import selected_by, summed
from sojourn.timeline.concurrency import GONE, counts_on_arrival, intervals_of
from sojourn.timeline.free_workers import is_lower_bound
from sojourn.timeline.phases import PHASES
from sojourn.timeline.services import services_of
from sojourn.timeline.silences import clause, silences
from sojourn.timeline.steps import Steps, Together
from sojourn.timeline.tables import workers_table
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows

ALL = "all"  # every backend together
COARSE = [digit * 10**power for power in range(1, 8) for digit in (1, 2, 5)]
DRAWN = 300  # requests of the scene
UNKNOWN_WITHOUT_VISITS = (
    "waiting", "gone", "in_service", "in_system", "utilisation", "mean_wait", "seen_waiting", "seen_in_system",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class DepthResult(Result):
    """The result of ``depth``. Seconds; numbers of requests that are not integers are averages.

    Attributes:
        requests: with a known wait; with ``where``, those that were selected.
        present: requests with a known wait that hold workers and are ahead in the queues: all.
        where: column -> value: the requests that count as waiting and arriving; empty: all.
        window: from the first of their instants to the last; None without requests.
        overall, backends: waiting, gone, in_service, in_system, utilisation (time averages), most_waiting, arrivals,
            mean_wait, seen_waiting, seen_in_system (averages over arrivals), peak_utilisation (of the window with the
            deepest queue; None without a queue), workers, lower_bound (whether workers were
            held for longer than their services show, or lines may be missing, so utilisation is at least this);
            ``backends`` with upstream: the 1,000 with the most requests, the others together as "(other)", whose
            ``most_waiting`` is that of all of them.
        peak: upstream, waiting, at, busy (share of its workers, in the window of that instant): the deepest queue; None
            without a queue.
        seen: low, high (requests waiting at the same backend on arrival, inclusive), requests, share, wait (mean).
        over_time: columns of ``OVER_TIME_SCHEMA``; the upstream "all" is the sum.
        width: length of its windows.
        held: phase -> seconds for which workers were held: service, body, after.
        silent: requests without a service time.
        workers: per backend: upstream, workers, source, names, pool.
        left_out: reason -> requests, as in ``Visits``.
        queue_source: how the queueing delays are known.
        silence: stretches without a line, as a clause; None: there are none.
        scene: the busiest excerpt, one by one; None if the end of requests is unknown.
    """

    TABLES: ClassVar = ("over_time", "backends", "seen", "workers")

    requests: int
    present: int
    where: dict[str, object]
    window: tuple[datetime, datetime] | None
    overall: dict[str, Any]
    backends: list[dict[str, Any]]
    peak: dict[str, Any] | None
    seen: pl.DataFrame
    over_time: pl.DataFrame
    width: float
    held: dict[str, float]
    silent: int
    workers: list[dict[str, Any]]
    left_out: dict[str, int]
    queue_source: QueueSource = MEASURED
    silence: str | None = None
    scene: Scene | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn depth --json`` prints."""
        return {
            "visits": self.requests,
            "present": self.present,
            "where": self.where,
            "window": self.window and {"from": iso(self.window[0]), "to": iso(self.window[1])},
            "overall": self.overall,
            "backends": self.backends,
            "peak": self.peak and {**self.peak, "at": iso(self.peak["at"])},
            "on_arrival": self.seen.to_dicts(),
            "over_time": {
                "seconds": self.width,
                "windows": [{**row, "begin": iso(row["begin"])} for row in self.over_time.iter_rows(named=True)],
            },
            "held_seconds": self.held,
            "silent": self.silent,
            "silence": self.silence,
            "workers": self.workers,
            "left_out": self.left_out,
            "queue_source": self.queue_source.requests,
        }


def depth_of(
    visits: Visits,
    *,
    where: Mapping[str, object] | None = None,
    width: float | None = None,
    queue_source: QueueSource = MEASURED,
) -> DepthResult:
    """Compute the depth of visits.

    Args:
        visits: with a column ``header``, a request without a service time is in service until its answer begins; with
            ``app_service`` and ``span_seconds``, the time that streaming adds is known.
        where: column -> value: only these requests count as waiting and arriving; all hold workers.
        width: length of the windows over time, s; None: the shortest that gives at most 240.
        queue_source: how the queueing delays are known.

    Raises:
        SojournError: no request with a known wait meets ``where``.
    """
    chosen = selected_by(visits.rows, where or {})
    services = services_of(visits)
    intervals = intervals_of(visits, services)
    starts = intervals[GONE][1]
    has_end = ~np.isnan(services.end)
    # If a wait is negative, its service begins before its arrival.
    first = float(min(visits.arrival.min(), services.begin[has_end].min(initial=np.inf))) if len(visits) else 0.0
    last = float(max(visits.wait_end.max(), services.end[has_end].max(initial=-np.inf))) if len(visits) else 0.0
    windows = Windows.over(visits.base, first, last, seconds=width)
    waiting_on_arrival, serving_on_arrival = counts_on_arrival(visits, starts, services)
    backends, tables, wait = [], [], visits.wait
    silent = silences(visits.arrival, np.fmax(visits.wait_end, services.end))
    groups = groups_of(visits)
    counted = [
        {
            key: Steps.of(*((begin[members], end[members]) if key == "in_service" else (begin[some], end[some])))
            for key, (begin, end) in intervals.items()
        }
        for group in groups
        for members in (group.rows,)
        for some in (members[chosen[members]],)
    ]
    # Of all together only the queue is counted once more: its maximum is not a sum.
    queue = Steps.of(*(instants[chosen] for instants in intervals["waiting"]))
    everyone = queue if chosen.all() else Steps.of(*intervals["waiting"])
    together = {key: Together([each[key] for each in counted]) for key in intervals} | {"waiting": queue}
    whole = Group(ALL, np.arange(len(visits)), int(visits.workers.count.sum()))
    steps_of: list[Mapping[str, Steps | Together]] = [*counted, together]
    lower_bound = bool(silent)
    for number, (group, steps) in enumerate(zip([*groups, whole], steps_of, strict=True)):
        every = group.rows
        members = every[chosen[every]]
        figures = figures_of(steps, first, last, group.workers)
        arrivals = visits.arrival[members]
        waiting, serving = waiting_on_arrival[members], serving_on_arrival[members]
        is_bound = bool(silent)
        if group.code is not None:
            on_arrival = (waiting_on_arrival[every], serving_on_arrival[every])
            queued, held = (counted[number][key] for key in ("waiting", "in_service"))
            if not chosen.all():
                queued = Steps.of(*(instants[every] for instants in intervals["waiting"]))
            is_bound |= is_lower_bound(visits, group.code, queued, held, on_arrival, last - first)
            lower_bound |= is_bound
        figures |= {
            "arrivals": len(arrivals),
            "mean_wait": float(wait[members].mean()) if len(arrivals) else 0.0,
            "seen_waiting": float(waiting.mean()) if len(arrivals) else 0.0,
            "seen_in_system": float((waiting + serving).mean()) if len(arrivals) else 0.0,
            "workers": group.workers,
            "lower_bound": lower_bound if group is whole else is_bound,
        }
        tables.append(over_time(windows, steps, arrivals, group.workers, (first, last)))
        backends.append({"upstream": group.name, **figures, "peak_utilisation": peak_utilisation(tables[-1])})
    overall = {key: value for key, value in backends.pop().items() if key != "upstream"}
    if not len(visits):
        overall |= dict.fromkeys(UNKNOWN_WITHOUT_VISITS)
    window = (visits.base + timedelta(seconds=first), visits.base + timedelta(seconds=last))
    return DepthResult(
        requests=int(chosen.sum()),
        present=len(visits),
        where=dict(where or {}),
        window=window if len(visits) else None,
        overall=overall,
        backends=backends,
        peak=deepest_queue(visits, groups, [each["waiting"] for each in counted], backends),
        seen=_by_depth(waiting_on_arrival[chosen], wait[chosen]),
        over_time=table_of(windows, [group.name for group in (*groups, whole)], tables if len(visits) else []),
        width=windows.seconds,
        held=_held(visits),
        silent=int((~services.known).sum()),
        workers=workers_table(visits),
        left_out=dict(visits.left_out),
        queue_source=queue_source,
        silence=clause(silent) if silent else None,
        scene=scene_of(visits, DRAWN, waiting=everyone) if len(visits) and "time" in visits.rows.columns else None,
    )


def _by_depth(waiting: Ints, wait: Floats) -> pl.DataFrame:
    """Return requests by queue length at arrival: 0 to 9 singly, then 10-19, 20-49, 50-99, 100-199 and so on."""
    deepest = int(waiting.max(initial=0))
    edges = [*range(10), *(edge for edge in COARSE if edge <= deepest)]
    places = np.searchsorted(edges, waiting, "right") - 1
    count = np.bincount(places, minlength=len(edges))
    waits = summed(places, wait, len(edges))
    highs = [*(edge - 1 for edge in edges[1:]), max(edges[-1], deepest)]
    return pl.DataFrame(
        {
            "low": edges,
            "high": highs,
            "requests": count,
            "share": count / max(len(waiting), 1),
            "wait": np.divide(waits, count, out=np.zeros_like(waits), where=count > 0),
        },
        schema={"low": pl.Int64, "high": pl.Int64, "requests": pl.Int64, "share": pl.Float64, "wait": pl.Float64},
    ).filter(pl.col("requests") > 0)


def _held(visits: Visits) -> dict[str, float]:
    """Return phase -> seconds for which workers were held."""
    begin, end = visits.busy_start, visits.busy_end
    headers, body_end = (end, end) if visits.phases is None else (visits.phases.headers, visits.phases.body_end)
    lengths = (headers - begin, body_end - headers, end - body_end, begin - visits.occupied)
    return {phase: float(np.nansum(length)) for phase, length in zip(PHASES, lengths, strict=True)}
