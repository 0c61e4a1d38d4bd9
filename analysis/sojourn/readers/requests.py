"""Sources into requests: DuckDB reads the lines, keeps those it refuses, and memory stays bounded."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO, TypeVar

import duckdb
import polars as pl
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.frame import COLUMNS, INSTANT, SCHEMA, Records, Requests
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.parquet import read_parquet
from sojourn.readers.record import MACROS, MICROSECONDS, records_query
from sojourn.readers.sources import LogInput, opened_inputs
from sojourn.readers.spans import read_spans

ROWS_IN_MEMORY = 1_500_000
ROWS_PER_FILE = 500_000
ROWS_PER_BATCH = 20_000  # DuckDB spreads batches over its threads
REJECTS_KEPT = 1_000
RAW_KEPT = 2_000  # characters of a refused line

BLOCK_SCHEMA = pa.schema([("line", pa.string()), ("number", pa.int64())])

Item = TypeVar("Item")

Progress = Callable[[int], None]


def read(
    sources: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    spans: Sequence[str | os.PathLike[str]] = (),
    columns: Sequence[str] = COLUMNS,
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> Requests:
    """Read log files, globs, ``-``, Parquet files and run folders into the canonical frame.

    Args:
        sources: what to read; one file named twice is read once.
        spans: OTLP/JSON-lines files with the app's spans; those in a run's folder are found by themselves.
        columns: canonical columns wanted; fewer are faster.
        rejects_to: refused lines go here as JSON lines (source, line, reason, raw), all of them.
        on_size: told the bytes to be read (None: unknown), before the first one.
        on_progress: told the bytes read so far.

    Raises:
        SojournError: a source cannot be read at all. Bad lines never raise: they are counted in ``records``.
    """
    named = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    inputs = opened_inputs(named)
    try:
        if on_size:
            on_size(inputs.size)
        reader = _LogReader(tuple(columns), rejects_to, on_progress)
        reader.read_all(inputs.logs)
        records, frames = reader.records, reader.frames()
        for path in inputs.parquet:
            rows = read_parquet(path).select(columns)
            records.read += rows.select(pl.len()).collect().item()
            frames.append(rows)
    finally:
        inputs.close()
    empty = pl.LazyFrame(schema={name: SCHEMA[name] for name in columns})
    span_files = [*inputs.spans, *(Path(p) for p in spans)]
    return Requests(
        rows=pl.concat(frames) if frames else empty,
        records=records,
        spans=read_spans(span_files) if span_files else None,
        names=tuple(os.fspath(s) for s in named),
        spool=reader.spool,
    )


def prefetched(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; a thread of its own fetches the next one while the last is being worked on."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="sojourn-read") as pool:
        pending = pool.submit(next, items, end)
        while (item := pending.result()) is not end:
            pending = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def _with_positions(log: LogInput) -> Iterator[tuple[Block, int]]:
    for block in blocks_of_lines(log):
        yield block, log.raw.tell() if log.raw is not None and log.size is not None else 0


def _table(block: Block) -> pa.Table:
    arrays = (block.lines, block.numbers)
    starts = range(0, len(block.lines), ROWS_PER_BATCH)
    return pa.Table.from_batches(
        [pa.record_batch([array.slice(i, ROWS_PER_BATCH) for array in arrays], schema=BLOCK_SCHEMA) for i in starts]
    )


class _LogReader:
    """Accumulates accepted rows, in memory while they are few and in Parquet files when they are many."""

    def __init__(self, columns: tuple[str, ...], rejects_to: TextIO | None, on_progress: Progress | None) -> None:
        self.records = Records()
        self.spool: tempfile.TemporaryDirectory[str] | None = None
        self._columns = columns
        self._rejects_to = rejects_to
        self._on_progress = on_progress
        self._held: list[pl.DataFrame] = []
        self._held_rows = 0
        self._files = itertools.count()

    def read_all(self, logs: list[LogInput]) -> None:
        """Read every log, a block at a time: DuckDB parses one on its threads while the next is being cut."""
        if not logs:
            return
        query = records_query(self._columns, "block")
        with duckdb.connect() as engine:
            for macro in MACROS:
                engine.execute(macro)
            done = 0
            for log in logs:
                blocks = _with_positions(log)
                # Not for a pipe: an interrupted read of one cannot be waited for.
                for block, position in prefetched(blocks) if log.size is not None else blocks:
                    self._count(log, block)
                    if len(block.lines):
                        engine.register("block", _table(block))
                        self._take(log, block, pl.DataFrame(engine.sql(query).to_arrow_table()))
                    if self._on_progress:
                        self._on_progress(done + position)
                done += log.size or 0

    def frames(self) -> list[pl.LazyFrame]:
        """What was accepted."""
        if self.spool is not None:
            self._spill()
            return [pl.scan_parquet(Path(self.spool.name) / "*.parquet")]
        return [pl.concat(self._held).lazy()] if self._held else []

    def _count(self, log: LogInput, block: Block) -> None:
        self.records.read += block.count
        for number, reason, raw in block.refused:
            self._refuse(log.name, number, reason, raw)

    def _take(self, log: LogInput, block: Block, rows: pl.DataFrame) -> None:
        refused = rows["reason"].is_not_null()
        if refused.any():
            last = block.numbers[-1].as_py()
            for number, reason, raw in (
                rows.filter(refused).select("number", "reason", "raw").sort("number").iter_rows()
            ):
                cut_off = block.open_end and number == last and reason == "invalid_json"
                self._refuse(log.name, number, "incomplete_line" if cut_off else reason, raw)
            rows = rows.filter(~refused)
        self._hold(rows)

    def _refuse(self, source: str, line: int, reason: str, raw: str) -> None:
        self.records.reasons[reason] = self.records.reasons.get(reason, 0) + 1
        reject = {"source": source, "line": line, "reason": reason, "raw": raw}
        if self._rejects_to is not None:
            self._rejects_to.write(json.dumps(reject) + "\n")
        if len(self.records.rejects) < REJECTS_KEPT:
            self.records.rejects.append({**reject, "raw": raw[:RAW_KEPT]})

    def _hold(self, rows: pl.DataFrame) -> None:
        seconds = [(pl.col(name) / 1e6) for name in MICROSECONDS if name in self._columns]
        instants = [pl.col(name).cast(INSTANT) for name in self._columns if SCHEMA[name] == INSTANT]
        self._held.append(rows.select(self._columns).with_columns(*seconds, *instants))
        self._held_rows += len(rows)
        if self._held_rows >= (ROWS_PER_FILE if self.spool is not None else ROWS_IN_MEMORY):
            self._spill()

    def _spill(self) -> None:
        if self.spool is None:
            self.spool = tempfile.TemporaryDirectory(prefix="sojourn-")
        if self._held:
            path = Path(self.spool.name) / f"{next(self._files):06}.parquet"
            try:
                pl.concat(self._held).write_parquet(path, compression="lz4", statistics=False)
            except (OSError, pl.exceptions.PolarsError) as error:
                raise SojournError(f"no room to keep what was read in {self.spool.name}: {error}") from error
        self._held, self._held_rows = [], 0
