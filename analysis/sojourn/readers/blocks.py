"""Parse logs with DuckDB in blocks: its threads parse a block while the next is split into lines."""

from __future__ import annotations

import atexit
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, overload

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.parallel import prefetched
from sojourn.readers.arrow import frame_of
from sojourn.readers.formats.contradictions import with_warnings
from sojourn.readers.formats.detect import LINES, detected_format
from sojourn.readers.formats.from_text import with_paths_of
from sojourn.readers.formats.haproxy import partial_note
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import with_units
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.record import MACROS
from sojourn.readers.tables.suggestion import suggestion_for_lines
from sojourn.readers.unwrapping import bare_blocks, first_lines

if TYPE_CHECKING:
    import duckdb

ROWS_PER_BATCH = 20_000  # DuckDB spreads batches over its threads
NO_LINES = pl.DataFrame(schema={"line": pl.String, "number": pl.Int64})
IDLE_PARSERS = 4
CALL = re.compile(r"\b(\w+)\(")
REFUSED = {"number": pl.Int64, "reason": pl.String, "raw": pl.String}

Query = Callable[[LineFormat | None], str]
Transform = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass
class Reject:
    """A refused line: number, first byte, reason, and text (possibly shortened)."""

    line: int
    position: int
    reason: str
    raw: str


def rejects_of(block: Block) -> list[Reject]:
    """Return the lines that a block has refused before they were parsed."""
    return [Reject(number, block.position(number), reason, raw) for number, reason, raw in block.refused]


class Refused(Sequence[Reject]):
    """Refused lines in order, created on access: a file of empty lines has millions of them."""

    def __init__(self, block: Block, table: pl.DataFrame) -> None:
        """Keep ``table``: ``number``, ``reason`` and ``raw`` of lines of the block."""
        self._block = block.without_data()
        self._table = table.select(*REFUSED).sort("number")
        self._rest = rejects_of(block)
        last = self._table.row(-1, named=True) if len(table) else None
        self._cut_off = (
            last is not None
            and last["reason"] == "invalid_json"
            and block.open_end
            and last["number"] == block.numbers[-1]
        )

    def __len__(self) -> int:
        return len(self._rest) + len(self._table)

    @overload
    def __getitem__(self, index: int) -> Reject: ...
    @overload
    def __getitem__(self, index: slice) -> list[Reject]: ...
    def __getitem__(self, index: int | slice) -> Reject | list[Reject]:
        return list(self)[index]

    def __iter__(self) -> Iterator[Reject]:
        yield from self._rest
        last = len(self._table) - 1
        for at, (number, reason, raw) in enumerate(self._table.iter_rows()):
            final_reason = "incomplete_line" if self._cut_off and at == last else reason
            yield Reject(number, self._block.position(number), final_reason, raw)

    def reasons(self) -> dict[str, int]:
        """Return the number of lines per reason."""
        counts = Counter(reject.reason for reject in self._rest)
        for reason, count in self._table["reason"].value_counts().iter_rows():
            counts[reason] += count
        if self._cut_off:
            counts.subtract(["invalid_json"])
            counts["incomplete_line"] += 1
        return {reason: count for reason, count in counts.items() if count}


@dataclass
class ParsedBlock:
    """The lines of one block, accepted and refused.

    Attributes:
        source: the input's name.
        lines: number of lines.
        form: the format of the log; None: Sojourn's own record.
        accepted: one row per accepted record, with the selected columns and ``number``.
        rejects: the refused lines.
    """

    source: str
    lines: int
    accepted: pl.DataFrame | None
    rejects: Sequence[Reject]
    form: LineFormat | None = None

    def reasons(self) -> dict[str, int]:
        """Return the number of refused lines by reason."""
        rejects = self.rejects
        return rejects.reasons() if isinstance(rejects, Refused) else dict(Counter(each.reason for each in rejects))


def parsed_blocks(logs: Sequence[LogInput], query: Query, macros: Sequence[str]) -> Iterator[ParsedBlock]:
    """Yield every block of every log, parsed by ``query`` (of a log's format, over a relation named ``block``).

    ``macros``: macros of the query in addition to the reader's.
    """
    if not logs:
        return
    with Parsers(query, macros) as parsers:
        for log, block, form in formed_blocks(logs):
            yield replace(parsers.of(form).parsed(log.name, block), form=form)


def formed_blocks(
    logs: Sequence[LogInput], on_progress: Callable[[int], None] | None = None
) -> Iterator[tuple[LogInput, Block, LineFormat | None]]:
    """Yield every block of every log with the log and its format (None: Sojourn's own record).

    ``on_progress``: called with the bytes read so far, after each block.
    """
    done = 0
    for log in logs:
        for block, position in blocks_ahead(log, bare_blocks(log, blocks_of_lines(log))):
            yield log, block, format_of(log, block)
            if on_progress:
                on_progress(done + position)
        done += log.size or 0


def format_of(log: LogInput, block: Block) -> LineFormat | None:
    """Return the format of a log: the user's, or else that of the first lines of its first block.

    Raises:
        SojournError: the user states units for durations that the log does not have.
    """
    if log.recognised and (log.form is None or log.looked_at):
        return log.form
    lines = first_lines(block)
    if not log.recognised:
        log.form = detected_format(lines, log.units)
        log.recognised = log.form is not None or len(block) >= LINES
        log.looked_at = log.recognised
        if log.units and log.recognised:
            log.form = _in_units(log)
    elif log.form is not None and lines:
        log.form = partial_note(with_warnings(with_paths_of(log.form, lines), lines), lines)
        log.looked_at = True
    return log.form


def _in_units(log: LogInput) -> LineFormat:
    """Return the recognised format of a log with the units that the user states."""
    if log.form is None:
        raise SojournError(
            f"--log-format {log.units.text}: {log.name} has no format that is recognised: write the text of the format"
        )
    try:
        return with_units(log.form, log.units)
    except SojournError as error:
        raise SojournError(f"{log.name}: {error}") from None


def refuse_table(log: LogInput, block: Block) -> None:
    """Raise an error if the first block of a log is that of a table without roles.

    Raises:
        SojournError: it is; the text names its columns and the roles that are likely.
    """
    if log.recognised or block.first != 1:
        return
    lines = block.lines_at(block.positions[:LINES]).to_list()
    if table := suggestion_for_lines(log.name, lines):
        raise SojournError(str(table))


@dataclass(frozen=True)
class Plan:
    """A query (from ``records_query``, over a relation named ``block``), and how it is run.

    Attributes:
        query: the SQL.
        macros: macros of the query in addition to the reader's.
        threads: threads of the engine; None: all.
    """

    query: str
    macros: tuple[str, ...] = ()
    threads: int | None = None


def reading_engine(macros: Sequence[str] = MACROS) -> duckdb.DuckDBPyConnection:
    """Return an engine with macros."""
    import duckdb  # noqa: PLC0415 - a log whose lines are all read in compiled code needs none

    engine = duckdb.connect()
    engine.execute("SET enable_progress_bar = false")  # on under `python -c`, and it is written to stdout
    for macro in macros:
        engine.execute(macro)
    return engine


def used_macros(query: str, macros: Sequence[str]) -> list[str]:
    """Return those of the macros that a query uses, itself or through another of them, in their order.

    A query uses half of them, and each takes half a millisecond.
    """
    by_name: dict[str, list[str]] = {}
    for macro in macros:
        by_name.setdefault(macro.partition(" MACRO ")[2].partition("(")[0], []).append(macro)
    used: set[str] = set()
    texts = [query]
    while texts:
        names = set(CALL.findall(texts.pop())) & by_name.keys() - used
        used |= names
        texts += [text for name in names for text in by_name[name]]
    return [macro for name, each in by_name.items() if name in used for macro in each]


class BlockParser:
    """A query, planned once and run for each block.

    Planning takes 70 ms, more than parsing a small block: a parser that is not used any more is kept for the next log.

    Attributes:
        transform: what is made of the accepted records; None: nothing.
    """

    _idle: ClassVar[list[BlockParser]] = []
    _idle_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, plan: Plan, transform: Transform | None = None) -> None:
        self.transform = transform
        self._plan, self._process, self._lines = plan, os.getpid(), _Lines()
        self._engine = reading_engine(used_macros(plan.query, (*MACROS, *plan.macros)))
        if plan.threads is not None:
            self._engine.execute(f"SET threads = {plan.threads:d}")
        self._engine.register("block", self._lines)
        self._engine.execute(f"PREPARE parsed AS {plan.query}")

    @classmethod
    def take(cls, plan: Plan, transform: Transform | None = None) -> BlockParser:
        """Return a parser that was kept, or a new one."""
        with cls._idle_lock:
            for number, parser in enumerate(cls._idle):
                # The threads of an engine do not exist in a process that was forked.
                if parser._plan == plan and parser._process == os.getpid():
                    parser.transform = transform
                    return cls._idle.pop(number)
        return cls(plan, transform)

    def keep(self) -> None:
        """Keep the parser for the next log, in the place of the one that has not been used for longest."""
        with self._idle_lock:
            self._idle.append(self)
            oldest = self._idle.pop(0) if len(self._idle) > IDLE_PARSERS else None
        if oldest is not None:
            oldest.close()

    @classmethod
    def close_idle(cls) -> None:
        """Close the engines of the parsers that are kept."""
        with cls._idle_lock:
            idle, cls._idle[:] = [*cls._idle], []
        for parser in idle:
            parser.close()

    def close(self) -> None:
        """Close the engine."""
        if self._process == os.getpid():
            self._engine.close()

    def parsed(self, source: str, block: Block) -> ParsedBlock:
        """Parse one block; ``source``: the input's name."""
        refused = pl.DataFrame(schema=REFUSED)
        accepted = None
        if len(block):
            accepted, refused = self.rows(pl.DataFrame({"line": block.lines, "number": block.numbers}))
        return ParsedBlock(source, block.count, accepted, Refused(block, refused))

    def rows(self, lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Parse ``lines`` (line, number) of any blocks; return the accepted records, and the refused lines."""
        self._lines.table = lines
        rows = frame_of(self._engine.sql("EXECUTE parsed"))
        self._lines.table = NO_LINES
        refused = rows.filter(pl.col("reason").is_not_null()).select(*REFUSED)
        accepted = rows.filter(pl.col("reason").is_null()) if len(refused) else rows
        accepted = accepted.drop("reason", "raw")
        return (self.transform(accepted) if self.transform else accepted), refused


atexit.register(BlockParser.close_idle)  # before the interpreter takes the engine's module apart


class Parsers:
    """A parser for each format of log that occurs, each planned at its first use, unless one was kept.

    Args:
        query: the SQL for a format, as for ``BlockParser``.
        macros: macros of the query in addition to the reader's.
        threads: threads of an engine; None: all.
        transform: what is made of the accepted records; None: nothing.
    """

    def __init__(
        self, query: Query, macros: Sequence[str] = (), threads: int | None = None, transform: Transform | None = None
    ) -> None:
        self._query, self._macros, self._threads, self._transform = query, tuple(macros), threads, transform
        self._parsers: dict[LineFormat | None, BlockParser] = {}

    def __enter__(self) -> Parsers:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        for parser in self._parsers.values():
            if failed is None:
                parser.keep()
            else:
                parser.close()

    def of(self, form: LineFormat | None) -> BlockParser:
        """Return the parser of a format."""
        if form not in self._parsers:
            plan = Plan(self._query(form), self._macros, self._threads)
            self._parsers[form] = BlockParser.take(plan, self._transform)
        return self._parsers[form]


class _Lines:
    """The relation ``block``: a prepared query reads its current lines."""

    table = NO_LINES

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        rows = self.table.to_struct()
        # A frame would be one batch, a series keeps its chunks.
        batches = [rows.slice(i, ROWS_PER_BATCH) for i in range(0, max(len(rows), 1), ROWS_PER_BATCH)]
        return pl.concat(batches, rechunk=False).__arrow_c_stream__(requested_schema)


def blocks_ahead(log: LogInput, blocks: Iterator[Block]) -> Iterator[tuple[Block, int]]:
    """Yield the blocks of a log and the bytes read up to each; the next block of a file is read in advance."""
    file = log.raw if log.size is not None else None
    placed = ((block, file.tell() if file is not None else 0) for block in blocks)
    # Not for a pipe: an interrupted read of a pipe does not end.
    return prefetched(placed) if log.size is not None else placed
