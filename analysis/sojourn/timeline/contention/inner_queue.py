"""A queue inside the app: requests in service that wait for one of a few places, a pool of connections or of threads.

From the app's starts and the ends of the services, the same engine infers waits that infers those of a plain log
(``sojourn.estimation``): first come, first served, by a number of places that is estimated with its interval. It has
its own tests, and refuses where services share something in another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sojourn.estimation.inferred import INFERRED, Inference
from sojourn.model.arrays import Floats, Ints
from sojourn.model.formatting import duration
from sojourn.queueing.speed_laws import Law, Places
from sojourn.timeline.contention.independence import route_of
from sojourn.timeline.contention.shared_parts import most_in_progress
from sojourn.timeline.stretches import busiest
from sojourn.timeline.visits import FROM_INFERENCE, Visits, Workers

ERROR = 0.0005  # s: of the starts and ends, both by the app's clock
NOTICEABLE = 0.1  # of the mean service: work beside the places that is shorter changes the waits by little
SHORTEST, LEAST = 0.001, 0.02  # s, and share of the mean service: a shorter mean wait is none


@dataclass(frozen=True)
class InnerQueue:
    """A queue inside the app.

    Attributes:
        name: of its backend, or of all.
        backends: whose requests wait in it, by code.
        places: how many requests it serves at a time.
        low, high: the smallest and the largest number of places that the tests do not exclude.
        wait, service: mean of its requests, s; ``service``: with the wait, from the app's start to the headers.
        busy: share of the time of its places that is used.
        workers_busy: share of the time of the workers that services would hold without the queue; None: no limit.
        rows: the requests, by their app start.
        waits: of each, s.
        others: other numbers of places that the tests do not exclude -> the waits with them, s.
    """

    name: str
    backends: tuple[int, ...]
    places: int
    low: int
    high: int
    wait: float
    service: float
    busy: float
    workers_busy: float | None
    rows: Ints = field(repr=False)
    waits: Floats = field(repr=False)
    others: Mapping[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def is_scarcest(self) -> bool:
        """Whether it saturates before the workers do."""
        return self.workers_busy is None or self.busy > self.workers_busy

    def waits_with(self, law: Law) -> Floats:
        """Return the waits with a number of places, s; ``law``: ``Places``."""
        return self.others.get(law.number, self.waits) if isinstance(law, Places) else self.waits

    @property
    def sentence(self) -> str:
        """The places and the wait, as a sentence."""
        number = f"{self.places}" if self.low == self.high else f"{self.places} ({self.low} to {self.high})"
        return (
            f"Inferred: inside the app of {self.name}, requests wait for one of {number} places (a pool of connections "
            f"or threads): {duration(self.wait)} of {duration(self.service)} of service, on average."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        names = ("name", "places", "low", "high", "wait", "service", "busy", "workers_busy")
        return {name: getattr(self, name) for name in names} | {"scarcest": self.is_scarcest}


def inner_queue_of(visits: Visits, end: Floats, backends: Sequence[int], name: str) -> InnerQueue | None:
    """Return the queue inside the services of some backends; None where there is none, or it cannot be inferred.

    It is inferred from the app's start to the headers (``end``, s). If that is refused, then once more with a coarser
    limit of the tests, for requests that do a little before they wait and afterwards.
    """
    rows = np.concatenate([visits.at_backend[code] for code in backends])
    rows = rows[~np.isnan(end[rows]) & ~np.isnan(visits.busy_start[rows])]
    rows = rows[np.argsort(visits.busy_start[rows], kind="stable")]
    stretch = rows[busiest(visits.busy_start[rows], end[rows])]
    coarse = max(NOTICEABLE * float((end[rows] - visits.busy_start[rows]).mean()), ERROR)
    for error in (ERROR, coarse):
        searched = _inferred(visits, end, stretch, None, error)
        if searched.verdict == INFERRED and searched.highest is not None and not searched.windows:
            break
    else:
        return None
    inference = searched if len(stretch) == len(rows) else _inferred(visits, end, rows, searched.workers, error)
    if inference.verdict != INFERRED:
        return None
    services = np.maximum(end[rows] - visits.busy_start[rows], 0.0)[inference.order]
    waits = np.clip(inference.wait, 0.0, services)
    wait, service = float(waits.mean()), float(services.mean())
    if wait < max(SHORTEST, LEAST * service):
        return None
    others = {}
    for places in {searched.lowest, searched.highest} - {searched.workers}:
        with_others = _inferred(visits, end, rows, places, error)
        if with_others.verdict == INFERRED:
            others[places] = np.clip(with_others.wait, 0.0, services)
    rows = rows[inference.order]
    workers = most_in_progress(visits, backends)
    seconds = max(float(end[rows].max() - visits.busy_start[rows].min()), 1e-9)
    work = float((services - waits).sum())
    alone = float(np.nansum(visits.held[rows])) - float(waits.sum())
    return InnerQueue(
        name, tuple(backends), searched.workers, searched.lowest, searched.highest, wait, service,
        work / (seconds * searched.workers), None if workers is None else alone / (seconds * workers), rows, waits,
        others,
    )  # fmt: skip


def _inferred(visits: Visits, end: Floats, rows: Ints, places: int | None, error: float) -> Inference:
    from sojourn.estimation.engine import infer  # noqa: PLC0415 - only where services depend on the load

    return infer(visits.busy_start[rows], end[rows], route_of(visits, rows), error=error, workers=places)


def inner_visits(visits: Visits, end: Floats, queue: InnerQueue) -> Visits:
    """Return the requests of a queue inside the app as visits of one backend: its places are the workers.

    Args:
        visits: of which ``queue.rows`` are the requests.
        end: of each service, s.
        queue: the queue.
    """
    rows = queue.rows
    arrival = visits.busy_start[rows]
    none = np.zeros(len(rows), np.int32)
    return Visits(
        base=visits.base,
        arrival=arrival,
        wait_end=arrival + queue.waits,
        busy_start=arrival + queue.waits,
        busy_end=end[rows],
        backend=none,
        backends=(queue.name,),
        pool=none[:1],
        pools=(queue.name,),
        workers=Workers(np.array([queue.places]), (FROM_INFERENCE,), np.zeros(1, np.int64)),
        rows=visits.rows_at(rows).select(pl.exclude("header")),
    )
