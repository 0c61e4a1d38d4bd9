"""Read sources into requests: DuckDB reads the lines and keeps rejected ones; memory is bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TextIO, cast

import polars as pl

from sojourn.model.column_errors import no_column
from sojourn.model.errors import SojournError
from sojourn.model.frame import (
    COLUMNS,
    INSTANT,
    MOST_REJECTS,
    SCHEMA,
    LogFacts,
    Records,
    Requests,
    Selection,
    dtype_of,
    is_extra,
)
from sojourn.model.instants import Instant
from sojourn.readers.app_log import read_app_log
from sojourn.readers.blocks import Reject
from sojourn.readers.duplicates import each_once
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.misfits import misfit
from sojourn.readers.inputs import Inputs, NamedSources, Source, SourcesLike, listed, opened_inputs
from sojourn.readers.log_blocks import log_blocks
from sojourn.readers.parquet import read_parquet
from sojourn.readers.record import DROPPED, MICROSECONDS, RECORD
from sojourn.readers.spans import read_spans
from sojourn.readers.spool import Spool
from sojourn.sources.frames import Frame, frame_of, requests_of_frame
from sojourn.sources.jumps import COLUMNS as JUMP_COLUMNS
from sojourn.sources.jumps import Jumps

Progress = Callable[[int], None]
FOR_MISFIT = 50  # refused lines that are compared with their format


def read(
    sources: SourcesLike | Frame,
    *,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    columns: Sequence[str] = COLUMNS,
    since: Instant = None,
    until: Instant = None,
    where: Mapping[str, object] | None = None,
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> Requests:
    """Read log files, globs, ``-``, Parquet files, run folders and stores into the canonical frame.

    A record delivered twice counts once: lines of logs are identified by ``sojourn.readers.record.IDENTITY``, rows of
    Parquet files likewise if they have a request id, and a store keeps a record once. A log and a store or Parquet file
    with the same requests are not recognised as duplicates.

    Few records of files that are further from all others than these span (a clock was set) are set apart: they are
    counted in ``records.set_apart``, and are not in the rows. With a store among the sources, none are.

    Args:
        sources: what to read; one file named twice is read once. A frame of Polars, pandas or Arrow is checked and
            brought to the canonical types.
        spans: OTLP/JSON-lines files with the app's spans; those in a run's folder or a store are read automatically.
        app_log: the app's own access log, joined by request id; ``sojourn.app_log_file`` sets a format.
        columns: columns to read; fewer are faster. A name that is not canonical is a key of the log or a column of the
            Parquet file (null if missing); a store has only canonical columns.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: column -> value that a row must have.
        rejects_to: file for all refused lines, as JSON lines (source, line, reason, raw).
        on_size: called with the number of bytes to read (None: unknown), before the first one.
        on_progress: called with the number of bytes read so far.

    Raises:
        SojournError: a source cannot be opened, or a store has more rows than the limit. Invalid lines never raise:
            they are counted in ``records``.
    """
    selection = Selection.of(since, until, where)
    selected_columns = tuple(dict.fromkeys((*columns, *selection.columns, *JUMP_COLUMNS)))
    extra = tuple(name for name in selected_columns if name not in SCHEMA)
    if not all(map(is_extra, extra)):
        raise SojournError(
            f"not columns and not valid keys of a log: {', '.join(repr(n) for n in extra if not is_extra(n))}"
        )
    app_logs = listed(app_log)
    frame = frame_of(sources)
    if frame is not None:
        requests = requests_of_frame(frame, listed(spans), app_logs)
        missing = [name for name in extra if name not in requests.rows.collect_schema()]
        if missing:
            raise SojournError(no_column(missing[0], frame.collect_schema()))
        return replace(requests, rows=selection.of_rows(requests.rows).select(columns))
    by_kind = NamedSources.of(cast(SourcesLike, sources))
    late = read_app_log(app_logs) if app_logs else None
    inputs = opened_inputs(by_kind)
    spool = Spool()
    try:
        if on_size:
            on_size(inputs.size)
        jumps = Jumps(Selection(selection.since, selection.until))
        reader = _LogReader((*selected_columns, RECORD), spool, jumps, rejects_to)
        reader.read_all(inputs, on_progress)
        records = reader.records
        parquet = [read_parquet(path, extra).select(*selected_columns, RECORD) for path in inputs.parquet]
        for path, rows in zip(inputs.parquet, parquet, strict=True):
            count = int(rows.select(pl.len()).collect().item())
            jumps.add(str(path), rows)
            records.count(count, {}, read_parquet(path, extra).select(pl.col(DROPPED).drop_nulls()).collect()[DROPPED])
    finally:
        inputs.close()
    span_files = [*map(str, inputs.spans), *map(str, listed(spans))]
    span_tables = [read_spans(span_files)] if span_files else []
    names = {os.fspath(source): os.fspath(source) for source in by_kind.every}
    for dsn in inputs.stores:
        if extra:
            raise SojournError(f"in a store {no_column(extra[0], COLUMNS)}")
        from sojourn.sources.store_rows import stream_store  # noqa: PLC0415 - few questions read a store

        stored = stream_store(dsn, selected_columns, selection, _EachOnce(spool), rejects_to=rejects_to)
        records.add(stored.records)
        span_tables.append(stored.spans)
        names[dsn] = stored.name  # a DSN may hold a password
    empty = pl.LazyFrame(schema={**{name: dtype_of(name) for name in selected_columns}, RECORD: pl.UInt64()})
    rows = selection.of_rows(pl.concat([*spool.frames(), *parquet] or [empty]))
    rows, duplicates = each_once(rows, records.accepted)
    extent = None if inputs.stores else jumps.extent()  # a store's own figures have all of its requests
    if extent is not None:
        rows, records.set_apart = rows.filter(extent.is_inside), extent.set_apart
    return Requests(
        rows=rows.select(columns),
        records=records,
        spans=pl.concat(span_tables) if span_tables else None,
        app_log=late,
        names=tuple(names.values()),
        spool=spool.folder,
        stored=spool.folder is not None and not (parquet or selection.narrows or duplicates or extent),
        duplicates=duplicates,
    )


def in_seconds(columns: Sequence[str]) -> list[pl.Expr]:
    """Return expressions for the canonical types of ``records_query``: seconds from microseconds, instants in UTC."""
    durations = [pl.col(name) / 1e6 for name in MICROSECONDS if name in columns]
    return [*durations, *(pl.col(name).cast(INSTANT) for name in columns if dtype_of(name) == INSTANT)]


class _EachOnce(Spool):
    """A spool of rows without duplicates."""

    def __init__(self, spool: Spool) -> None:
        super().__init__()
        self._spool = spool

    def add(self, rows: pl.DataFrame, expected: int | None = None) -> None:
        """Add rows; ``expected``: rows that will come in all."""
        self._spool.add(rows.with_columns(pl.lit(None, pl.UInt64).alias(RECORD)), expected)


class _LogReader:
    """Fills a spool with accepted rows, whose instants it passes on, and counts the others."""

    def __init__(self, columns: tuple[str, ...], spool: Spool, jumps: Jumps, rejects_to: TextIO | None) -> None:
        self.records = Records()
        self._columns = columns
        self._spool = spool
        self._jumps = jumps
        self._rejects_to = rejects_to
        self._units = in_seconds(columns)
        self._refused: dict[str, int] = {}

    def read_all(self, inputs: Inputs, on_progress: Progress | None) -> None:
        """Read every log."""
        size, position = inputs.size, 0

        def progress(to: int) -> None:
            nonlocal position
            position = to
            if on_progress:
                on_progress(to)

        forms: dict[str, LineFormat] = {}
        read = tuple(dict.fromkeys((*self._columns, DROPPED)))
        for block in log_blocks(inputs.logs, read, progress):
            dropped = None if block.accepted is None else block.accepted[DROPPED]
            self.records.count(block.lines, block.reasons(), dropped)
            if block.form is not None and block.source not in forms:
                forms[block.source] = block.form
            self._refused[block.source] = self._refused.get(block.source, 0) + len(block.rejects)
            room = max(MOST_REJECTS - len(self.records.rejects), 0)
            for reject in block.rejects if self._rejects_to is not None else islice(block.rejects, room):
                self._refuse(block.source, reject)
            if block.accepted is not None:
                expected = self.records.read * size // position if size and position else None
                rows = block.accepted.select(*self._columns).with_columns(self._units)
                self._jumps.add(block.source, rows)
                self._spool.add(rows, expected)
        self.records.formats.extend(self._facts(source, form) for source, form in forms.items())

    def _facts(self, source: str, form: LineFormat) -> LogFacts:
        """Return the facts of a log, and which part of the user's format its refused lines do not fit."""
        facts = form.facts(source)
        refused = [(str(each["reason"]), str(each["raw"])) for each in self.records.rejects if each["source"] == source]
        if not form.from_user or not refused:
            return facts
        text = misfit(form, refused[:FOR_MISFIT], self._refused[source])
        return replace(facts, warnings=(*facts.warnings, text)) if text else facts

    def _refuse(self, source: str, reject: Reject) -> None:
        rejection = {"source": source, "line": reject.line, "reason": reject.reason, "raw": reject.raw}
        if self._rejects_to is not None:
            self._rejects_to.write(json.dumps(rejection) + "\n")
        self.records.keep(rejection)
