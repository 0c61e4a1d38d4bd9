"""Parse blocks of a log: lines of one shape in compiled code, several blocks at once, the others in SQL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sojourn.readers.arrow import arrow
from sojourn.readers.blocks import BlockParser, ParsedBlock, Parsers, blocks_ahead, format_of
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.record import EXPRESSIONS, IDENTITY_TEXT, RECORD, records_query

BLOCK_BYTES = 8 << 20
# A smaller log is read before what reads it the short way is loaded.
BYTES_WORTH, COMPRESSED_WORTH = 32 << 20, 2 << 20
Scanned = tuple[pa.Table, np.ndarray] | None


def log_blocks(
    logs: Sequence[LogInput], columns: Sequence[str], on_progress: Callable[[int], None] | None = None
) -> Iterator[ParsedBlock]:
    """Yield every block of every log as ``columns``, in order; ``record`` as a text (``IDENTITY_TEXT``).

    ``on_progress`` is called with the bytes read so far, after each block.
    """
    if not logs:
        return
    workers = max(min(os.cpu_count() or 1, 4), 1)
    expressions = {**EXPRESSIONS, RECORD: IDENTITY_TEXT}

    def query(form: LineFormat | None) -> str:
        return records_query(tuple(columns), "block", expressions, form)

    def named(log: LogInput, block: ParsedBlock) -> ParsedBlock:
        return _with_proxy(block, log.name) if len(logs) > 1 and log.form is not None else block

    with Parsers(query) as parsers, ThreadPoolExecutor(workers, thread_name_prefix="sojourn-scan") as pool:
        done = 0
        for log in logs:
            pending: deque[tuple[Block, int, Future[Scanned] | None]] = deque()
            for block, position in blocks_ahead(log, blocks_of_lines(log, BLOCK_BYTES)):
                form = format_of(log, block)
                long = _is_large(log) and block.ends[-1] > BLOCK_BYTES // 2
                future = pool.submit(_scanned, block, columns, form) if long else None
                pending.append((block, position, future))
                if len(pending) > workers:
                    yield named(log, _parsed(parsers.of(log.form), log, pending, done, on_progress))
            while pending:
                yield named(log, _parsed(parsers.of(log.form), log, pending, done, on_progress))
            done += log.size or 0


def _with_proxy(block: ParsedBlock, name: str) -> ParsedBlock:
    """Return the block with the log's name as the proxy, where the format does not name one: of several logs."""
    table = block.accepted
    if table is None or "proxy" not in table.column_names or table["proxy"].null_count < len(table):
        return block
    names = pa.array([name], pa.string()).take(pa.array(np.zeros(len(table), np.int64)))
    at = table.column_names.index("proxy")
    return replace(block, accepted=table.set_column(at, "proxy", names))


def _is_large(log: LogInput) -> bool:
    return log.size is None or log.size >= (COMPRESSED_WORTH if log.limit is None else BYTES_WORTH)


def _scanned(block: Block, columns: Sequence[str], form: LineFormat | None) -> Scanned:
    from sojourn.readers.shape import scanned  # noqa: PLC0415 - numba takes its time to load
    from sojourn.readers.text_shape import scanned_text  # noqa: PLC0415

    return scanned(block, columns) if form is None else scanned_text(block, columns, form)


def _parsed(
    parser: BlockParser,
    log: LogInput,
    pending: deque[tuple[Block, int, Future[Scanned] | None]],
    done: int,
    on_progress: Callable[[int], None] | None,
) -> ParsedBlock:
    """Return the block that was begun first, finished."""
    block, position, future = pending.popleft()
    parseds = None if future is None else future.result()
    parsed = parser.parsed(log.name, block) if parseds is None else _completed(parser, log.name, block, *parseds)
    if on_progress:
        on_progress(done + position)
    return replace(parsed, form=log.form)


def _completed(parser: BlockParser, source: str, block: Block, scanned: pa.Table, others: np.ndarray) -> ParsedBlock:
    """Return a block of which some lines were read the short way, and ``others`` (positions) are not yet."""
    if not len(others) and not block.refused:
        return ParsedBlock(source, block.count, scanned, [])
    at = arrow(others)
    last = len(others) > 0 and others[-1] == len(block.lines) - 1
    rest = replace(
        block, lines=block.lines.take(at), numbers=block.numbers.take(at), open_end=block.open_end and bool(last)
    )
    parsed = parser.parsed(source, rest)
    accepted = scanned
    if parsed.accepted is not None and len(parsed.accepted):
        both = pa.concat_tables([scanned, parsed.accepted.select(scanned.column_names).cast(scanned.schema)])
        accepted = both.sort_by("number")
    return ParsedBlock(source, block.count, accepted, parsed.rejects)
