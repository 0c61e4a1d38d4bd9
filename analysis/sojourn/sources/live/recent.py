"""The requests of the last minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.model.frame import INSTANT, SCHEMA, Records
from sojourn.readers.record import RECORD
from sojourn.sources.live.parsing import CLIENT_REQUEST, COLUMNS

SPAN = 600.0  # s
MOST = 1_500_000  # requests held
SETTLED = 20_000  # rows; a table of this size is not extended further
TEXTS = tuple(name for name in COLUMNS if SCHEMA[name] == pl.String())
EMPTY = pl.DataFrame(
    schema={**{name: SCHEMA[name] for name in COLUMNS}, RECORD: pl.UInt64(), CLIENT_REQUEST: pl.UInt64()}
)


@dataclass
class Recent:
    """Requests held in memory.

    Attributes:
        span: s for which a request is held after its end.
        records: counts of accepted and rejected lines since the beginning.
        duplicates: repeated records that were left out.
        first: the earliest end of any request, held or not; None before the first.
        last: the latest.
        full: requests that ended until then were dropped early, to limit memory, or because the clock was set; None if
            none were.
    """

    span: float = SPAN
    records: Records = field(default_factory=Records)
    duplicates: int = 0
    first: datetime | None = None
    last: datetime | None = None
    full: datetime | None = None
    _tables: list[pl.DataFrame] = field(default_factory=list)
    _ends: list[datetime] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def add(self, rows: pl.DataFrame, records: Records | None = None) -> pl.DataFrame:
        """Add rows and the counts of their lines; return the new rows.

        Columns of ``EMPTY`` are held; ``CLIENT_REQUEST`` is null where it was not read.
        """
        if records is not None:
            self.records.add(records)
        if rows.is_empty():
            return rows
        first, last = rows.select(first=pl.col("time").min(), last=pl.col("time").max()).row(0)
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)
        # Few distinct names: a number each is enough. Sorting also makes a copy: rows from the engine lie in buffers
        # several times their size.
        new = self._each_once(rows)
        rows = new if CLIENT_REQUEST in new.columns else new.with_columns(pl.lit(None, pl.UInt64).alias(CLIENT_REQUEST))
        rows = rows.select(EMPTY.columns).with_columns(pl.col(TEXTS).cast(pl.Categorical)).sort("time")
        if self._tables and len(self._tables[-1]) < SETTLED:
            self._tables[-1] = pl.concat([self._tables[-1], rows], rechunk=True)
            self._ends[-1] = max(self._ends[-1], last)
        else:
            self._tables.append(rows)
            self._ends.append(last)
        return new

    def restart(self, instant: datetime) -> None:
        """Drop all requests; the log is known from ``instant`` on."""
        self._tables, self._ends = [], []
        self.first, self.last, self.full = instant, None, instant

    def forget(self, now: datetime) -> None:
        """Drop requests that ended more than ``span`` ago, and the oldest beyond ``MOST``."""
        horizon = now - timedelta(seconds=self.span)
        current = [k for k, end in enumerate(self._ends) if end > horizon]
        self._tables, self._ends = [self._tables[k] for k in current], [self._ends[k] for k in current]
        while len(self) > MOST and len(self._tables) > 1:
            self.full = self._ends.pop(0)
            self._tables.pop(0)
        if self.full is not None and self.full <= horizon:
            self.full = None

    def rows(self, now: datetime, seconds: float) -> pl.LazyFrame:
        """Return requests that ended in the ``seconds`` before ``now``, or later."""
        begin = now - timedelta(seconds=seconds)
        tables = [table.lazy() for table, end in zip(self._tables, self._ends, strict=True) if end > begin]
        after = pl.col("time") > pl.lit(begin, INSTANT)
        texts = pl.col(TEXTS).cast(pl.String)
        return pl.concat(tables).filter(after).with_columns(texts) if tables else EMPTY.lazy()

    def covers_from(self, instant: datetime) -> None:
        """Record that the log is known from ``instant`` on, even without requests."""
        self.first = instant if self.first is None else min(self.first, instant)

    def known_since(self) -> datetime:
        """Return the instant from which on all ended requests are known."""
        since = self.first or datetime.fromtimestamp(0, UTC)
        return since if self.full is None else max(since, self.full)

    def _each_once(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return ``rows`` without records repeated among them or in the latest table."""
        has_record = pl.col(RECORD).is_not_null()
        distinct = rows.filter(~has_record | pl.col(RECORD).is_first_distinct())
        if self._tables:
            before = self._tables[-1][RECORD].drop_nulls()
            distinct = distinct.filter(~(has_record & pl.col(RECORD).is_in(before.implode())))
        self.duplicates += len(rows) - len(distinct)
        return distinct
