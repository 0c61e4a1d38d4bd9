"""Split of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO, cast

from sojourn.analyses.split.analysis import checked_groups, split_of
from sojourn.analyses.split.result import SplitResult
from sojourn.model.column_errors import no_column
from sojourn.model.errors import SojournError
from sojourn.model.frame import Requests
from sojourn.model.groups import DEFAULT_GROUPS
from sojourn.model.instants import Instant
from sojourn.model.verdict import SLO, Directives
from sojourn.readers.inputs import Source, SourcesLike, listed
from sojourn.sources.open_requests import OpenedRequests, Where, of_requests
from sojourn.sources.opening import RequestsLike, open_sources, read_already, requests_from
from sojourn.sources.requests import Progress


def split(
    sources: RequestsLike,
    *,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    by: Sequence[str] | str = DEFAULT_GROUPS,
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    slo: float = SLO,
    workers: int | Mapping[str, int] | None = None,
    all_columns: bool = False,
    columns: Sequence[str] = (),
    captures: Sequence[Source] | Source = (),
    nginx: Path | str | None = None,
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> SplitResult:
    """Split every request's response time, of sources or of a frame.

    The DSN of a store is not read row by row: the store computes the aggregates, and rows are fetched on the first use
    of the result's ``rows``. With a second source, ``spans``, ``app_log``, ``captures`` or ``all_columns``, its rows
    are read.

    Args:
        sources: log files (plain, gzip, zstd), globs, ``-``, Parquet files, run folders, DSNs of stores; or a frame of
            Polars, pandas or Arrow with the canonical columns (``time``, ``status``, ``request_time`` and others); or
            the result of ``sojourn.read`` or ``sojourn.split``.
        spans: OTLP/JSON-lines files of the app; they hold the worker time of requests that the app did not answer in
            time. Spans in a store are joined automatically.
        app_log: the app server's own access log, joined by request id: service times without a middleware. Its format
            is recognised by its lines, or set by ``sojourn.app_log_file``.
        by: columns to group by, any of ``GROUPS``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: column -> value that a row must have.
        slo: a p99 below this, with little queueing, is healthy, in seconds.
        workers: per backend, or one number for all, where a queue is inferred; None: inferred.
        all_columns: also read columns that the split does not need (ids, uri, addresses), for ``write_parquet``.
        columns: additional columns to read: canonical ones, or other keys of the log.
        captures: captures of the same requests, as for ``sojourn.pcap``; their result is ``wire``.
        nginx: nginx's configuration: the verdict names its directives that delay requests outside the app.
        rejects_to: file for refused lines, as for ``sojourn.read``.
        on_size: called with the size of the sources, as for ``sojourn.read``.
        on_progress: called with the progress, as for ``sojourn.read``.

    Returns:
        Figures of the response time and its components, over all requests, at p99 and by group.

    Raises:
        SojournError: a source, a capture or the configuration cannot be read, or ``by`` or ``where`` names no column.
    """
    by, captures = [by] if isinstance(by, str) else by, listed(captures)
    checked_groups(by)
    directives = None if nginx is None else _directives(Path(nginx))
    if read_already(sources):
        opened = requests_from(
            sources, spans=spans, app_log=app_log, since=since, until=until, where=where, workers=workers
        )
        _checked_columns(opened, columns)
        result = split_of(opened, by=by, slo=slo, directives=directives)
        if captures:
            with_wire(result, captures)
        return result
    if captures:
        from sojourn.analyses.pcap.log_join import READ  # noqa: PLC0415 - 50 modules

        columns = (*columns, *READ)
    with open_sources(
        cast(SourcesLike, sources),
        spans=spans,
        app_log=app_log,
        columns=columns,
        all_columns=all_columns,
        since=since,
        until=until,
        where=where,
        workers=workers,
        rejects_to=rejects_to,
        on_size=on_size,
        on_progress=on_progress,
    ) as requests:
        result = split_of(requests, by=by, slo=slo, directives=directives)
    if captures:
        with_wire(result, captures)
    return result


def _directives(configuration: Path) -> Directives:
    from sojourn.nginx.delays import delaying_directives  # noqa: PLC0415 - few commands read a configuration

    return delaying_directives(configuration)


def _checked_columns(requests: OpenedRequests, columns: Sequence[str]) -> None:
    """Check that requests that are read already have the columns.

    Raises:
        SojournError: they have not.
    """
    names = requests.rows.collect_schema().names() if columns else ()
    for column in columns:
        if column not in names:
            raise SojournError(no_column(column, names))


def with_wire(result: SplitResult, captures: Sequence[Source]) -> None:
    """Add the result of captures of the same requests to a split, and their checks to its audit.

    Raises:
        SojournError: a capture cannot be read.
    """
    from sojourn.analyses.pcap.run import pcap  # noqa: PLC0415 - 50 modules

    result.wire = pcap(captures, log=result)
    result.audit.wire = result.wire.checks


def split_requests(
    requests: Requests,
    *,
    by: Sequence[str] = DEFAULT_GROUPS,
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    slo: float = SLO,
) -> SplitResult:
    """Return the ``split`` of requests already read; arguments as there."""
    checked_groups(by)
    return split_of(of_requests(requests, since=since, until=until, where=where), by=by, slo=slo)


def split_from(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    workers: int | Mapping[str, int] | None = None,
    by: Sequence[str] = DEFAULT_GROUPS,
) -> SplitResult:
    """Return the split of requests in any form; a split of which all requests are meant is returned as it is.

    Raises:
        SojournError: as ``requests_from``.
    """
    joined = listed(spans) or listed(app_log)
    if isinstance(requests, SplitResult) and not joined and since is None and until is None and not where:
        return requests
    source = requests_from(
        requests,
        columns=columns,
        spans=spans,
        app_log=app_log,
        since=since,
        until=until,
        where=where,
        workers=workers,
    )
    return split_of(source, by=by, slo=SLO)
