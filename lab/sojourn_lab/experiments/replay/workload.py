"""Reduce a log to a load that the lab can replay: arrivals and service times only.

The replay keeps the instants relative to the first arrival, the service times, which requests share a route, and the
number of backends and workers; to the microsecond. It keeps no URI, address, id, name or date.

An arrival is the instant at which nginx turned to the backend that answered: an upload, or attempts that failed before,
are over by then and are not replayed. A request of unknown service time (504 without a span, say) held a worker
nevertheless: it gets the service time of another request of its route. A request that no worker served is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from sojourn.analyses.whatif.workload import Workload, workload_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted

from sojourn_lab.errors import LabError
from sojourn_lab.scenario.load import MAX_REQUESTS

LONGEST = 86_400.0
"""Longest scenario, s."""

MOST = 64
"""Most backends, and most workers of each, that the lab starts."""

PATIENCE = 60.0
"""Timeout of nginx for an app (s) if the log does not show it: nginx's default."""

COLUMNS = ("request_id", "connection", "remote_addr", "route", "service", "worker")
"""Columns read in addition to those of the split; the replay keeps none of them."""


@dataclass(frozen=True)
class Tier:
    """The backends that served the same routes: their number, workers of each, and the source of that number."""

    backends: int
    workers: int
    source: str
    uneven: bool
    routes: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """Original measurements of the requests that are replayed and answered; s.

    `response` is the time at the backend, from nginx's turning to it to the end of its answer.
    """

    requests: int
    response_mean: float
    response_p50: float
    response_p99: float
    queueing_mean: float
    queueing_p99: float
    service_mean: float


@dataclass(frozen=True)
class Replay:
    """The load to be offered, and counts of the log's requests.

    Attributes:
        at: arrivals, s after the first one, ascending.
        services: service times, s.
        routes: as the replay calls them.
        tiers: the largest first.
        balancer: as nginx has it.
        patience: s that nginx waits for an app.
        original: what was measured.
        speed: how many times as fast the arrivals come.
        read: requests in the log.
        drawn: requests without a service time of their own.
        left_early: requests abandoned by their client.
        not_proxied: requests sent to no backend.
        refused: requests served by no worker.
        repeated: requests that are present twice.
    """

    at: Sequence[float]
    services: Sequence[float]
    routes: Sequence[str]
    tiers: Sequence[Tier]
    balancer: str
    patience: float
    original: Figures
    speed: float
    read: int
    drawn: int
    left_early: int
    not_proxied: int
    refused: int
    repeated: int

    @property
    def rate(self) -> float:
        """Mean arrivals a second."""
        return len(self.at) / max(self.at[-1], 1e-3)


def replay_of(
    rows: pl.LazyFrame,
    *,
    workers: int | Mapping[str, int] | None = None,
    limit: int | None = None,
    speed: float = 1.0,
    keep_routes: bool = False,
) -> Replay:
    """Return the replay of split rows (as from `SplitResult.rows`, with COLUMNS).

    Args:
        rows: the requests.
        workers: of each backend, or of some by address; None: read off the worker values.
        limit: number of requests to keep, the earliest.
        speed: factor of the arrivals; service times do not change.
        keep_routes: call the routes by their names, as far as a scenario can spell them.

    Raises:
        LabError: there is no request to replay, or more than the lab can offer.
    """
    if limit is not None:
        rows = rows.sort("start").head(limit)
    counts = rows.select(pl.len(), (~pl.col("proxied")).sum().alias("not_proxied")).collect().row(0, named=True)
    if not counts["len"]:
        raise LabError("there is no request to replay")
    try:
        work = workload_of(rows, workers=workers)
    except SojournError as error:
        raise LabError(str(error)) from None
    if not len(work):
        raise LabError("no request of the log was taken by a worker: there is nothing to replay")
    if len(work) > MAX_REQUESTS:
        raise LabError(
            f"{counted(len(work), 'request is', 'requests are')} more than the {MAX_REQUESTS:,} of a scenario: see "
            f"--limit, --since"
        )
    at = [round(float(instant - work.visits.arrival[0]) / speed, 6) for instant in work.visits.arrival]
    if at[-1] >= LONGEST:
        raise LabError(f"{at[-1] / 3600:.1f} hours are longer than a scenario's day: see --limit, --since, --speed")
    names = _route_names(work, keep_routes)
    return Replay(
        at=at,
        services=[round(max(float(each), 0.0), 6) for each in work.services],
        routes=[names[key] for key in _route_keys(work)],
        tiers=_tiers(work, names),
        balancer="least_conn" if set(work.balancers) == {"least_conn"} else "round_robin",
        patience=work.timeout or max(PATIENCE, 2.0 * float(work.services.max())),
        original=_figures(work),
        speed=speed,
        read=counts["len"],
        drawn=work.imputed,
        left_early=work.left_early,
        not_proxied=int(counts["not_proxied"] or 0),
        refused=work.refused,
        repeated=work.visits.left_out.get("duplicates", 0),
    )


def _route_keys(work: Workload) -> list[tuple[int, str]]:
    """Return the keys of routes: upstream and name, because two upstreams may share a name."""
    pools = work.visits.pool[work.visits.backend]
    return [(int(pool), str(route or "")) for pool, route in zip(pools, work.route, strict=True)]


def _route_names(work: Workload, keep: bool) -> dict[tuple[int, str], str]:
    """Return the name of each route: /r1, /r2, … in the order of their first request, or its own name."""
    names: dict[tuple[int, str], str] = {}
    for key in _route_keys(work):
        if key not in names:
            names[key] = _own_name(key[1], set(names.values())) if keep else f"/r{len(names) + 1}"
    return names


def _own_name(route: str, used: set[str]) -> str:
    """Return a route's name as a scenario can spell it, different from those in use."""
    spelt = re.sub(r"[^a-z0-9/_-]+", "-", route.lower()).strip("-").lstrip("/")[:50] or "route"
    candidates = [f"/{spelt}", *(f"/{spelt}-{number}" for number in range(2, len(used) + 3))]
    return next(each for each in candidates if each not in used)


def _tiers(work: Workload, names: Mapping[tuple[int, str], str]) -> list[Tier]:
    """Return the upstreams of the log, that with the most requests first; LabError if the lab cannot start as many."""
    visits = work.visits
    pool_of_request = visits.pool[visits.backend]
    tiers = []
    for pool in sorted(range(len(visits.pools)), key=lambda pool: -int((pool_of_request == pool).sum())):
        members = [code for code in range(len(visits.backends)) if visits.pool[code] == pool]
        counts = [int(visits.workers.count[code]) for code in members]
        each = max(1, round(sum(counts) / len(counts)))
        if len(members) > MOST or each > MOST:
            raise LabError(
                f"the log has {counted(len(members), 'backend')} of {counted(each, 'worker')}; the lab starts at "
                f"most {MOST} of {MOST}:"
                " choose some with --where upstream=…, or set --workers"
            )
        routes = tuple(name for (of, _), name in names.items() if of == pool)
        source = ", ".join(sorted({visits.workers.source[code] for code in members}))
        tiers.append(Tier(len(members), each, source, len(set(counts)) > 1, routes))
    return tiers


def _figures(work: Workload) -> Figures:
    """Return the figures of the requests that count, without those whose client left."""
    measured = work.visits.frame["response"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    response = measured[work.counted & ~np.isnan(measured)]
    wait = work.wait[work.counted & ~np.isnan(work.wait)]
    if not len(response) or not len(wait):
        raise LabError("no request of the log was answered: there are no figures to compare a replay with")
    return Figures(
        requests=len(response),
        response_mean=float(response.mean()),
        response_p50=float(np.quantile(response, 0.5)),
        response_p99=float(np.quantile(response, 0.99)),
        queueing_mean=max(float(wait.mean()), 0.0),
        queueing_p99=max(float(np.quantile(wait, 0.99)), 0.0),
        service_mean=float(work.services[work.counted].mean()),
    )
