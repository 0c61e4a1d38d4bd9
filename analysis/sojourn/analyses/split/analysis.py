"""The split: queueing delay, service time and the rest, over all requests and by group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TextIO

import polars as pl

from sojourn.analyses.split.assembly import assembled, checked_groups
from sojourn.analyses.split.result import SplitResult
from sojourn.model.frame import COLUMNS, SPLIT_COLUMNS, Requests, Selection, checked
from sojourn.model.groups import DEFAULT_GROUPS, GROUPS
from sojourn.model.verdict import SLO
from sojourn.readers.inputs import Source, listed, only_store, stores_and_files
from sojourn.readers.spool import on_disk
from sojourn.sources.frame_measures import FrameMeasures
from sojourn.sources.requests import Progress, read
from sojourn.sources.rows import split_rows

JOIN_COLUMNS = ("request_id", "trace_id", "span_id")


def split(
    sources: Sequence[Source] | Source,
    *,
    spans: Sequence[Source] | Source = (),
    by: Sequence[str] | str = DEFAULT_GROUPS,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    where: Mapping[str, object] | None = None,
    slo: float = SLO,
    all_columns: bool = False,
    columns: Sequence[str] = (),
    captures: Sequence[Source] | Source = (),
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> SplitResult:
    """Read sources and split every request's response time.

    A store's DSN on its own is not read row by row: the store is asked for the aggregates, and rows are fetched when
    the result's ``rows`` are first used. Beside other sources, with ``spans``, ``captures`` or ``all_columns``, its
    rows are read.

    Args:
        sources: log files (plain, gzip, zstd), globs, ``-``, Parquet files, run folders, DSNs of stores.
        spans: OTLP/JSON-lines files of the app; they tell what became of requests the app never answered in time.
            Those in a store are joined by themselves.
        by: columns to group by, any of ``GROUPS``.
        since, until: keep requests that arrived in [since, until): aware datetimes or unix seconds.
        where: column -> value that a row must have.
        slo: a p99 below this, with little queueing, is healthy, in seconds.
        all_columns: also read what the split itself does not need (ids, uri, addresses), for ``write_parquet``.
        columns: read these, too: canonical ones, or keys of one's own that the log holds.
        captures: of the same requests, as for ``sojourn.analyses.wire.analysis.wire``; what they show is ``wire``.
        rejects_to, on_size, on_progress: as for ``sojourn.read``.

    Raises:
        SojournError: a source or a capture cannot be read, or ``by`` or ``where`` names no column.
    """
    by, spans, captures = [by] if isinstance(by, str) else by, listed(spans), listed(captures)
    checked_groups(by)
    selection = Selection.of(since, until, where)
    if captures:
        from sojourn.analyses.wire.analysis import LOG_COLUMNS  # noqa: PLC0415 - loaded for captures only

        columns = (*columns, *LOG_COLUMNS)
    dsn = None if spans or all_columns or columns else only_store(sources)
    if dsn is not None:
        from sojourn.analyses.split.store import split_store  # noqa: PLC0415 - a store's driver is loaded for stores only

        return split_store(dsn, selection, by=by, slo=slo, rejects_to=rejects_to)
    columns = (*(COLUMNS if all_columns else SPLIT_COLUMNS), *selection.where, *columns)
    if spans or _brings_spans(sources):
        columns += JOIN_COLUMNS
    requests = read(
        sources,
        spans=spans,
        columns=tuple(dict.fromkeys(columns)),
        since=since,
        until=until,
        where=where,
        rejects_to=rejects_to,
        on_size=on_size,
        on_progress=on_progress,
    )
    result = split_requests(requests, by=by, slo=slo)
    if requests.spool is not None:
        requests.spool.cleanup()  # the split has rows of its own
    if captures:
        with_wire(result, captures)
    return result


def with_wire(result: SplitResult, captures: Sequence[Source]) -> None:
    """Add to a split what captures of the same requests show, and to its audit whether the log agrees.

    Raises:
        SojournError: a capture cannot be read.
    """
    from sojourn.analyses.wire.analysis import wire  # noqa: PLC0415 - loaded for captures only

    result.wire = wire(captures, requests=result)
    result.audit.wire = result.wire.checks


def split_requests(
    requests: Requests,
    *,
    by: Sequence[str] = DEFAULT_GROUPS,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    where: Mapping[str, object] | None = None,
    slo: float = SLO,
) -> SplitResult:
    """``split`` of requests already read; arguments as there."""
    checked_groups(by)
    rows, offsets = split_rows(Selection.of(since, until, where).of_rows(requests.rows), requests.spans)
    folder, count = None, None
    if requests.spool is None:
        rows = rows.collect(engine="streaming").lazy()
    else:
        rows, folder = on_disk(rows)
        count = int(rows.select(pl.len()).collect().item())
    kept = (rows, folder)  # the temporary folder lives as long as the rows
    measures = FrameMeasures(rows, offsets, requests.duplicates, count)
    return assembled(measures, requests.records, requests.names, lambda: kept[0], by=by, slo=slo)


def _brings_spans(sources: Sequence[Source] | Source) -> bool:
    stores, files = stores_and_files(sources)
    return bool(stores) or any(os.path.isdir(file) for file in files)


def checked_split(rows: pl.LazyFrame | pl.DataFrame, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """``split_rows`` for a frame of one's own: its columns are checked first, missing ones are null."""
    split_lazily, _ = split_rows(checked(rows.lazy(), "frame"), spans)
    return split_lazily.collect()


__all__ = ["GROUPS", "SplitResult", "checked_split", "split", "split_requests", "split_rows"]
