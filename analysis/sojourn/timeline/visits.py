"""Requests as customers of a queue: the instants of arrival, end of the wait, start and end of service.

    arrival      nginx had the request and turned to the backend: start + upload + retries
    wait_end     arrival + queueing delay: the app's start, or the instant nginx or the client gave up
    busy_start   the app's start, on nginx's clock; for a request given up on, later than wait_end
    busy_end     busy_start + the time a worker was held: the span's where there is one, otherwise the service time,
                 which ends with the response headers (a worker that goes on streaming is held longer; a span shows it)

Blame, queue length and what-if all start from these four instants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.one_worker import SLACK, Overlap, app_instants, most_at_once, overlaps
from sojourn.sources.frame_measures import without_upgraded

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
WorkersLike = int | Mapping[str, int] | None

FROM_WORKER_VALUES = "worker values"
FROM_OPTION = "told"
FROM_CONCURRENCY = "most at once"
FROM_INFERENCE = "inferred"


@dataclass(frozen=True)
class Workers:
    """How many workers each backend has, and how that is known.

    Attributes:
        count: per backend, at least 1.
        source: per backend: ``FROM_WORKER_VALUES`` (distinct worker values in use at the same time), ``FROM_OPTION``
            (set by the user), or ``FROM_CONCURRENCY`` (no worker value was logged: the maximum number of requests in
            service at the same time, a lower bound), or ``FROM_INFERENCE`` (the queue itself is inferred from the
            log, and the workers with it).
        names: per backend, distinct worker values; more than ``count`` where workers were replaced.
        overlap: per backend, requests that one of its workers served at the same time.
        slack: per backend, s: services that overlap by less may only seem to, by the steps of the app's clock.
    """

    count: npt.NDArray[np.int64]
    source: tuple[str, ...]
    names: npt.NDArray[np.int64]
    overlap: tuple[Overlap, ...] = ()
    slack: tuple[float, ...] = ()

    def in_one_worker(self, backend: int) -> int:
        """Return how many requests a worker of a backend serves at a time; 1 if the user set the number of workers."""
        serial = not self.overlap or self.source[backend] == FROM_OPTION or not self.overlap[backend].concurrent
        return 1 if serial else self.overlap[backend].most


@dataclass(frozen=True)
class Visits:
    """Requests that went to a backend and whose wait is known, in the order of their arrivals; n of them.

    Attributes:
        base: the instant 0 of every instant here.
        arrival, wait_end: s after base; NaN only for a wait that is not known. wait_end < arrival where the clocks
            make the wait negative.
        busy_start, busy_end: s after base; NaN if the start of service is unknown.
        backend: index into ``backends``, per request.
        backends: addresses; None for requests without one.
        pool: index into ``pools``, per backend. Backends that serve a (service, route) in common are one upstream.
        pools: names of the upstreams, for people.
        workers: per backend.
        frame: the n rows, in the same order, with the requested columns.
        left_out: reason -> requests of the source that are not here: ``not_proxied``, ``no_wait`` (proxied, but nothing
            shows how long it waited), ``duplicates`` (the same request id and end as another row).
    """

    base: datetime
    arrival: Floats
    wait_end: Floats
    busy_start: Floats
    busy_end: Floats
    backend: Codes
    backends: tuple[str | None, ...]
    pool: Codes
    pools: tuple[str, ...]
    workers: Workers
    frame: pl.DataFrame
    left_out: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def wait(self) -> Floats:
        """Queueing delay per request, s, signed."""
        return self.wait_end - self.arrival

    @cached_property
    def at_backend(self) -> list[Ints]:
        """Per backend, the indices of its requests, ascending: computed in one pass for any number of backends."""
        return places_of(self.backend, len(self.backends))

    @property
    def ended(self) -> Floats:
        """The end of each request in nginx, s after base."""
        return (self.frame["time"] - self.base).dt.total_microseconds().to_numpy() / 1e6

    @property
    def held(self) -> Floats:
        """The time for which each request held a worker, s; NaN if unknown."""
        return self.busy_end - self.busy_start


def visits(
    rows: pl.LazyFrame,
    *,
    columns: Sequence[str] = (),
    workers: int | Mapping[str, int] | None = None,
    waits_unknown: bool = False,
) -> Visits:
    """Return the visits of split rows.

    Args:
        rows: as from ``split_rows`` or ``SplitResult.rows``. With ``request_id`` in it, a row that is there twice
            counts once.
        columns: to keep in ``frame`` beside upstream, route, service, worker, status and time (when it ended).
        workers: per backend, or the same for all; None: read off the worker values.
        waits_unknown: keep requests of unknown wait, with NaN for ``wait_end``.
    """
    kept = dict.fromkeys(("upstream", "route", "service", "worker", "status", "time", *columns))
    epoch = pl.col("start").dt.epoch("us")
    served = without_upgraded(rows)
    names = served.collect_schema().names()
    proxied = pl.col("proxied")
    total = served.select(
        not_proxied=(~proxied).sum(), no_wait=(proxied & pl.col("queueing_delay").is_null()).sum(), base=epoch.min()
    )
    counted = total.collect(engine="streaming").row(0, named=True)
    base = counted["base"] or 0
    begun = (pl.col("proxy_start").dt.epoch("us") - base) / 1e6
    table = (
        served.filter(proxied & (pl.col("queueing_delay").is_not_null() | waits_unknown))
        .with_columns(__arrival=(epoch - base) / 1e6 + pl.col("upload") + pl.col("retries"))
        .with_columns(
            __wait_end=pl.col("__arrival") + pl.col("queueing_delay"),
            __busy_start=pl.coalesce(
                begun
                + pl.when(~pl.col("impossible")).then(pl.col("app_start") - pl.col("half_tick"))
                - pl.col("clock_offset").fill_null(0.0),
                pl.when("answered").then(pl.col("__arrival") + pl.col("queueing_delay")),
            ),
            __held=pl.coalesce("span_seconds", "service_time"),
        )
        .select(
            *kept,
            "__arrival",
            "__wait_end",
            pl.when(pl.col("__held").is_not_null()).then("__busy_start").alias("__busy_start"),
            (pl.col("__busy_start") + pl.col("__held")).alias("__busy_end"),
            *(instant.name.prefix("__app_") for instant in app_instants()),
            *(
                ("inferred_workers",)
                if "inferred_workers" in names
                else (pl.lit(None, pl.Int64).alias("inferred_workers"),)
            ),
            *(name for name in ("request_id", "time") if "request_id" in names and name not in kept),
        )
        .collect(engine="streaming")
    )
    left_out = {name: int(counted[name] or 0) for name in ("not_proxied", "no_wait")}
    table, left_out["duplicates"] = _each_once(table)
    # A total order, whatever the order of the lines was.
    table = table.sort("__arrival", "upstream", "__busy_start", "__wait_end", "__busy_end", "route", nulls_last=True)
    backends = table["upstream"].unique(maintain_order=False).sort(nulls_last=True)
    codes = {name: code for code, name in enumerate(backends)}
    backend = _codes(table["upstream"], codes)
    pool, pools = _pools(table, backend, backends.to_list())
    instants = {
        name: table[f"__{name}"].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
        for name in ("arrival", "wait_end", "busy_start", "busy_end")
    }
    return Visits(
        base=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base),
        **instants,
        backend=backend,
        backends=tuple(backends),
        pool=pool,
        pools=pools,
        workers=_workers(table, backend, tuple(backends), workers),
        frame=table.select(*kept),
        left_out=left_out,
    )


def places_of(codes: npt.NDArray[np.integer[Any]], count: int) -> list[Ints]:
    """Return the positions of each code from 0 to ``count`` - 1, ascending."""
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1]) if count else []


def _each_once(table: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    if "request_id" not in table.columns:
        return table, 0
    same = ["request_id", "time", "upstream"]
    # Rows whose hashes all differ, differ: no copy is made where the reader has left no duplicate, as it mostly has.
    if table.select(pl.struct(same).hash().n_unique()).item() == len(table):
        return table, 0
    known = pl.col("request_id").is_not_null() & (pl.col("request_id") != "")
    named = table.filter(known).unique(same, keep="any")
    kept = pl.concat([named, table.filter(~known)])
    return kept, len(table) - len(kept)


def _codes(values: pl.Series, codes: Mapping[str | None, int]) -> Codes:
    codess = values.replace_strict(list(codes), list(codes.values()), return_dtype=pl.Int32) if codes else values
    return codess.cast(pl.Int32).to_numpy().copy()


def _pools(table: pl.DataFrame, backend: Codes, backends: list[str | None]) -> tuple[Codes, tuple[str, ...]]:
    """Return backends joined if they serve a common (service, route), and a name for each such upstream."""
    if not backends:
        return np.array([], np.int32), ()
    served = table.select("service", "route").with_columns(backend=pl.Series(backend, dtype=pl.Int64)).unique()
    route = served.select(pl.struct("service", "route").rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    joined = _joined(served["backend"].to_numpy(), route, len(backends))
    labels, pool = np.unique(joined, return_inverse=True)
    names = []
    for number in range(len(labels)):
        members = [str(backends[i] or "–") for i in np.flatnonzero(pool == number)]
        names.append(", ".join(members[:3]) + (f" and {len(members) - 3} more" if len(members) > 3 else ""))
    return pool.astype(np.int32), tuple(names)


def _joined(backend: Ints, route: Ints, count: int) -> Ints:
    """Return, per backend, the first of the backends linked to it, over any number of links (backend, route)."""
    first = np.arange(count)
    while True:
        of_route = np.full(int(route.max()) + 1, count)
        np.minimum.at(of_route, route, first[backend])
        linked = first.copy()
        np.minimum.at(linked, backend, of_route[route])
        linked = linked[linked]  # the first of the first, for half as many rounds
        if (linked == first).all():
            return first
        first = linked


def _workers(
    table: pl.DataFrame, backend: Codes, backends: tuple[str | None, ...], option: int | Mapping[str, int] | None
) -> Workers:
    inferred = dict(table.group_by("upstream").agg(pl.col("inferred_workers").max()).iter_rows())
    held = table.select("worker", "__busy_start", "__busy_end").with_columns(backend=pl.Series(backend, dtype=pl.Int32))
    held = held.filter(pl.col("__busy_end").is_not_null())
    lives = (
        held.filter(pl.col("worker").is_not_null())
        .group_by("backend", "worker")
        .agg(pl.col("__busy_start").min(), pl.col("__busy_end").max())
    )
    instants = table.select("upstream", "worker", begin="__app_begin", end="__app_end")
    measured = overlaps(instants)
    of_backend = [measured.get(name, (Overlap(), SLACK)) for name in backends]
    count, source, names = [], [], []
    of_names, of_requests = (_intervals(frame, len(backends)) for frame in (lives, held))
    for code, name in enumerate(backends):
        names.append(len(of_names[code][0]))
        configured = option.get(name or "") if isinstance(option, Mapping) else option
        if configured is not None:
            count.append(configured)
            source.append(FROM_OPTION)
            continue
        if inferred.get(name):
            count.append(inferred[name])
            source.append(FROM_INFERENCE)
            continue
        begin, end = of_names[code] if names[-1] else of_requests[code]
        count.append(max(most_at_once(begin, end), 1))
        source.append(FROM_WORKER_VALUES if names[-1] else FROM_CONCURRENCY)
    return Workers(
        np.array(count, np.int64),
        tuple(source),
        np.array(names, np.int64),
        tuple(overlap for overlap, _ in of_backend),
        tuple(slack for _, slack in of_backend),
    )


def _intervals(frame: pl.DataFrame, backends: int) -> list[tuple[Floats, Floats]]:
    """Return the begins and ends of the frame's intervals, per backend."""
    begin, end = frame["__busy_start"].to_numpy(), frame["__busy_end"].to_numpy()
    return [(begin[members], end[members]) for members in places_of(frame["backend"].to_numpy(), backends)]
