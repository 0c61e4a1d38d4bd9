"""Rows in the order of the arrivals; a column is brought into that order when it is used.

Most analyses use few columns of many. Text is what costs: to move a column of it takes as long as to sort the arrivals.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from sojourn.model.arrays import Codes, Floats, Ints


class OrderedRows:
    """The rows of a table in another order: ``order`` has their indices in the table."""

    def __init__(self, table: pl.DataFrame, order: Ints) -> None:
        self.table = table
        self._order = order
        self._columns: dict[str, pl.Series] = {}

    def __len__(self) -> int:
        return len(self._order)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.table.columns

    def __getitem__(self, column: str) -> pl.Series:
        """Return a column in order."""
        if column not in self._columns:
            self._columns[column] = self.table[column].gather(self._order)
        return self._columns[column]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """All columns in order."""
        return pl.DataFrame([self[name] for name in self.table.columns])

    def column_at(self, name: str, places: Ints) -> pl.Series:
        """Return the values of a column at some places of the order."""
        if name in self._columns:
            return self._columns[name].gather(places)
        return self.table[name].gather(self._order[places])

    def at(self, places: Ints) -> pl.DataFrame:
        """Return the rows at some places of the order."""
        return self.table[self._order[places]]


def arrival_order(table: pl.DataFrame, arrival: Floats, backend: Codes) -> Ints:
    """Return the rows in a total order by arrival, whatever their order is.

    By arrival (s; NaN comes last), backend, and the columns __busy_start, __wait_end, __busy_end and route (null comes
    last).
    """
    order = np.lexsort((backend, arrival)).astype(np.int64, copy=False)
    ordered, at = arrival[order], backend[order]
    unknown = np.isnan(ordered)
    same = ((ordered[1:] == ordered[:-1]) | (unknown[1:] & unknown[:-1])) & (at[1:] == at[:-1])
    if not same.any():
        return order
    tied = np.append(same, False) | np.append(False, same)
    rows = order[tied]
    ties = table.select("__busy_start", "__wait_end", "__busy_end", "route")[rows].with_columns(
        arrival=pl.Series(ordered[tied]).fill_nan(None), backend=pl.Series(at[tied])
    )
    keys = ("arrival", "backend", "__busy_start", "__wait_end", "__busy_end", "route")
    order[tied] = rows[ties.select(pl.arg_sort_by(*keys, nulls_last=True)).to_series().to_numpy()]
    return order
