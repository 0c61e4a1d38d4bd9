"""Requests of a store, opened without fetching them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import polars as pl

from sojourn.components.split import split_rows
from sojourn.model.frame import COLUMNS, Requests, Selection
from sojourn.sources.open_requests import OpenedRequests
from sojourn.sources.store_measures import StoreMeasures
from sojourn.sources.store_rows import read_store, stored_records


@contextmanager
def open_store(dsn: str, selection: Selection, *, rejects_to: TextIO | None = None) -> Iterator[OpenedRequests]:
    """Open the selected requests of a store; their ``rows`` are fetched when they are first used.

    One connection serves every query inside the block.

    Args:
        dsn: the store.
        selection: which requests.
        rejects_to: as for ``sojourn.split``.

    Raises:
        SojournError: the store cannot be reached or queried.
    """
    measures = StoreMeasures(dsn, selection)
    kept: list[Requests] = []  # the temporary folder lives as long as the rows

    def rows() -> pl.LazyFrame:
        requests = read_store(dsn, COLUMNS, selection.since, selection.until, selection.where)
        kept.append(requests)
        return split_rows(requests.rows, requests.spans, infer=False).rows

    with measures.session() as store:
        records = stored_records(store, selection, rejects_to)
        yield OpenedRequests(measures=measures, records=records, names=(store.dsn,), _rows=rows)
