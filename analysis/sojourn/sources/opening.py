"""Open requests from any source: files, runs, standard input, stores, a split, a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO, TypeGuard, cast

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import COLUMNS, SPLIT_COLUMNS, Records, Requests, Selection
from sojourn.model.instants import Instant
from sojourn.readers.inputs import NamedSources, Source, SourcesLike, listed
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.frames import Frame, frame_of, has_components, requests_of_frame, with_components
from sojourn.sources.open_requests import OpenedRequests, Where, of_requests, selected
from sojourn.sources.requests import Progress, read

JOIN_COLUMNS = ("request_id", "trace_id", "span_id")

RequestsLike = OpenedRequests | Requests | Frame | SourcesLike


@contextmanager
def open_sources(
    sources: SourcesLike,
    *,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    columns: Sequence[str] = (),
    all_columns: bool = False,
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    workers: int | Mapping[str, int] | None = None,
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> Iterator[OpenedRequests]:
    """Open sources; the connection of a store remains open for the block.

    The DSN of a store is not read row by row: ``measures`` queries aggregates, and rows are fetched on the first use of
    ``rows``. With a second source, ``spans``, ``app_log``, ``columns`` or ``all_columns``, its rows are
    read.

    Args:
        sources: log files (plain, gzip, zstd), globs, ``-``, Parquet files, run folders, DSNs of stores.
        spans: OTLP/JSON-lines files of the app. Spans in a store are joined automatically.
        app_log: the app's own access log, joined by request id.
        columns: columns to read in addition to those of the components: canonical ones, or other keys of the log.
        all_columns: read every canonical column.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: column -> value that a row must have.
        workers: per backend, or the same for all, where a queue is inferred; None: inferred.
        rejects_to: as for ``sojourn.read``.
        on_size: as for ``sojourn.read``.
        on_progress: as for ``sojourn.read``.

    Raises:
        SojournError: a source cannot be read, or ``where`` names no column.
    """
    spans, app_logs, sources = listed(spans), listed(app_log), NamedSources.of(sources)
    dsn = None if spans or app_logs or all_columns or columns else sources.only_store
    if dsn is not None:
        from sojourn.sources.opened_store import open_store  # noqa: PLC0415 - few questions read a store

        with open_store(dsn, Selection.of(since, until, where), rejects_to) as stored:
            if not stored.measures.coverage().inferable:
                yield stored
                return
        # A backend reported nothing, and its queue can only be inferred from its rows. The refused lines are written.
        rejects_to = None
    names = (*(COLUMNS if all_columns else SPLIT_COLUMNS), *Selection.of(since, until, where).where, *columns)
    if spans or app_logs or sources.bring_spans:
        names += JOIN_COLUMNS
    requests = read(
        sources,
        spans=spans,
        app_log=app_logs,
        columns=tuple(dict.fromkeys(names)),
        since=since,
        until=until,
        rejects_to=rejects_to,
        on_size=on_size,
        on_progress=on_progress,
    )
    # Conditions select from all requests: queues, clocks and workers are those of all.
    result = of_requests(requests, where=where, workers=workers)
    del requests  # and with them their folder, unless the result's rows lie in it
    yield result


def requests_from(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    workers: int | Mapping[str, int] | None = None,
) -> OpenedRequests:
    """Return requests in any form with their components.

    Args:
        requests: sources to read, opened requests (such as a split), the result of ``sojourn.read``, or a frame of
            Polars, pandas or Arrow, either canonical or with components.
        columns: columns to read from sources in addition to those of the components.
        spans: the app's spans, if ``requests`` are sources or a canonical frame.
        app_log: the app's own access log, if ``requests`` are sources or a canonical frame.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.
        workers: per backend, or the same for all, where the queues of sources are inferred; None: inferred.

    Raises:
        SojournError: a source cannot be read, the frame is not a frame of requests, a column of ``where`` does not
            exist, or ``spans`` or ``app_log`` are given for requests that are not sources.
    """
    frame = frame_of(requests)
    if frame is not None and not has_components(frame):
        canonical_requests = requests_of_frame(frame, listed(spans), listed(app_log))
        return of_requests(canonical_requests, since=since, until=until, where=where, workers=workers)
    if frame is not None or isinstance(requests, OpenedRequests | Requests):
        if listed(spans):
            raise SojournError("spans are joined when requests are read: give them to sojourn.split or sojourn.read")
        if listed(app_log):
            raise SojournError("an app log is joined when requests are read: give it to sojourn.split or sojourn.read")
        if isinstance(requests, Requests):
            return of_requests(requests, since=since, until=until, where=where, workers=workers)
        selection = Selection.of(since, until, where)
        if isinstance(requests, OpenedRequests):
            return selected(requests, selection)
        assert frame is not None  # noqa: S101 - what else there is returned above
        return selected(_opened_frame(with_components(frame)), selection)
    requests = cast(SourcesLike, requests)
    with open_sources(
        requests,
        spans=spans,
        app_log=app_log,
        columns=("request_id", *columns),
        since=since,
        until=until,
        where=where,
        workers=workers,
    ) as result:
        return result


def read_already(requests: RequestsLike) -> TypeGuard[OpenedRequests | Requests | Frame]:
    """Return whether the requests are not sources: opened or read requests, or a frame."""
    return isinstance(requests, OpenedRequests | Requests) or frame_of(requests) is not None


def _opened_frame(rows: pl.LazyFrame) -> OpenedRequests:
    """Return the opened requests of a frame with components."""
    count = int(rows.select(pl.len()).collect(engine="streaming").item())
    return OpenedRequests(
        measures=FrameMeasures(rows), records=Records(read=count), names=("frame",), audited=False,
        log_requests=_log_requests(rows), _rows=lambda: rows,
    )  # fmt: skip


def _log_requests(rows: pl.LazyFrame) -> int | None:
    """Return the number of requests of the log of which these rows are a part; None: of all, or unknown."""
    if "log_requests" not in rows.collect_schema().names():
        return None
    size, log = rows.select(pl.len(), pl.col("log_requests").max()).collect().row(0)
    return None if log is None or size >= log else int(log)
