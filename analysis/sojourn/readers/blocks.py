"""Logs through DuckDB, a block at a time: it parses one on its threads while the next is being cut into lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import duckdb
import pyarrow as pa

from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.record import MACROS
from sojourn.readers.sources import LogInput

ROWS_PER_BATCH = 20_000  # DuckDB spreads batches over its threads
BLOCK_SCHEMA = pa.schema([("line", pa.string()), ("number", pa.int64())])

Item = TypeVar("Item")


@dataclass
class Reject:
    """A refused line: its number, the byte it begins at, why, and what it holds (as far as it is kept)."""

    line: int
    position: int
    reason: str
    raw: str


@dataclass
class ParsedBlock:
    """What became of the lines of one block.

    Attributes:
        source: the input's name.
        lines: how many there were.
        accepted: one row per accepted record, the columns asked for, and ``number``.
        rejects: the others.
    """

    source: str
    lines: int
    accepted: pa.Table | None
    rejects: list[Reject]


def parsed_blocks(
    logs: Sequence[LogInput],
    query: str,
    on_progress: Callable[[int], None] | None = None,
    macros: Sequence[str] = (),
) -> Iterator[ParsedBlock]:
    """Every block of every log, parsed by ``query`` (of ``records_query``, over a relation named ``block``).

    ``macros`` are what the query needs besides the reader's own. ``on_progress`` is told the bytes read so far, after
    each block has been dealt with.
    """
    if not logs:
        return
    with reading_engine(macros) as engine:
        done = 0
        for log in logs:
            blocks = _with_positions(log)
            # Not for a pipe: an interrupted read of one cannot be waited for.
            for block, position in prefetched(blocks) if log.size is not None else blocks:
                yield parsed_block(engine, log.name, block, query)
                if on_progress:
                    on_progress(done + position)
            done += log.size or 0


def reading_engine(macros: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """An engine that knows the reader's macros, and ``macros``."""
    engine = duckdb.connect()
    for macro in (*MACROS, *macros):
        engine.execute(macro)
    return engine


def parsed_block(engine: duckdb.DuckDBPyConnection, source: str, block: Block, query: str) -> ParsedBlock:
    """One block, parsed by ``query`` (as for ``parsed_blocks``); ``source``: the input's name."""
    rejects = [Reject(n, block.position(n), reason, raw) for n, reason, raw in block.refused]
    accepted = None
    if len(block.lines):
        engine.register("block", _table(block))
        accepted = engine.sql(query).to_arrow_table()
        if accepted["reason"].null_count != len(accepted):
            rejects += _rejects(block, accepted.filter(accepted["reason"].is_valid()))
            accepted = accepted.filter(accepted["reason"].is_null())
        accepted = accepted.drop_columns(["reason", "raw"])
    return ParsedBlock(source, block.count, accepted, rejects)


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


def _rejects(block: Block, refused: pa.Table) -> list[Reject]:
    last = block.numbers[-1].as_py()
    found = []
    for row in refused.select(["number", "reason", "raw"]).sort_by("number").to_pylist():
        number, reason = row["number"], row["reason"]
        if block.open_end and number == last and reason == "invalid_json":
            reason = "incomplete_line"
        found.append(Reject(number, block.position(number), reason, row["raw"]))
    return found
