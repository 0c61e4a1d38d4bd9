"""Parse blocks of a log: lines of one shape in compiled code, several blocks at once, the others in SQL.

The SQL takes tens of milliseconds however few lines it is to parse: the others of several blocks are parsed together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import polars as pl

from sojourn.model.arrays import Ints
from sojourn.model.compilation import is_compilation_installed
from sojourn.model.parallel import THREADS
from sojourn.readers.blocks import REFUSED, ParsedBlock, Parsers, Refused, blocks_ahead, format_of, refuse_table
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.record import EXPRESSIONS, IDENTITY_TEXT, RECORD, records_query
from sojourn.readers.scan import line_ends
from sojourn.readers.shape import hashes_of, scanned
from sojourn.readers.tables.table_format import TableFormat
from sojourn.readers.text_shape import scanned_text
from sojourn.readers.unwrapping import bare_blocks

BLOCK_BYTES, TABLE_BYTES = 16 << 20, 4 << 20  # a row of a table is shorter than a line, and needs as much memory
# A smaller log is read before what reads it the short way is loaded.
BYTES_WORTH, COMPRESSED_WORTH = 32 << 20, 2 << 20
OTHERS_AT_ONCE, LINES_AT_ONCE = 10_000, 250_000  # lines whose others are parsed together, at least
Scanned = tuple[pl.DataFrame, Ints] | None


@dataclass
class _Waiting:
    """Blocks whose other lines are not parsed yet, with the records of their lines of one shape."""

    blocks: list[tuple[Block, pl.DataFrame]] = field(default_factory=list)
    others: list[pl.DataFrame] = field(default_factory=list)
    lines: int = 0

    @property
    def full(self) -> bool:
        """Whether the other lines are to be parsed now."""
        return sum(map(len, self.others)) >= OTHERS_AT_ONCE or self.lines >= LINES_AT_ONCE

    def add(self, block: Block, rows: pl.DataFrame, others: Ints) -> None:
        """Add a block; ``others``: positions in it of its other lines."""
        if len(others):
            self.others.append(pl.DataFrame({"line": block.lines_at(others), "number": block.first + others}))
        self.blocks.append((block.without_data(), rows))
        self.lines += block.count


def log_blocks(
    logs: Sequence[LogInput], columns: Sequence[str], on_progress: Callable[[int], None]
) -> Iterator[ParsedBlock]:
    """Yield every block of every log as ``columns``, in order; ``record``, one of them, as a hash of ``IDENTITY_TEXT``.

    ``on_progress`` is called with the bytes read so far, after each block. Hashes of one call can be compared.
    """
    if not logs:
        return
    expressions = {**EXPRESSIONS, RECORD: IDENTITY_TEXT}
    compiled = is_compilation_installed() and any(map(_is_large, logs))

    def query(form: LineFormat | None) -> str:
        return records_query(tuple(columns), "block", expressions, form)

    def progress(position: int) -> None:
        on_progress(done + position)

    with (
        Parsers(query, transform=_hashed if compiled else _plainly_hashed) as parsers,
        ThreadPoolExecutor(THREADS, thread_name_prefix="sojourn-scan") as pool,
    ):
        done = 0
        for log in logs:
            short = pool if compiled and _is_large(log) else None
            for block in _blocks_of(log, columns, parsers, short, progress):
                is_log = log.form is not None and not isinstance(log.form, TableFormat)  # a trace may have many tables
                with_proxy = _with_proxy(block, log.name) if len(logs) > 1 and is_log else block
                yield replace(with_proxy, form=log.form)
            done += log.size or 0


def _blocks_of(
    log: LogInput, columns: Sequence[str], parsers: Parsers, pool: ThreadPoolExecutor | None,
    progress: Callable[[int], None],
) -> Iterator[ParsedBlock]:  # fmt: skip
    """Yield every block of a log; ``pool``: where lines are read in compiled code."""
    begun: deque[tuple[Block, int, Future[Scanned] | None]] = deque()  # None: not to be read in compiled code
    groups = _Groups(log, parsers)

    def finished() -> Iterator[ParsedBlock]:
        """Yield the block that was begun first, or those before it if its other lines are parsed with more of them."""
        block, position, future = begun.popleft()
        result = None if future is None else future.result()
        if result is None:
            yield from groups.rest()
            yield parsers.of(log.form).parsed(log.name, block)
        else:
            yield from groups.add(block, *result)
        progress(position)

    try:
        ends = line_ends if pool else None
        block_bytes = TABLE_BYTES if isinstance(log.form, TableFormat) else BLOCK_BYTES
        for block, position in blocks_ahead(log, bare_blocks(log, blocks_of_lines(log, block_bytes, line_ends=ends))):
            refuse_table(log, block)
            form = format_of(log, block)
            long = block.places[-1] > BLOCK_BYTES // 2
            future = pool.submit(_scanned, block, columns, form) if pool and long else None
            begun.append((block, position, future))
            if len(begun) > THREADS:
                yield from finished()
        while begun:
            yield from finished()
        yield from groups.rest()
    finally:
        groups.close()


class _Groups:
    """Blocks of a log whose other lines are parsed together, in a thread, while the next blocks are read."""

    def __init__(self, log: LogInput, parsers: Parsers) -> None:
        self._log, self._parsers = log, parsers
        self._waiting = _Waiting()
        self._parsed: tuple[_Waiting, Future[tuple[pl.DataFrame, pl.DataFrame]] | None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sojourn-parse")

    def add(self, block: Block, rows: pl.DataFrame, others: Ints) -> Iterator[ParsedBlock]:
        """Add a block, and yield those that are done."""
        self._waiting.add(block, rows, others)
        if self._waiting.full:
            yield from self._next()

    def rest(self) -> Iterator[ParsedBlock]:
        """Yield all blocks that were added and not yet yielded."""
        yield from self._next()
        yield from self._next()

    def close(self) -> None:
        """Wait for the thread: it uses an engine that is closed afterwards."""
        self._thread.shutdown()

    def _next(self) -> Iterator[ParsedBlock]:
        """Begin to parse the other lines of the waiting blocks, and yield the blocks before them."""
        before, waiting = self._parsed, self._waiting
        future = None
        if waiting.others:
            lines = pl.concat(waiting.others)
            future = self._thread.submit(lambda: self._parsers.of(self._log.form).rows(lines))
        self._parsed, self._waiting = (waiting, future), _Waiting()
        if before is not None:
            yield from _completed(self._log, before[0], before[1].result() if before[1] else None)


def _plainly_hashed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a hash in place of the text of an identity."""
    return rows.with_columns(pl.when(pl.col(RECORD).is_not_null()).then(pl.col(RECORD).hash()).alias(RECORD))


def _hashed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the same with the hash of compiled code."""
    return rows.with_columns(hashes_of(rows[RECORD]).alias(RECORD))


def _with_proxy(block: ParsedBlock, name: str) -> ParsedBlock:
    """Return the block with the log's name as the proxy, where the format does not name one: of several logs."""
    table = block.accepted
    if table is None or "proxy" not in table.columns or table["proxy"].null_count() < len(table):
        return block
    return replace(block, accepted=table.with_columns(proxy=pl.lit(name)))


def _is_large(log: LogInput) -> bool:
    return log.size is None or log.size >= (COMPRESSED_WORTH if log.limit is None else BYTES_WORTH)


def _scanned(block: Block, columns: Sequence[str], form: LineFormat | None) -> Scanned:
    return scanned(block, columns) if form is None else scanned_text(block, columns, form)


def _completed(
    log: LogInput, waiting: _Waiting, parsed: tuple[pl.DataFrame, pl.DataFrame] | None
) -> Iterator[ParsedBlock]:
    """Yield blocks with the records of their other lines; ``parsed``: these, accepted and refused."""
    accepted, refused = parsed or (None, pl.DataFrame(schema=REFUSED))
    for block, of_shape in waiting.blocks:
        rows = of_shape
        inside = pl.col("number").is_between(block.first, block.last)
        rejects = Refused(block, refused.filter(inside)) if len(refused) or block.refused else []
        if accepted is not None and len(others := accepted.filter(inside)):
            rows = pl.concat([rows, others.select(rows.columns).cast(rows.schema)]).sort("number")
        yield ParsedBlock(log.name, block.count, rows, rejects)
