"""Convert lines of a log to rows of the canonical frame, a few at a time."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import polars as pl

from sojourn.model.client_retries import CLIENT, has_client
from sojourn.model.frame import SPLIT_COLUMNS, Records, dtype_of
from sojourn.readers.blocks import Parsers, format_of
from sojourn.readers.foreign_logs import LENGTH, LINES
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import DROPPED, EXPRESSIONS, PATH, RECORD, records_query
from sojourn.readers.unwrapping import bare_block
from sojourn.sources.requests import in_seconds

# Not what only a verdict and its audit read.
COLUMNS = tuple(
    name for name in SPLIT_COLUMNS if name not in ("app_garbled", "bytes_sent", "request_length", "redirects")
)
# The client and its request, as one number: enough to find its retries.
CLIENT_REQUEST = "client_request"
PATH_LENGTH = 1_000  # bytes of the template of a path; a longer one is no route
PIECE = 2 << 20  # bytes of long lines that are parsed at a time
LONG_LINE = 1_500  # bytes on average


class Parser:
    """A parser that keeps its engine: starting one takes longer than parsing a second's lines.

    Args:
        form: format of all logs; None: each log's own, recognised by its lines.
        columns: read in addition to ``COLUMNS``; those of ``CLIENT``, if all are there, become ``CLIENT_REQUEST``.
        expressions: column -> SQL, as ``EXPRESSIONS``.

    Attributes:
        empty: a table without rows.
    """

    def __init__(
        self,
        form: LineFormat | Units | None = None,
        columns: Sequence[str] = (),
        expressions: Mapping[str, str] = EXPRESSIONS,
    ) -> None:
        self._form = form
        self._columns = tuple(dict.fromkeys((*COLUMNS, *columns)))
        schema: dict[str, pl.DataType] = {name: dtype_of(name) for name in self._columns} | {RECORD: pl.UInt64()}
        if set(CLIENT) <= set(schema):
            schema = {name: kind for name, kind in schema.items() if name not in CLIENT} | {CLIENT_REQUEST: pl.UInt64()}
        self.empty = pl.DataFrame(schema=schema)
        # A second's lines are one batch: more threads only wait for each other.
        selected = (*self._columns, RECORD)
        self._parsers = Parsers(lambda form: records_query(selected, "block", expressions, form), threads=1)
        self._units = in_seconds(self._columns)
        self._samples = 0
        self._logs: dict[str, LogInput] = {}
        self._recognised: set[str] = set()

    def rows(self, lines: bytes, name: str = "") -> tuple[list[pl.DataFrame], Records]:
        """Return the accepted lines as rows (the columns of ``empty``), and the counts of all lines.

        An invalid last line without a newline counts as cut off. The first rejected lines are kept, to name their
        format.

        Args:
            lines: whole lines of one log.
            name: of the log; its first lines decide the format of the others.
        """
        tables: list[pl.DataFrame] = []
        records = Records()
        if not lines:
            return tables, records
        if name not in self._logs:
            log = LogInput(name, io.BytesIO(), None, None, None)
            if self._form is not None:
                log.use(self._form)
            self._logs[name] = log
        log = self._logs[name]
        for piece in _pieces(lines.removeprefix(codecs.BOM_UTF8)):
            log.stream = io.BytesIO(piece)
            tables += self._rows(log, name, records)
        return tables, records

    def _rows(self, log: LogInput, name: str, records: Records) -> Iterator[pl.DataFrame]:
        """Yield the accepted lines of a log's stream, and count all lines in ``records``."""
        for block in (bare_block(log, each) for each in blocks_of_lines(log)):
            parsed = self._parsers.of(format_of(log, block)).parsed(name, block)
            dropped = None if parsed.accepted is None else parsed.accepted[DROPPED]
            records.count(parsed.lines, parsed.reasons(), dropped)
            if log.form is not None and name not in self._recognised:
                self._recognised.add(name)
                records.formats.append(log.form.facts(name))
            for reject in islice(parsed.rejects, LINES - self._samples):
                self._samples += 1
                records.rejects.append({"source": "", "reason": reject.reason, "raw": reject.raw[:LENGTH]})
            if parsed.accepted is not None and len(parsed.accepted):
                yield self._shorten(parsed.accepted.select(*self._columns, RECORD).with_columns(self._units))

    def _shorten(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows in which a client's request is a hash, and no template of a path is longer than ``PATH_LENGTH``.

        Long paths would otherwise be copied with each step that follows.
        """
        if set(CLIENT) <= set(rows.columns):
            rows = rows.with_columns(pl.when(has_client(CLIENT)).then(pl.struct(CLIENT).hash()).alias(CLIENT_REQUEST))
            rows = rows.drop(CLIENT)
        if PATH in rows.columns:
            rows = rows.with_columns(pl.when(pl.col(PATH).str.len_bytes() <= PATH_LENGTH).then(PATH))
        return rows.select(self.empty.columns)


def _pieces(lines: bytes) -> Iterator[bytes]:
    """Yield whole lines, at most about ``PIECE`` bytes at a time if they are long, otherwise all of them.

    An engine needs several times the bytes of its lines. Many short lines at once cost less time.
    """
    begin, end = 0, len(lines)
    if end <= PIECE or end < LONG_LINE * lines.count(b"\n"):
        yield lines
        return
    while begin < end:
        after = lines.find(b"\n", begin + PIECE) + 1 or end
        yield lines[begin:after]
        begin = after
