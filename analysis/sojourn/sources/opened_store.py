"""Open the requests of a store: the store computes the figures, and rows are fetched when they are first used."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO

import polars as pl

from sojourn.components.split import split_rows
from sojourn.model.frame import COLUMNS, Records, Requests, Selection
from sojourn.sources.open_requests import OpenedRequests
from sojourn.sources.store_measures import StoreMeasures
from sojourn.sources.store_rows import read_store, stored_records


@contextmanager
def open_store(dsn: str, selection: Selection, rejects_to: TextIO | None) -> Iterator[OpenedRequests]:
    """Open the selected requests of a store; their ``rows`` are fetched when they are first used.

    One connection serves every query inside the block.
    """
    measures = StoreMeasures(dsn, selection)
    with measures.session() as store:
        records = stored_records(store, selection, rejects_to)
        yield _of_store(dsn, selection, measures, records, store.dsn)


def _of_store(dsn: str, selection: Selection, measures: StoreMeasures, records: Records, name: str) -> OpenedRequests:
    fetched: list[Requests] = []  # the temporary folder lives as long as the rows

    def rows() -> pl.LazyFrame:
        requests = read_store(dsn, COLUMNS, selection.since, selection.until, selection.where)
        fetched.append(requests)
        split = split_rows(requests.rows, requests.spans, measures.clock if selection.where else None, infer=False)
        size = measures.requests_of_window
        return split.rows.with_columns(log_requests=pl.lit(size, pl.UInt32))

    @functools.cache
    def whole() -> OpenedRequests:
        window = replace(selection, where={})
        return _of_store(dsn, window, StoreMeasures(dsn, window), records, name)

    return OpenedRequests(
        measures=measures, records=records, names=(name,), where=selection.where, _rows=rows,
        _whole=whole if selection.where else None,
    )  # fmt: skip
