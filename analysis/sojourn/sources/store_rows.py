"""The rows of a store: for results that it cannot aggregate, and for a limited number of rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.frame import COLUMNS, MOST_REJECTS, SCHEMA, Records, Requests, Selection, by_reason
from sojourn.model.instants import Instant
from sojourn.readers.spans import SPANS_SCHEMA
from sojourn.readers.spool import Spool
from sojourn.store import statements as sql
from sojourn.store.client import Store, connect, plainly
from sojourn.store.condition import warnings

if TYPE_CHECKING:
    import pyarrow as pa

ROW_LIMIT = 20_000_000
SPAN_LIMIT = 5_000_000  # spans are held in memory
ROWS_PER_QUESTION = 500_000
MINUTE = 60_000_000  # us


@dataclass
class Stored:
    """Name, ``records`` and ``spans`` of a store, as in ``sojourn.model.frame.Requests``."""

    name: str
    records: Records
    spans: pl.DataFrame


def read_store(
    dsn: str,
    columns: Sequence[str] = COLUMNS,
    since: Instant = None,
    until: Instant = None,
    where: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> Requests:
    """Return the requests of a store as the canonical frame, without duplicates.

    Memory is bounded: many rows are written to a temporary folder. Lists of attempts have the format of nginx.

    Raises:
        SojournError: the store cannot be reached, or has more rows than ``limit`` or more spans than ``SPAN_LIMIT``.
    """
    selection = Selection.of(since, until, where)
    spool = Spool()
    stored = stream_store(dsn, tuple(columns), selection, spool, limit=limit)
    frames = spool.frames()
    return Requests(
        rows=pl.concat(frames) if frames else pl.LazyFrame(schema={name: SCHEMA[name] for name in columns}),
        records=stored.records,
        spans=None if stored.spans.is_empty() else stored.spans,
        names=(stored.name,),
        spool=spool.folder,
    )


def stream_store(
    dsn: str,
    columns: tuple[str, ...],
    selection: Selection,
    spool: Spool,
    *,
    rejects_to: TextIO | None = None,
    limit: int | None = None,
) -> Stored:
    """Write the selected rows of a store to ``spool``; arguments and errors as for ``read_store``."""
    which = sql.chosen(selection)
    with connect(dsn) as store, plainly(store, "fetching its requests"):
        minutes = _answer(store, sql.of_requests("minutes", which, once=False), which).result_rows
        _refuse_above(ROW_LIMIT if limit is None else limit, sum(count for _, count in minutes), "requests", store)
        (spans,) = _answer(store, sql.of_window("spans_counted", which), which).result_rows
        _refuse_above(SPAN_LIMIT, sum(spans), "spans", store)
        schema = {name: SCHEMA[name] for name in (*columns, "time")}
        statement = sql.rows(tuple(schema), f"{which.conditions} AND {sql.BETWEEN}")
        for begin, end in _slices(minutes):
            with _stream(store, statement, which, slice_begin=begin, slice_end=end) as tables:
                frames = [_frame(table, schema) for table in tables]
            spool.add(pl.concat([pl.DataFrame(schema=schema), *frames]).sort("time").select(columns))
        with _stream(store, sql.of_window("spans", which), which) as tables:
            span_frames = [_frame(table, SPANS_SCHEMA) for table in tables]
        records = stored_records(store, selection, rejects_to)
    return Stored(store.dsn, records, pl.concat([pl.DataFrame(schema=SPANS_SCHEMA), *span_frames]))


def stored_records(store: Store, selection: Selection, rejects_to: TextIO | None = None) -> Records:
    """Return the counts of lines that the store knows: requests stored and lines refused; and its warnings.

    A line that was delivered twice counts once. Requests count by arrival, whatever ``where`` says, as a log's lines
    do; refused lines by when they were refused, for most of them tell no time of their own.
    """
    window = Selection(selection.since, selection.until)
    which, refused = sql.chosen(window), sql.refused(window)
    stored = _answer(store, sql.of_requests("stored", which), which).result_rows
    lines = _answer(store, sql.of_window("reasons", refused), refused).result_rows
    reasons = {str(reason): int(count) for reason, count in lines}
    read = sum(count for _, count in stored) + sum(reasons.values())
    dropped = by_reason((why, count) for why, count in stored if why)
    records = Records(read=read, reasons=reasons, dropped=dropped, warnings=list(warnings(store)))
    if not reasons:
        return records
    statement = sql.refusals(refused, None if rejects_to is not None else MOST_REJECTS)
    stream = store.client.query_row_block_stream(statement, parameters=refused.bound(statement))
    with stream as blocks:
        for block in blocks:
            for source, position, reason, raw in block:
                reject = {"source": source, "position": position, "reason": reason, "raw": raw}
                if rejects_to is not None:
                    rejects_to.write(json.dumps(reject) + "\n")
                records.keep(reject)
    return records


def _refuse_above(limit: int, count: int, what: str, store: Store) -> None:
    if count > limit:
        raise SojournError(
            f"{store.dsn}: {count:,} {what} are more than the {limit:,} that are fetched one by one; "
            "narrow them with --since, --until or --where, or ask for figures alone, which need no rows"
        )


def _slices(minutes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) in us of about ``ROWS_PER_QUESTION`` rows each, from (minute since 1970, rows), ascending.

    The embedded engine hands out an answer in one piece, so a question must have an answer that is small enough.
    """
    begin, rows, end = 0, 0, 0
    for minute, count in minutes:
        start = minute * MINUTE
        if rows and rows + count > ROWS_PER_QUESTION:
            yield begin, end
            begin, rows = start, 0
        begin = begin if rows else start
        pieces = -(-count // ROWS_PER_QUESTION)
        for piece in range(1, pieces):  # a minute with more rows than one question: parts of equal length
            yield begin, (cut := start + MINUTE * piece // pieces)
            begin, count = cut, count - ROWS_PER_QUESTION  # noqa: PLW2901
        rows, end = rows + count, start + MINUTE
    if rows:
        yield begin, end


def _answer(store: Store, statement: str, which: sql.Chosen) -> Any:
    return store.client.query(statement, parameters=which.bound(statement))


def _stream(store: Store, statement: str, which: sql.Chosen, **more: object) -> Any:
    return store.client.query_arrow_stream(statement, parameters=which.bound(statement, **more), use_strings=True)


def _frame(table: pa.Table, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in schema.items()
    )
