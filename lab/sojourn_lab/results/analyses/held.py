"""What held the workers, or kept requests from them: `sojourn blame` beside the logs of the servers themselves.

`stated` sees the access log alone. `known` is from workers.jsonl, in which the app writes when each request held which
worker, from HAProxy's log where there is a `limit`, and from nginx's stamps; see `sojourn_lab.results.waits_by_cause`.

    requests         requests of the case, warm-up included; `unknown`: those of them that the servers' logs lack
    known, stated    what was waited for -> its share of all waiting: `/export body`, `bound`, `limit`, `absent`,
                     `dispatch`
    refused          the reason why blame states nothing; null otherwise
    difference       the largest difference of a share, stated - known, without its sign; `of` is its name
    looked_free      share of the waiting for which blame says that a worker looked free and took no request
    mean_wait        s, by the servers' logs
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl
from sojourn.analyses.blame.run import blame
from sojourn.model.errors import SojournError

from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.data import CaseData
from sojourn_lab.results.waits_by_cause import Life, accounts_of, largest_difference, stated_accounts
from sojourn_lab.runtime.runtime import WORKER_LOG_NAME

Line = TypeVar("Line")

OWN_WORK = 0.006
"""Seconds between two steps of a worker that are the server's own work: such a worker was not free in between."""
HALF_TICK = 0.0005
"""Seconds: nginx cuts its stamps to milliseconds."""
CLUSTERS = ("node", "puma")
"""Servers of which each process may have requests of its own waiting."""


class WorkerLine(msgspec.Struct, gc=False):
    """A line of the apps' log: the times of a request, or of a process (`loaded`, `ended`); unix s."""

    worker: str
    master: str = ""
    id: str = ""
    route: str = ""
    begin: float = 0.0
    headers: float = 0.0
    answered: float = 0.0
    released: float = 0.0
    loaded: float = 0.0
    ended: float = 0.0


class LimitLine(msgspec.Struct, gc=False):
    """A line of HAProxy's log: when it accepted a request (unix s), and the ms for which it read and queued it."""

    id: str
    accepted: float
    read: float
    queued: float

    @property
    def gated(self) -> float:
        """When the request was let pass, unix s: the middle of HAProxy's millisecond."""
        return self.accepted + (self.read + self.queued + 0.5) / 1000.0


@dataclass
class LoggedRequest:
    """A request by the servers' logs: `sojourn_lab.results.waits_by_cause.RequestTimes`.

    It is at the backend (`reached`) when it was let pass, and a worker has it when the app starts: all is on one
    machine, and the servers read no uploads.
    """

    backend: int
    group: int
    route: str
    status: int
    stamp: float
    gated: float
    begun: float
    headers: float
    answered: float
    released: float
    freed: float
    hidden: bool = False
    before: float = 0.0
    reached: float = field(init=False)
    got_worker: float = field(init=False)

    def __post_init__(self) -> None:
        self.reached, self.got_worker = self.gated, self.begun


def figures(data: CaseData) -> dict[str, Any]:
    """Return the figures of the case; see the module. LabError without `worker_log`."""
    path = data.folder / WORKER_LOG_NAME
    if not path.exists():
        raise LabError("the analysis `held` needs `worker_log = true` in the topology")
    rows = data.rows_between()
    queues = "master" if data.topology.masters > 1 else "worker" if clustered(data) else ""
    logs = sorted((data.folder / "logs").rglob("*-limit.out"))
    limits = {line.id: line for log in logs for line in _lines(log, LimitLine)}
    requests, present = logged_requests(rows, _lines(path, WorkerLine), limits, queues)
    shares = accounts_of(requests, present)
    result: dict[str, Any] = {
        "requests": len(rows),
        "unknown": len(rows) - len(requests),
        "known": shares,
        "stated": {},
        "refused": None,
        "difference": None,
        "of": None,
        "mean_wait": sum(each.begun - each.stamp for each in requests) / len(requests) if requests else None,
    }
    try:
        blamed = blame(rows.lazy(), by="route")
    except SojournError as error:
        return {**result, "refused": str(error)}
    if not blamed.waited or not shares:
        return {**result, "refused": "nothing waited"}
    stated = stated_accounts(blamed)
    of, difference = largest_difference(stated, shares)
    return {
        **result,
        "stated": stated,
        "difference": abs(difference),
        "of": of,
        "looked_free": blamed.looked_free / blamed.waited,
    }


def clustered(data: CaseData) -> bool:
    """Return whether each worker process may have requests of its own waiting."""
    return data.topology.server in CLUSTERS and data.topology.workers > 1


def logged_requests(
    rows: pl.DataFrame, lines: Iterable[WorkerLine], limits: Mapping[str, LimitLine], queues: str
) -> tuple[list[LoggedRequest], list[Life]]:
    """Return the requests that have a line of the app's, and the presence of all workers.

    Args:
        rows: split rows of the case.
        lines: of the apps.
        limits: request id -> its line of HAProxy's.
        queues: which requests wait in one queue: those of a `master`, of a `worker`, or (empty) of a backend.
    """
    logged = rows.select(
        "request_id", "upstream", "status",
        stamp=pl.col("start").dt.epoch("us") / 1e6 + pl.col("upload") + pl.col("retries") + HALF_TICK,
    )  # fmt: skip
    by_id = {row[0]: row[1:] for row in logged.iter_rows()}
    backends = {name: number for number, name in enumerate(sorted({str(row[0]) for row in by_id.values()}))}
    first, last = float(logged["stamp"].min() or 0.0), float(logged["stamp"].max() or 0.0)  # type: ignore[arg-type]
    groups: dict[str, int] = {"": 0}
    of_worker: dict[str, list[LoggedRequest]] = defaultdict(list)
    at: dict[str, tuple[int, int]] = {}
    begins: dict[str, float] = {}
    ends: dict[str, float] = {}
    for line in lines:
        if line.loaded:
            begins[_process(line.worker)] = line.loaded
        elif line.ended:
            ends[_process(line.worker)] = line.ended
        elif line.id in by_id:
            upstream, status, stamp = by_id[line.id]
            queue = {"master": line.master, "worker": _process(line.worker), "": ""}[queues]
            group = groups.setdefault(queue, len(groups))
            at[line.worker] = (backends[str(upstream)], group)
            limit = limits.get(line.id)
            gated = stamp if limit is None else max(limit.gated, stamp)
            # What ends within a server's own work is no phase of its own.
            answered = line.answered if line.answered > line.headers + OWN_WORK else line.headers
            released = line.released if line.released > answered + OWN_WORK else answered
            of_worker[line.worker].append(
                LoggedRequest(
                    *at[line.worker], line.route, int(status), min(stamp, line.begin), min(gated, line.begin),
                    line.begin, line.headers, answered, released, max(line.released, released),
                )
            )  # fmt: skip
    present = []
    for worker, served in of_worker.items():
        served.sort(key=lambda request: request.begun)
        for request, following in pairwise(served):
            if following.stamp <= request.freed and following.begun - request.freed <= OWN_WORK:
                request.freed = max(following.begun, request.freed)
        begin, end = begins.get(_process(worker), first), ends.get(_process(worker), last)
        end = max(served[-1].freed, min(end, last))
        present.append((*at[worker], min(max(begin, first), served[0].begun), end))
    return [request for served in of_worker.values() for request in served], present


def _process(worker: str) -> str:
    return worker.partition(".")[0]


def _lines(path: Path, kind: type[Line]) -> list[Line]:
    decoder = msgspec.json.Decoder(kind)
    return [decoder.decode(line) for line in path.read_bytes().splitlines() if line.startswith(b"{")]
