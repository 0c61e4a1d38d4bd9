"""The split of what a store holds, without fetching it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import polars as pl

from sojourn.analyses.split.assembly import assembled
from sojourn.analyses.split.result import SplitResult
from sojourn.model.frame import COLUMNS, Requests, Selection
from sojourn.sources.rows import split_rows
from sojourn.sources.store_measures import StoreMeasures
from sojourn.sources.store_rows import read_store, stored_records


def split_store(
    dsn: str, selection: Selection, *, by: Sequence[str], slo: float, rejects_to: TextIO | None = None
) -> SplitResult:
    """The split of the selected requests of a store; the result's ``rows`` are fetched when they are first used.

    Args:
        dsn: the store.
        selection: which requests.
        by, slo, rejects_to: as for ``sojourn.split``.

    Raises:
        SojournError: the store cannot be reached or asked.
    """
    measures = StoreMeasures(dsn, selection)
    kept: list[Requests] = []  # the temporary folder lives as long as the rows

    def rows() -> pl.LazyFrame:
        requests = read_store(dsn, COLUMNS, selection.since, selection.until, selection.where)
        kept.append(requests)
        split_lazily, _ = split_rows(requests.rows, requests.spans)
        return split_lazily

    with measures.session() as store:
        records = stored_records(store, selection, rejects_to)
        return assembled(measures, records, (store.dsn,), rows, by=by, slo=slo)
