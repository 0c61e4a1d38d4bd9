"""Sources into requests: DuckDB reads the lines, keeps those it refuses, and memory stays bounded."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

import duckdb
import polars as pl
import pyarrow as pa

from sojourn.errors import SojournError
from sojourn.frame import COLUMNS, INSTANT, SCHEMA, Records, Requests, read_parquet
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import MACROS, MICROSECONDS, records_query
from sojourn.readers.sources import LogInput, opened_inputs
from sojourn.readers.spans import read_spans

ROWS_IN_MEMORY = 1_000_000
ROWS_PER_FILE = 500_000
ROWS_PER_BATCH = 20_000  # DuckDB spreads batches over its threads
ROWS_PER_RESULT = 100_000
REJECTS_KEPT = 1_000
RAW_KEPT = 2_000  # characters of a refused line

BLOCK_SCHEMA = pa.schema([("line", pa.string()), ("log", pa.int32()), ("number", pa.int64())])

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


class _LogReader:
    """Accumulates accepted rows, in memory while they are few and in Parquet files when they are many."""

    def __init__(self, columns: tuple[str, ...], rejects_to: TextIO | None, on_progress: Progress | None) -> None:
        self.records = Records()
        self.spool: tempfile.TemporaryDirectory[str] | None = None
        self._columns = columns
        self._rejects_to = rejects_to
        self._on_progress = on_progress
        self._open_ends: set[tuple[int, int]] = set()
        self._held: list[pl.DataFrame] = []
        self._held_rows = 0
        self._files = itertools.count()

    def read_all(self, logs: list[LogInput]) -> None:
        """Stream every log through one query: DuckDB parses on its threads while the next block is being cut."""
        if not logs:
            return
        with duckdb.connect() as engine:
            for macro in MACROS:
                engine.execute(macro)
            engine.register("block", pa.RecordBatchReader.from_batches(BLOCK_SCHEMA, self._batches(logs)))
            for batch in engine.sql(records_query(self._columns, "block")).to_arrow_reader(ROWS_PER_RESULT):
                rows = pl.DataFrame(batch)
                refused = rows["reason"].is_not_null()
                if refused.any():
                    self._refuse_rows(logs, rows.filter(refused))
                    rows = rows.filter(~refused)
                self._hold(rows)

    def frames(self) -> list[pl.LazyFrame]:
        """What was accepted."""
        if self.spool is not None:
            self._spill()
            return [pl.scan_parquet(Path(self.spool.name) / "*.parquet")]
        return [pl.concat(self._held).lazy()] if self._held else []

    def _batches(self, logs: list[LogInput]) -> Iterator[pa.RecordBatch]:
        done = 0
        for index, log in enumerate(logs):
            for block in blocks_of_lines(log):
                self.records.read += block.count
                for number, reason, raw in block.refused:
                    self._refuse(log.name, number, reason, raw)
                if block.open_end:
                    self._open_ends.add((index, block.numbers[-1].as_py()))
                which = pa.repeat(pa.scalar(index, pa.int32()), len(block.lines))
                for i in range(0, len(block.lines), ROWS_PER_BATCH):
                    arrays = (block.lines, which, block.numbers)
                    yield pa.record_batch([a.slice(i, ROWS_PER_BATCH) for a in arrays], schema=BLOCK_SCHEMA)
                if self._on_progress and log.raw is not None:
                    self._on_progress(done + log.raw.tell())
            done += log.size or 0

    def _refuse_rows(self, logs: list[LogInput], rows: pl.DataFrame) -> None:
        for index, number, reason, raw in rows.select("log", "number", "reason", "raw").iter_rows():
            cut_off = reason == "invalid_json" and (index, number) in self._open_ends
            self._refuse(logs[index].name, number, "incomplete_line" if cut_off else reason, raw)

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
            except OSError as error:
                raise SojournError(f"no room to keep what was read in {self.spool.name}: {error}") from error
        self._held, self._held_rows = [], 0
