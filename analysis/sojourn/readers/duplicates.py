"""Remove rows that were delivered twice, but not different requests with equal values."""

from __future__ import annotations

import numpy as np
import polars as pl

from sojourn.readers.record import RECORD

RECORDS_AT_ONCE = 10_000_000  # numbers in memory, 8 bytes each and as much again for the search
ROW = "__row"


def each_once(rows: pl.LazyFrame, at_most: int) -> tuple[pl.LazyFrame, int]:
    """Return ``rows`` without those whose ``record`` is that of an earlier row, and the number of removed rows.

    Memory is bounded: at most one byte per row.

    Args:
        rows: with a column ``record`` (hash of the identity of a record; null: never a duplicate).
        at_most: upper bound of the number of rows.
    """
    parts = max(-(-at_most // RECORDS_AT_ONCE), 1)
    record = pl.col(RECORD)
    repeated = 0
    for part in range(parts):
        with_record, distinct = (
            _part(rows, part, parts)
            .select(with_record=record.count(), distinct=record.n_unique())
            .collect(engine="streaming")
            .row(0)
        )
        repeated += with_record - distinct if with_record else 0
    if not repeated:
        return rows, 0
    numbered = rows.with_row_index(ROW)
    is_first = np.zeros(at_most, np.bool_)
    is_first[numbered.filter(record.is_null()).select(ROW).collect(engine="streaming").to_series().to_numpy()] = True
    for part in range(parts):
        first = _part(numbered, part, parts).group_by(RECORD).agg(pl.col(ROW).min())
        is_first[first.collect(engine="streaming")[ROW].to_numpy()] = True
    chosen = pl.col(ROW).map_batches(lambda row: pl.Series(is_first[row.to_numpy()]), pl.Boolean, is_elementwise=True)
    return numbered.filter(chosen).drop(ROW), repeated


def _part(rows: pl.LazyFrame, part: int, parts: int) -> pl.LazyFrame:
    with_record = rows.filter(pl.col(RECORD).is_not_null())
    return with_record if parts == 1 else with_record.filter(pl.col(RECORD) % parts == part)
