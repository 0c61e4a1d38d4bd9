"""Blame and held workers per minute, computed from the rows of a store and kept in its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import Template

import polars as pl

from sojourn.analyses.blame.by_minute import blame_by_minute
from sojourn.model.errors import SojournError
from sojourn.sources.opening import open_sources
from sojourn.store.client import Store, connect, in_utc, plainly, rows
from sojourn.store.rollups import refresh_spans
from sojourn.store.statements import sql
from sojourn.timeline.held_minutes import AT_LEAST, held_by_minute
from sojourn.timeline.visits import visits

SLICE_ROWS = 250_000  # requests per slice: about 1 GB of memory
MINUTE = timedelta(minutes=1)
SETTLED = timedelta(minutes=2)  # after the end of a minute: by then its requests have most likely been stored
# Maximum look-back: requests that wait when a slice begins arrived earlier, and so did their culprits.
WARM_UP = timedelta(hours=1)
KEYS = ("minute", "service", "upstream", "account", "victim", "culprit")
HELD_KEYS = ("minute", "service", "upstream", "phase")
TABLES = {"blame_minute": KEYS, "held_minute": HELD_KEYS}
"""Tables of a computation -> the columns by which a row replaces an earlier one."""


@dataclass
class Explained:
    """Counts of a computation.

    Attributes:
        minutes: minutes computed.
        requests: rows read, including the warm-up.
        rows: rows of ``blame_minute`` written with more than 0 s.
        seconds: their total queueing delay.
        held: seconds for which workers were held, of ``held_minute``.
        at_least: of these, the seconds that are a lower bound.
        gone: rows of earlier computations that are obsolete and were written as 0 s.
    """

    minutes: int = 0
    requests: int = 0
    rows: int = 0
    seconds: float = 0.0
    held: float = 0.0
    at_least: float = 0.0
    gone: int = 0


def explain_store(
    dsn: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    workers: int | Mapping[str, int] | None = None,
    slice_rows: int = SLICE_ROWS,
    on_minutes: Callable[[int, int], None] | None = None,
) -> Explained:
    """Compute blame and held workers of the minutes that are due, and replace their rows.

    A minute is due if a request of it, or of the minute before or after, was stored since its last computation. With
    both ``since`` and ``until``, all minutes between them are computed. Memory is bounded by ``slice_rows``.

    Args:
        dsn: the store; ``sojourn store init`` creates its tables.
        since: only minutes from this instant on.
        until: only minutes before this instant; None: those that ended two minutes ago.
        workers: number of workers per backend, as for ``sojourn.timeline.visits.visits``.
        slice_rows: requests per slice; a minute is never divided.
        on_minutes: called with (slices done, number of slices).

    Raises:
        SojournError: the store cannot be reached or queried, or lacks the tables.
    """
    every = since is not None and until is not None
    done = Explained()
    with connect(dsn) as store:
        with plainly(store, "reading the minutes that are due"):
            for name in TABLES:
                if not rows(store, f"EXISTS TABLE {name}")[0][0]:
                    raise SojournError(f"{store.dsn}: has no table {name}; `sojourn store init {store.dsn}` adds it")
            due = _due(store, since, until or datetime.now(UTC) - SETTLED, every=every)
        for number, (begin, end) in enumerate(ranges := list(_slices(due, slice_rows)), start=1):
            _explain(store, dsn, begin, end, workers, done)
            if on_minutes:
                on_minutes(number, len(ranges))
        refresh_spans(store)
    return done


def _due(store: Store, since: datetime | None, until: datetime, *, every: bool) -> list[tuple[datetime, int]]:
    """Return (minute, requests that ended in it) of every minute to compute, ascending."""
    bounds = {
        "since": int(since.timestamp()) // 60 * 60 if since else 0,
        "until": int(until.timestamp()) // 60 * 60,
        "every": int(every),
    }
    return [(in_utc(minute), count) for minute, count in rows(store, sql("blame_due"), bounds)]


def _slices(due: Sequence[tuple[datetime, int]], limit: int) -> Iterator[tuple[datetime, datetime]]:
    """Yield [begin, end) of consecutive minutes with about ``limit`` requests at most."""
    requests = 0
    begin = end = None
    for minute, count in due:
        if begin is not None and end is not None and (minute != end or requests + count > limit):
            yield begin, end
            begin = None
        if begin is None:
            begin, requests = minute, 0
        requests += count
        end = minute + MINUTE
    if begin is not None and end is not None:
        yield begin, end


def _explain(
    store: Store, dsn: str, begin: datetime, end: datetime, workers: int | Mapping[str, int] | None, done: Explained
) -> None:
    with plainly(store, "reading the first arrival of the slice"):
        version = in_utc(rows(store, "SELECT now64(3, 'UTC')")[0][0])
        bounds = {"begin": int(begin.timestamp()), "end": int(end.timestamp())}
        reach = {**bounds, "reach": int((begin - WARM_UP).timestamp())}
        first = in_utc(rows(store, sql("blame_reach"), reach)[0][0])
    # Requests are read by arrival: those in system when the slice begins, and those in system when these arrived.
    with open_sources([dsn], since=first, until=end, columns=("request_id",)) as requests:
        read = int(requests.rows.select(pl.len()).collect().item())
        visited = visits(requests.rows, workers=workers)
        held = held_by_minute(requests.rows, visited, begin, end)
    table = blame_by_minute(visited, "route").filter(pl.col("minute").is_between(begin, end, closed="left"))
    blame = (
        table.with_columns(pl.col("service", "upstream", "victim", "culprit").fill_null(""))
        .group_by(KEYS)
        .agg(pl.col("seconds").sum())
    )
    with plainly(store, "replacing the rows of these minutes"):
        for name, computed in (("blame_minute", blame), ("held_minute", held)):
            done.gone += _replace(store, name, computed, bounds, version)
        # Marked last: an interrupted computation is repeated.
        count = int((end - begin) / MINUTE)
        marks = [[begin + number * MINUTE, version] for number in range(count)]
        store.client.insert("explained_minutes", marks, column_names=["minute", "version"])
    done.minutes += count
    done.requests += read
    done.rows += len(blame)
    done.seconds += float(blame["seconds"].sum())
    done.held += float(held["seconds"].sum())
    done.at_least += float(held.filter(pl.col("phase") == AT_LEAST)["seconds"].sum())


def _replace(store: Store, table: str, computed: pl.DataFrame, bounds: dict[str, int], version: datetime) -> int:
    """Write the rows of some minutes, and 0 s for those that are obsolete; return the number of the latter."""
    keys = list(TABLES[table])
    before = rows(store, Template(sql("explained_before")).substitute(table=table, keys=", ".join(keys)), bounds)
    old = pl.DataFrame(before, schema={name: computed.schema[name] for name in keys}, orient="row")
    gone = old.join(computed, on=keys, how="anti")
    written = pl.concat([computed, gone], how="diagonal").with_columns(
        pl.col(pl.Float64, pl.Int64).fill_null(0), version=pl.lit(version)
    )
    if len(written):
        store.client.insert(table, list(written.iter_rows()), column_names=written.columns)
    return len(gone)
