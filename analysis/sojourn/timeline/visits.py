"""Read visits from split rows: the requests that went to a backend, placed in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from sojourn.model.arrays import Codes, Floats, Ints
from sojourn.model.memory import VISIT_BYTES, refuse_beyond_memory
from sojourn.model.one_worker import app_instants, most_at_once
from sojourn.model.parallel import in_threads
from sojourn.sources.frame_measures import SERVED
from sojourn.timeline.classes import codes_of
from sojourn.timeline.holds import with_holds
from sojourn.timeline.ordered_rows import OrderedRows, arrival_order
from sojourn.timeline.same_workers import same_workers
from sojourn.timeline.visit_arrays import Visits
from sojourn.timeline.workers import (
    FROM_CONCURRENCY,
    FROM_INFERENCE,
    FROM_OPTION,
    FROM_WORKER_VALUES,
    Workers,
    WorkersLike,
    places_of,
    workers_of,
)

SAME_REQUEST = ("request_id", "time", "upstream")
"""Rows with the same values in these columns are one request, unless ``request_id`` is unknown."""

__all__ = [
    "FROM_CONCURRENCY", "FROM_INFERENCE", "FROM_OPTION", "FROM_WORKER_VALUES", "SAME_REQUEST", "Visits", "Workers",
    "WorkersLike", "all_differ", "most_at_once", "places_of", "visits",
]  # fmt: skip


def visits(
    rows: pl.LazyFrame,
    *,
    columns: Sequence[str] = (),
    workers: int | Mapping[str, int] | None = None,
    waits_unknown: bool = False,
    each: int = VISIT_BYTES,
) -> Visits:
    """Return the visits of split rows, upgraded connections (101) of a known service included: they may hold a worker.

    Args:
        rows: as from ``split_rows`` or ``SplitResult.rows``. With ``request_id`` in it, a row that is there twice
            counts once.
        columns: to keep in ``frame`` beside upstream, route, service, worker, status and time (when it ended).
        workers: per backend, or the same for all; None: read off the worker values.
        waits_unknown: keep requests of unknown wait, with NaN for ``wait_end``.
        each: bytes of memory that what follows takes for a request.

    Raises:
        SojournError: the requests do not fit into memory.
    """
    selected = dict.fromkeys(("upstream", "route", "service", "worker", "status", "time", *columns))
    epoch = pl.col("start").dt.epoch("us")
    held = pl.coalesce("span_seconds", "service_time")
    served = rows.filter(SERVED | (pl.col("queueing_delay").is_not_null() & held.is_not_null()))
    names = served.collect_schema().names()
    proxied = pl.col("proxied")
    placed_in_time = proxied & (pl.col("queueing_delay").is_not_null() | waits_unknown)
    total = served.select(
        not_proxied=(~proxied).sum(), no_wait=(proxied & pl.col("queueing_delay").is_null()).sum(), base=epoch.min(),
        visits=placed_in_time.sum(),
    )  # fmt: skip
    counted = total.collect(engine="streaming").row(0, named=True)
    refuse_beyond_memory(counted["visits"] or 0, each)
    base = counted["base"] or 0
    begun = (pl.col("proxy_start").dt.epoch("us") - base) / 1e6
    table = (
        served.filter(placed_in_time)
        .with_columns(__arrival=(epoch - base) / 1e6 + pl.col("upload") + pl.col("retries"))
        .with_columns(
            __wait_end=pl.col("__arrival") + pl.col("queueing_delay"),
            __busy_start=pl.coalesce(
                begun
                + pl.when(~pl.col("impossible")).then(pl.col("app_start") - pl.col("half_tick"))
                - pl.col("clock_offset").fill_null(0.0),
                pl.when("answered").then(pl.col("__arrival") + pl.col("queueing_delay")),
            ),
            __held=held,
        )
        .select(
            *selected,
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
            *(name for name in ("request_id", "time") if "request_id" in names and name not in selected),
            __headers=pl.col("__busy_start") + pl.min_horizontal(pl.coalesce("app_service", "__held"), "__held"),
            __transfer="transfer",
            __spanned=pl.col("span_seconds").is_not_null(),
        )
        .collect(engine="streaming")
    )
    left_out = {name: int(counted[name] or 0) for name in ("not_proxied", "no_wait")}
    # Nearly always there is no duplicate, and both run side by side.
    works: list[Callable[[pl.DataFrame], Any]] = [_all_differ, _Placed.of]
    differ, placed = in_threads(lambda work: work(table), works)
    left_out["duplicates"] = 0
    if not differ:
        every, table = len(table), _each_once(table)
        left_out["duplicates"] = every - len(table)
        placed = _Placed.of(table)
    backend, backends, order = placed.backend, placed.backends, placed.order
    arrival, wait_end, busy_start, busy_end, headers, transfer = (
        _numbers(table[f"__{name}"])[order]
        for name in ("arrival", "wait_end", "busy_start", "busy_end", "headers", "transfer")
    )
    recorded = Visits(
        base=datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base),
        arrival=arrival,
        wait_end=wait_end,
        busy_start=busy_start,
        busy_end=busy_end,
        backend=backend[order],
        backends=backends,
        pool=placed.pool,
        pools=placed.pools,
        workers=workers_of(placed.of_workers, backend, backends, order, workers),
        rows=OrderedRows(table.select(*selected), order),
        left_out=left_out,
        joined=placed.joined,
    )
    return with_holds(recorded, headers, table["__spanned"].to_numpy()[order], transfer)


def _numbers(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def all_differ(requests: pl.DataFrame) -> bool:
    """Return whether no two rows are alike, by their hashes; False where two hashes are alike.

    Of columns that identify a request, as the reader leaves them: no copy is made to search for duplicates.
    """
    return requests.hash_rows().n_unique() == len(requests)


def _all_differ(table: pl.DataFrame) -> bool:
    return "request_id" not in table.columns or all_differ(table.select(SAME_REQUEST))


def _each_once(table: pl.DataFrame) -> pl.DataFrame:
    has_id = pl.col("request_id").is_not_null() & (pl.col("request_id") != "")
    return pl.concat([table.filter(has_id).unique(SAME_REQUEST, keep="any"), table.filter(~has_id)])


@dataclass(frozen=True)
class _Placed:
    """The rows of a table at their backends.

    ``joined``, ``pool``, ``pools``, ``backends``: as of ``Visits``; ``of_workers``: the table with joined addresses as
    one; ``backend``: code per row; ``order``: of the rows by arrival.
    """

    joined: dict[str, str]
    of_workers: pl.DataFrame
    backends: tuple[str | None, ...]
    backend: Codes
    pool: Codes
    pools: tuple[str, ...]
    order: Ints

    @classmethod
    def of(cls, table: pl.DataFrame) -> _Placed:
        """Place the rows of a table."""
        joined = same_workers(table)
        of_workers = table.with_columns(pl.col("upstream").replace(joined)) if joined else table
        backends = tuple(of_workers["upstream"].unique(maintain_order=False).sort(nulls_last=True))
        # None comes last.
        backend = codes_of(of_workers["upstream"], [name for name in backends if name is not None]).astype(np.int32)
        pool, pools = _pools(table, backend, backends)
        order = arrival_order(table, _numbers(table["__arrival"]), backend)
        return cls(joined, of_workers, backends, backend, pool, pools, order)


def _pools(table: pl.DataFrame, backend: Codes, backends: tuple[str | None, ...]) -> tuple[Codes, tuple[str, ...]]:
    """Return backends joined if they serve a common (service, route), and a name for each such upstream."""
    if not backends:
        return np.array([], np.int32), ()
    served = table.select("service", "route").with_columns(backend=pl.Series(backend, dtype=pl.Int64))
    served = served.lazy().unique().collect(engine="streaming")
    route = served.select(pl.struct("service", "route").rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    labels, pool = np.unique(_joined(served["backend"].to_numpy(), route, len(backends)), return_inverse=True)
    names = []
    for members in places_of(pool, len(labels)):
        first = ", ".join(str(backends[i] or "–") for i in members[:3])
        names.append(first + (f" and {len(members) - 3} more" if len(members) > 3 else ""))
    return pool.astype(np.int32), tuple(names)


def _joined(backend: Ints, route: Ints, backends: int) -> Ints:
    """Return the smallest backend that each backend is joined with, by common routes, directly or through others.

    Every backend takes over the smallest number of its routes until none changes. A library for graphs would take
    longer to load than this takes.
    """
    joined = np.arange(backends)
    while True:
        of_route = np.full(int(route.max()) + 1, backends)
        np.minimum.at(of_route, route, joined[backend])
        smaller = joined.copy()
        np.minimum.at(smaller, backend, of_route[route])
        smaller = smaller[smaller]
        if (smaller == joined).all():
            return joined
        joined = smaller
