"""The spans of a store, of every kind, as traces."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.traces_frame import INSTANCE, PEER, TRACES_SCHEMA
from sojourn.sources.store_rows import SPAN_LIMIT
from sojourn.store.client import connect, plainly
from sojourn.store.statements import sql


def stored_traces(dsn: str, since: datetime | None = None, until: datetime | None = None) -> pl.DataFrame:
    """Return the spans of the traces that began in [since, until), columns as in ``TRACES_SCHEMA``, without duplicates.

    Args:
        dsn: the store.
        since: only traces whose first span began at or after this instant, UTC.
        until: only traces whose first span began before this instant, UTC.

    Raises:
        SojournError: the store cannot be reached or queried, or there are more than ``SPAN_LIMIT`` spans.
    """
    bounds = {
        "since": int(since.timestamp() * 1e6) if since else 0,
        "until": int(until.timestamp() * 1e6) if until else 1 << 52,
        "instance": list(INSTANCE),
        "peer": list(PEER),
        "limit": SPAN_LIMIT + 1,
    }
    with connect(dsn) as store, plainly(store, "fetching its spans"):
        table = store.client.query_arrow(sql("traces"), parameters=bounds, use_strings=True)
    if len(table) > SPAN_LIMIT:
        raise SojournError(
            f"{store.dsn}: more than {SPAN_LIMIT:,} spans; narrow them with --since and --until (of when a trace began)"
        )
    tables = pl.DataFrame(pl.from_arrow(table))
    texts = [pl.col(name).replace("", None) for name in ("parent_span_id", "service", "worker", "request_id")]
    return tables.with_columns(*texts).select(pl.col(name).cast(kind) for name, kind in TRACES_SCHEMA.items())
