"""Infer the queue in front of backends whose apps reported nothing, and fill it into split rows.

A row gets its queue from here only if no row of its backend has one of its own: measured and inferred queues are never
mixed within a backend, and ``queue_source`` says which one a row has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sojourn.components.inferred.backends import BackendInference, inferences
from sojourn.estimation.inferred import INFERRED, REFUSED
from sojourn.model.formatting import printable

NEEDED = (
    "start", "upload", "proxy_queue", "retries", "connect", "header", "response", "status", "upstream", "route",
    "proxied", "answered", "queue_source", "vantage", "time_step", "request_time", "proxy", "transfer",
)  # fmt: skip
NO_ROWS: dict[str, Any] = {
    name: np.zeros(0, np.int64) for name in ("rows", "waits", "numbers", "later")
}  # the rows have them


def inferred_note(rows: pl.LazyFrame) -> str:
    """Return the sentence that marks what is computed from inferred queues; empty where all of them are measured."""
    if "queue_source" not in rows.collect_schema().names():
        return ""
    inferred = rows.filter(pl.col("queue_source") == INFERRED).select(pl.col("upstream").unique().sort())
    names = inferred.collect(engine="streaming").to_series().to_list()
    if not names:
        return ""
    backends = printable(names[0] or "the backend", 60) + (f" and {len(names) - 1} more" if len(names) > 1 else "")
    return f"Queueing delays of {backends} are inferred from the log, not measured."


def inferred_rows(
    rows: pl.LazyFrame, workers: int | Mapping[str, int] | None = None
) -> tuple[pl.LazyFrame, list[BackendInference]]:
    """Return split rows with the queues that can be inferred, and the inference of each backend that reported none.

    Rows of such a backend get ``queue``, ``queueing_delay``, ``service_time``, ``queue_source`` ("inferred") and
    ``inferred_workers``; what was ``unattributed`` of them becomes these. A wait that ends after the response headers,
    which a gateway sent before the work began, is part of what was ``transfer``. Where instants of whole seconds are
    reconstructed, ``start`` is the reconstructed one, and ``time`` that instant plus the duration. ``workers``: per
    backend, or the same for all; None: inferred.
    """
    names = rows.collect_schema().names()
    rows = rows.with_columns(inferred_workers=pl.lit(None, pl.Int64))
    if not set(NEEDED) <= set(names):
        return rows, []
    backends = list(inferences(rows, workers))
    usable = [backend for backend in backends if backend.result.verdict != REFUSED]
    if not usable:
        return rows, backends
    count = int(rows.select(pl.len()).collect(engine="streaming").item())
    waits = np.full(count, np.nan, np.result_type(*(backend.waits.dtype for backend in usable)))
    moved = any(len(backend.later) for backend in usable)
    numbers, later = np.zeros(count, np.uint16), np.zeros(count if moved else 0, np.int64)
    for backend in usable:
        waits[backend.rows], numbers[backend.rows] = backend.waits, backend.numbers
        if len(backend.later):
            later[backend.rows] = backend.later
    # Beside the rows, in their order: a join of as many rows would need far more memory.
    beside = pl.DataFrame({"__wait": waits, "__workers": numbers, **({"__later": later} if moved else {})})
    joined = pl.concat([rows, beside.lazy()], how="horizontal")
    connect = pl.col("connect").fill_null(0.0)
    until_headers = pl.coalesce("header", "response")
    has_wait = pl.col("__wait").is_not_nan()
    until_end = pl.max_horizontal("header", "response")
    # The error of the stamps may put a start behind the response.
    wait = pl.min_horizontal(pl.col("__wait").cast(pl.Float64).round(6), until_end)
    queue = wait - connect
    # Headers that were sent before the worker's start do not divide its work: all after the wait is service.
    early = wait > until_headers
    filled = {
        "queue": queue,
        "queueing_delay": pl.col("proxy_queue") + wait,
        "service_time": pl.when(early).then(until_end).otherwise(until_headers) - wait,
        "transfer": pl.when(early).then(0.0).otherwise("transfer"),
        "network": pl.lit(0.0),
        "unattributed": pl.lit(0.0),
        "queue_source": pl.lit(INFERRED),
        "inferred_workers": pl.col("__workers").cast(pl.Int64),
    }
    instants = [name for name in ("start", "time") if name in names] if moved else []
    schema = rows.collect_schema()
    return (
        joined.with_columns(
            **{name: pl.when(has_wait).then(value).otherwise(pl.col(name)) for name, value in filled.items()},
            **{
                name: (pl.col(name) + pl.duration(microseconds=pl.col("__later"))).cast(schema[name])
                for name in instants
            },
        ).drop(beside.columns),
        [replace(backend, **NO_ROWS) for backend in backends],
    )
