"""The requests of the last ten minutes, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.model.frame import INSTANT, SCHEMA, Records
from sojourn.readers.record import RECORD
from sojourn.watch.parsing import COLUMNS

SPAN = 600.0  # s
MOST = 1_500_000  # requests held
SETTLED = 20_000  # rows from which on a table is left as it is
TEXTS = tuple(name for name in COLUMNS if SCHEMA[name] == pl.String())
EMPTY = pl.DataFrame(schema={**{name: SCHEMA[name] for name in COLUMNS}, RECORD: pl.UInt64()})


@dataclass
class Recent:
    """What is held.

    Attributes:
        records: what became of the lines since the beginning.
        duplicates: records that came again shortly after, each left out.
        first: the earliest end of a request there was, held or not; None of none.
        last: the latest.
        full: requests had to be let go before their time, those that ended until then; None: none had to.
    """

    records: Records = field(default_factory=Records)
    duplicates: int = 0
    first: datetime | None = None
    last: datetime | None = None
    full: datetime | None = None
    _tables: list[pl.DataFrame] = field(default_factory=list)
    _ends: list[datetime] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def add(self, rows: pl.DataFrame, records: Records | None = None) -> None:
        """Take rows (columns of ``EMPTY``) and what became of the lines they come from."""
        if records is not None:
            self.records.add(records)
        if rows.is_empty():
            return
        first, last = rows.select(first=pl.col("time").min(), last=pl.col("time").max()).row(0)
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)
        # The same few names again and again: a number each is enough. Sorted, because that makes a copy: what comes
        # from the engine lies in buffers several times its size.
        rows = self._each_once(rows).with_columns(pl.col(TEXTS).cast(pl.Categorical)).sort("time")
        if self._tables and len(self._tables[-1]) < SETTLED:
            self._tables[-1] = pl.concat([self._tables[-1], rows], rechunk=True)
            self._ends[-1] = max(self._ends[-1], last)
        else:
            self._tables.append(rows)
            self._ends.append(last)

    def forget(self, now: datetime) -> None:
        """Let go of what ended more than ten minutes ago, and of the oldest where there is too much."""
        horizon = now - timedelta(seconds=SPAN)
        kept = [k for k, end in enumerate(self._ends) if end > horizon]
        self._tables, self._ends = [self._tables[k] for k in kept], [self._ends[k] for k in kept]
        while len(self) > MOST and len(self._tables) > 1:
            self.full = self._ends.pop(0)
            self._tables.pop(0)
        if self.full is not None and self.full <= horizon:
            self.full = None

    def rows(self, now: datetime, seconds: float) -> pl.LazyFrame:
        """Requests that ended in the ``seconds`` before ``now``, or later than it."""
        begin = now - timedelta(seconds=seconds)
        tables = [table.lazy() for table, end in zip(self._tables, self._ends, strict=True) if end > begin]
        after = pl.col("time") > pl.lit(begin, INSTANT)
        texts = pl.col(TEXTS).cast(pl.String)
        return pl.concat(tables).filter(after).with_columns(texts) if tables else EMPTY.lazy()

    def known_from(self, instant: datetime) -> None:
        """The log is known from ``instant`` on, whenever the first request after it came."""
        self.first = instant if self.first is None else min(self.first, instant)

    def known_since(self) -> datetime:
        """The instant from which on every request that ended is known."""
        known = self.first or datetime.fromtimestamp(0, UTC)
        return known if self.full is None else max(known, self.full)

    def _each_once(self, rows: pl.DataFrame) -> pl.DataFrame:
        """``rows`` without records that are among them twice, or among the last ones."""
        known = pl.col(RECORD).is_not_null()
        kept = rows.filter(~known | pl.col(RECORD).is_first_distinct())
        if self._tables:
            before = self._tables[-1][RECORD].drop_nulls()
            kept = kept.filter(~(known & pl.col(RECORD).is_in(before.implode())))
        self.duplicates += len(rows) - len(kept)
        return kept
