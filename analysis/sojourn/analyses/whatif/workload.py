"""What was asked of the workers, apart from how it went: arrivals, services, and what else a response consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.analyses.whatif.balancing import balancers_seen
from sojourn.model.errors import SojournError
from sojourn.timeline.visits import Visits, places_of, visits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

COLUMNS = (
    "request_time", "app_service", "upload", "answered", "retries", "response", "connection", "remote_addr",
    "queue_source",
)  # fmt: skip
GIVEN_UP = (499, 504)
LEFT = 499
ENOUGH_FREE = 20  # requests that found a worker free, to tell what the way takes
TIMEOUT_SPREAD = 0.05  # time-outs that lie nearer together than this share are one setting


@dataclass(frozen=True)
class Workload:
    """Requests that held a worker, in the order of their arrivals; n of them. Durations in s.

    Attributes:
        found: the visits: arrivals, backends, upstreams, workers.
        services: how long each holds a worker.
        head: of it, until the response headers: what its client waits for.
        before: upload and attempts that failed: over when it arrives.
        way: to its backend, where a worker was free at once: the network, and what an idle worker takes to begin.
        rest: all of its response that is neither wait nor ``head``; of one that was not answered, as far as is known.
        response: as measured, s.
        wait: as measured, s; NaN where unknown.
        counted: whether its response says something of the system: not where the client left when it pleased.
        route: value per request.
        imputed: requests whose service time nobody told; theirs is drawn from the others of their route.
        left_early: requests whose client left (499); they load the workers and are in no distribution.
        refused: requests that no worker took (502 and the like): left out.
        timeout: how long nginx waited before it answered 504; None where it never did, or not at one limit.
        balancers: how each upstream's balancer seems to choose.
    """

    found: Visits
    services: Floats
    head: Floats
    before: Floats
    way: Floats
    rest: Floats
    response: Floats
    wait: Floats
    counted: Bools
    route: npt.NDArray[np.object_]
    imputed: int
    left_early: int
    refused: int
    timeout: float | None
    balancers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.services)


def workload_of(rows: pl.LazyFrame, *, workers: int | Mapping[str, int] | None = None, seed: int = 0) -> Workload:
    """The workload of split rows.

    Args:
        rows: as from ``SplitResult.rows``; ``connection`` and ``remote_addr`` are used where they were read.
        workers: per backend, or the same for all; None: read off the worker values.
        seed: for the service times that have to be drawn.

    Raises:
        SojournError: nobody said how long any request held a worker.
    """
    names = rows.collect_schema().names()
    took = pl.col("proxied") & (pl.col("answered") | pl.col("status").is_in(GIVEN_UP))
    refused = rows.select((pl.col("proxied") & ~took).sum()).collect(engine="streaming").item()
    columns = [name for name in COLUMNS if name in names]
    found = visits(rows.filter(took), columns=columns, workers=workers, waits_unknown=True)
    table = found.frame
    status = table["status"].to_numpy()
    answered = table["answered"].to_numpy()
    # What the app says, of unanswered requests too: theirs would have had headers, and streamed on, all the same.
    services, head = found.held, _numbers(table["app_service"])
    head = np.where(np.isnan(head), services, np.minimum(head, services))
    drawn = np.isnan(services)
    if drawn.all():
        raise SojournError(
            "no request says how long it held a worker: the app's service times, or its spans, are needed"
        )
    route = table["route"].to_numpy()
    services[drawn] = head[drawn] = _drawn(services, drawn, table["route"], seed)
    before = _numbers(table["upload"]) + _numbers(table["retries"])
    response, wait = _numbers(table["request_time"]), found.wait
    known = answered & ~drawn & ~np.isnan(wait)
    return Workload(
        found=found,
        services=services,
        head=head,
        before=before,
        way=_way(found),
        rest=np.where(known, response - np.nan_to_num(wait) - head, before + services - head),
        response=response,
        wait=wait,
        counted=status != LEFT,
        route=route,
        imputed=int(drawn.sum()),
        left_early=int((status == LEFT).sum()),
        refused=int(refused),
        timeout=_timeout(_numbers(table["response"])[status == 504]),
        balancers=balancers_seen(found, found.arrival + response - before),
    )


def _numbers(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()


def _drawn(services: Floats, drawn: Bools, route: pl.Series, seed: int) -> Floats:
    """Service times for those that nobody told, each that of another request of its route (of any, where none is)."""
    rng = np.random.default_rng(seed)
    codes = route.fill_null("").rank("dense").to_numpy().astype(np.int64) - 1
    known = np.flatnonzero(~drawn)
    wanted = np.flatnonzero(drawn)
    made = services[rng.choice(known, len(wanted))] if len(wanted) else np.empty(0)
    routes = int(codes.max(initial=-1)) + 1
    of_route = places_of(codes[known], routes)
    for code, here in enumerate(places_of(codes[wanted], routes)):
        same = known[of_route[code]]
        if len(same) and len(here):
            made[here] = services[rng.choice(same, len(here))]
    return made


def _way(found: Visits) -> Floats:
    """Per request: what even those pay who find a worker free, the median of their waits at its backend."""
    typical, wait = np.zeros(len(found.backends)), found.wait
    for code, here in enumerate(found.at_backend):
        arrival, told = found.arrival[here], ~np.isnan(found.busy_end[here])
        left = np.sort(found.busy_end[here][told])
        # Those that nobody tells the end of are not counted: they would seem to stay for ever.
        present = np.cumsum(told) - told - np.searchsorted(left, arrival, side="right")
        waits = wait[here][present < found.workers.count[code]]
        waits = waits[~np.isnan(waits)]
        if len(waits) >= ENOUGH_FREE:
            typical[code] = float(np.median(waits))  # below 0 where the clocks make it so
    return typical[found.backend]


def _timeout(lasted: Floats) -> float | None:
    lasted = lasted[~np.isnan(lasted)]
    if not len(lasted):
        return None
    middle = float(np.median(lasted))
    low, high = np.quantile(lasted, [0.1, 0.9])
    return middle if middle > 0 and high - low <= TIMEOUT_SPREAD * middle else None
