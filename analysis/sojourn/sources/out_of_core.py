"""Exact figures of frames too large for memory: one column at a time, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.figures import Floats, Summary, summary

BATCH = 1_000_000  # rows; those of a part of the file they lie in


def batches(rows: pl.LazyFrame, count: int, *exprs: pl.Expr | str) -> Iterator[pl.DataFrame]:
    """Yield ``exprs`` of the first ``count`` rows, a batch at a time."""
    for begin in range(0, count, BATCH):
        yield rows.slice(begin, BATCH).select(*exprs).collect()


def column(rows: pl.LazyFrame, count: int, value: pl.Expr, where: pl.Expr) -> Floats:
    """Return the values of an expression over ``count`` rows, nulls and rows that are not ``where`` left out."""
    valuess = np.empty(count)
    size = 0
    for batch in batches(rows, count, pl.when(where).then(value).alias("value")):
        values = batch["value"].drop_nulls().to_numpy()
        valuess[size : size + len(values)] = values
        size += len(values)
    return valuess[:size]


@dataclass(frozen=True)
class Grouped:
    """Which of some groups each row is of.

    Attributes:
        rows: the frame.
        numbers: number of each row's group; rows without a group have one more than the last.
        begins: begin of each group in an array of all values sorted by group, and the end.
    """

    rows: pl.LazyFrame
    numbers: npt.NDArray[Any]
    begins: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: pl.LazyFrame, count: int, groups: pl.DataFrame, where: pl.Expr) -> Grouped:
        """Group rows by the values of a column.

        Args:
            rows: the frame.
            count: number of its rows.
            groups: the column, with one row per group (null is a group as well), and ``requests``: the maximum number
                of rows of each.
            where: the rows that count.
        """
        name = groups.columns[0]
        kind: type = np.uint16 if len(groups) < np.iinfo(np.uint16).max else np.uint32  # numpy sorts 16 bits fast
        numbered = groups.select(name).with_row_index("number")
        numbers: npt.NDArray[Any] = np.empty(count, kind)
        begin = 0
        for batch in batches(rows, count, name, where.alias("counts")):
            codes = batch.join(numbered, on=name, how="left", nulls_equal=True, maintain_order="left")
            number = pl.when("counts").then("number").otherwise(None).fill_null(len(groups))
            numbers[begin : begin + len(batch)] = codes.select(number).to_series().to_numpy()
            begin += len(batch)
        sizes = np.concatenate([[0], groups["requests"].to_numpy()])
        return cls(rows, numbers, np.cumsum(sizes, dtype=np.int64))

    def summaries(self, value: str) -> list[Summary]:
        """Return the figures of a column for each group, without nulls."""
        count = len(self.begins) - 1
        sorted_values, filled = np.empty(int(self.begins[-1])), self.begins[:-1].copy()
        begin = 0
        for batch in batches(self.rows, len(self.numbers), value):
            values = batch[value]
            numbers = self.numbers[begin : begin + len(values)]
            begin += len(values)
            known = values.is_not_null().to_numpy() & (numbers < count)
            numbers, known_values = numbers[known], values.to_numpy()[known]
            order = np.argsort(numbers, kind="stable")
            sizes = np.bincount(numbers, minlength=count)
            # The first of a group goes to where the group is filled up to, each other one after the one before.
            to = np.repeat(filled - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(numbers))
            sorted_values[to] = known_values[order]
            filled += sizes
        return [summary(sorted_values[begin:end]) for begin, end in zip(self.begins[:-1], filled, strict=True)]
