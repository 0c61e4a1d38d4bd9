"""One station of the queueing network, a backend or an upstream: rates, moments, burstiness."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Floats, Ints
from sojourn.model.components import GIVEN_UP_STATUSES
from sojourn.model.groups import LARGEST
from sojourn.timeline.apparent_loop import ApparentLoop, loop_of
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.load_windows import RESPONSES, WINDOWS
from sojourn.timeline.silences import clause, silences
from sojourn.timeline.visits import Visits, places_of

BATCHES = 20
T_95 = 2.093  # Student's t, 19 degrees of freedom, 97.5 %
COUNT = 20  # arrivals in a window of the index of dispersion, on average
BACKEND, UPSTREAM = "backend", "upstream"


@dataclass(frozen=True)
class Station:
    """Measurements of one station. Rates per s, durations s.

    Attributes:
        kind: backend, or upstream (all its backends together).
        name: address, or the upstream's name.
        backends: number of its backends.
        requests: number of visits.
        measured: share of the visits whose time with a worker is known.
        seconds: from the first arrival to the last.
        arrival_rate: arrivals/s.
        mean_service: time a worker was held.
        cs2: its squared coefficient of variation, variance / mean².
        workers: of all its backends.
        workers_source: how they are known, as in ``Visits``.
        utilisation: arrival_rate · mean_service / workers.
        ca2: squared coefficient of variation of the times between arrivals.
        ca2_error: its standard error, from batches.
        dispersion: index of dispersion for counts, variance / mean of arrivals in windows of ``dispersion_window`` s
            (Cox & Lewis 1966, section 4.5): what ca2 misses when short gaps come together.
        dispersion_window: s.
        dispersion_error: standard error of the index for Poisson arrivals.
        mean_wait: queueing delay.
        wait_error: half of its 95 % interval, by batch means (Conway 1963).
        given_up: share given up on while they waited or were served.
        loop: closed or open.
        windows: columns utilisation, wait (mean), requests; by time.
        in_one_worker: requests that one worker serves at a time.
        dependence: how services depend on the load, as a clause; None: they do not.
        silence: stretches without a line, as a clause; None: there are none.
    """

    kind: str
    name: str | None
    backends: int
    requests: int
    measured: float
    seconds: float
    arrival_rate: float
    mean_service: float
    cs2: float
    workers: int
    workers_source: str
    utilisation: float
    ca2: float
    ca2_error: float
    dispersion: float | None
    dispersion_window: float
    dispersion_error: float
    mean_wait: float
    wait_error: float
    given_up: float
    loop: ApparentLoop
    windows: pl.DataFrame
    in_one_worker: int = 1
    dependence: str | None = None
    silence: str | None = None


def stations(visits: Visits, *, least: int) -> list[Station]:
    """Return upstreams of several backends first, then backends, busiest first; those with ``least`` visits or more.

    Of many, the ``LARGEST`` upstreams and backends with the most visits; ``backends_beyond`` counts other backends.
    """
    dependent = LoadDependence.of(visits).clauses
    built = []
    status = visits.rows["status"].to_numpy()
    enough = np.zeros(len(visits.backends), np.bool_)
    enough[visits.largest] = visits.served[visits.largest] >= least
    of_pool = np.bincount(visits.pool, visits.served, len(visits.pools))
    large = set(np.argsort(-of_pool, kind="stable")[:LARGEST].tolist())
    for number, members in enumerate(places_of(visits.pool, len(visits.pools))):
        codes = members[enough[members]]
        if of_pool[number] < least or (number not in large and not len(codes)):
            continue
        name = visits.pools[number]
        whole = _station(visits, members, UPSTREAM, name, least, status) if number in large else None
        each = [_station(visits, np.array([code]), BACKEND, visits.backends[code], least, status) for code in codes]
        of_whole = next(
            (dependent[visits.backends[code]] for code in members if visits.backends[code] in dependent), None
        ) if dependent else None  # fmt: skip
        whole = whole and replace(whole, dependence=of_whole)
        each = [s and replace(s, dependence=dependent.get(s.name)) for s in each]
        # Clients of a closed loop go from one backend to another: the whole knows, a backend alone may not.
        if whole is not None and whole.loop.closed:
            each = [s and replace(s, loop=replace(s.loop, closed=True)) for s in each]
        built += [whole if len(members) > 1 else None, *each]
    measured = [station for station in built if station is not None]
    return sorted(measured, key=lambda s: (s.kind == BACKEND, -s.requests))


def backends_beyond(visits: Visits, *, least: int) -> dict[str, int]:
    """Return ``values`` and ``requests`` of the backends with ``least`` visits that are not among the largest.

    An upstream of several backends that has no station is one of more than ``LARGEST``: so are its backends.
    """
    enough = visits.served >= least
    enough[visits.largest] = False
    return {"values": int(enough.sum()), "requests": int(visits.served[enough].sum())} if enough.any() else {}


def _station(
    visits: Visits, members: npt.NDArray[np.intp], kind: str, name: str | None, least: int, status: Ints
) -> Station | None:
    """Return the station of some backends; None: it has too few visits. ``status``: of all visits."""
    order = np.sort(np.concatenate([visits.at_backend[member] for member in members]), kind="stable")
    arrival = visits.arrival[order]
    wait, held = visits.wait_end[order] - arrival, visits.busy_end[order] - visits.occupied[order]
    if len(arrival) < least or arrival[-1] <= arrival[0]:
        return None
    has_time = np.isfinite(held)
    if not has_time.any():
        return None
    workers = int(visits.workers.count[members].sum())
    sources = {visits.workers.source[member] for member in members}
    seconds = float(arrival[-1] - arrival[0])
    rate = (len(arrival) - 1) / seconds
    service = float(held[has_time].mean())
    ended = np.fmax(visits.wait_end[order], visits.busy_end[order])
    silent = silences(arrival, ended)
    dispersion, window, dispersion_error = _dispersion(arrival)
    gone = status[order]
    return Station(
        kind=kind,
        name=name,
        backends=len(members),
        requests=len(arrival),
        measured=float(has_time.mean()),
        seconds=seconds,
        arrival_rate=rate,
        mean_service=service,
        cs2=_scv(held[has_time]),
        workers=workers,
        workers_source=", ".join(sorted(sources)),
        utilisation=rate * service / workers,
        ca2=_scv(np.diff(arrival)),
        ca2_error=_scv_error(np.diff(arrival)),
        dispersion=dispersion,
        dispersion_window=window,
        dispersion_error=dispersion_error,
        mean_wait=float(wait.mean()),
        wait_error=_batch_error(wait),
        given_up=float(np.isin(gone, GIVEN_UP_STATUSES).mean()),
        loop=loop_of_requests(arrival, ended),
        windows=_windows(arrival, wait, np.where(has_time, held, service), workers),
        silence=clause(silent) if silent else None,
        in_one_worker=max(visits.workers.in_one_worker(int(member)) for member in members),
    )


def _scv(values: Floats) -> float:
    """Return the squared coefficient of variation; 0 if the mean is 0."""
    mean = float(values.mean())
    return float(values.var()) / mean**2 if mean > 0 else 0.0


def _scv_error(values: Floats) -> float:
    """Estimate the standard error of the squared coefficient of variation, from batches."""
    batches = [_scv(batch) for batch in np.array_split(values, BATCHES) if len(batch) > 1]
    return float(np.std(batches, ddof=1) / math.sqrt(len(batches))) if len(batches) > 1 else math.inf


def _batch_error(values: Floats) -> float:
    """Return half of the 95 % interval of a mean of dependent values, by batch means."""
    if len(values) < 2 * BATCHES:
        return math.inf
    means = [float(batch.mean()) for batch in np.array_split(values, BATCHES)]
    return T_95 * float(np.std(means, ddof=1)) / math.sqrt(BATCHES)


def _dispersion(arrival: Floats) -> tuple[float | None, float, float]:
    """Return the index of dispersion for counts, its window (s), and its standard error for Poisson arrivals."""
    windows = len(arrival) // COUNT
    width = float(arrival[-1] - arrival[0]) / max(windows, 1)
    if windows < 10:
        return None, width, math.inf
    counts = np.histogram(arrival, bins=windows)[0]
    return float(counts.var(ddof=1) / counts.mean()), width, math.sqrt(2 / (windows - 1))


def loop_of_requests(arrival: Floats, ended: Floats) -> ApparentLoop:
    """Estimate whether the load is a closed or an open loop, by windows as in ``capacity``.

    Args:
        arrival: arrivals, s, ascending.
        ended: when each of these requests was answered or abandoned, s.
    """
    at, until = (np.round((values - arrival[0]) * 1e6).astype(np.int64) for values in (arrival, ended))
    until = np.maximum(until, at)
    span = int(at[-1])
    mean = float((until - at).mean()) / 1e6
    micros = max(min(round(max(span / 1e6 / WINDOWS, RESPONSES * mean) * 1e6), span), 1)
    count = span // micros
    out = np.sort(until, kind="stable")  # which is fast where most is in order
    before = np.searchsorted(out, at, side="right") - 1  # the last departure at or before each arrival
    bucket, leaving = at // micros, out // micros
    followed = (before >= 0) & (leaving[np.maximum(before, 0)] == bucket)
    gap = np.diff(out)
    same = leaving[1:] == leaving[:-1]

    def summed(windows: Ints, weights: Floats | Ints | None = None) -> Floats:
        # Requests that end after the last window are counted together, and cut.
        return np.bincount(np.minimum(windows, count), weights, minlength=count)[:count].astype(np.float64)

    table = pl.DataFrame(
        {
            "arrivals": summed(bucket).astype(np.int64),
            "departures": summed(leaving).astype(np.int64),
            "followed": summed(bucket, followed).astype(np.int64),
            "age": summed(bucket, np.where(followed, at - out[np.maximum(before, 0)], 0)),
            "gaps": summed(leaving[1:], np.where(same, gap, 0)),
            "gaps_squared": summed(leaving[1:], np.where(same, (gap / 1e6) ** 2, 0)),
        }
    )
    change = table["arrivals"].to_numpy() - table["departures"].to_numpy()
    inside = np.cumsum(change) - change
    left = summed(bucket, (bucket + 1) * micros - at) - summed(leaving, (leaving + 1) * micros - out)
    return loop_of(table.with_columns(concurrency=inside + left / micros))


def _windows(arrival: Floats, wait: Floats, held: Floats, workers: int, most: int = WINDOWS) -> pl.DataFrame:
    """Return load and wait over time: the service that arrived in a window, relative to the time of its workers."""
    count = min(most, max(len(arrival) // 50, 1))
    width = float(arrival[-1] - arrival[0]) / count
    window = np.minimum(((arrival - arrival[0]) / width).astype(np.int64), count - 1)
    requests = np.bincount(window, minlength=count)
    some = requests > 0
    return pl.DataFrame(
        {
            "utilisation": (np.bincount(window, held, minlength=count) / (width * workers))[some],
            "wait": np.bincount(window, wait, minlength=count)[some] / requests[some],
            "requests": requests[some],
        }
    )
