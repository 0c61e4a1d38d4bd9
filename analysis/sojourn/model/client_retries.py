"""Clients' own retries: the same address, method and URI again, within a minute of a failure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sojourn.model.components import failed

CLIENT = ("remote_addr", "method", "uri")
AGAIN = 60.0  # s after a failure: a later request of the same client is not a retry
FAILED = failed(pl.col("status"))


def has_client(columns: Sequence[str]) -> pl.Expr:
    """Return whether a row has a value in each of the columns that identify a client and its request."""
    return pl.all_horizontal((pl.col(column).cast(pl.String) != "").fill_null(value=False) for column in columns)


def client_retries(table: pl.DataFrame, client: Sequence[str]) -> pl.Series:
    """Return which requests are a client's own retry of a failed one; null where the client is not known.

    Only the requests of clients with a failure are looked at: mostly few.

    Args:
        table: columns start, begun and ended (s since any instant), failed, and those of ``client``.
        client: columns that identify a client and its request together, null or empty where one is not known; none:
            clients are not known.

    Returns:
        Boolean, ``again``.
    """
    if not client:
        return pl.Series("again", [None], pl.Boolean).new_from_index(0, len(table))
    is_complete = has_client(client)
    key = table.select(client).hash_rows()
    failures = key.filter(table.select(is_complete & pl.col("failed")).to_series())
    looked_at = key.is_in(failures.unique().implode()).arg_true()
    some = table.select(*client, "start", "begun", "ended", "failed")[looked_at]
    before, failed = (pl.col(name).shift(1).over(client, order_by=["start", "ended"]) for name in ("ended", "failed"))
    lately = (pl.col("begun") - before).is_between(-0.002, AGAIN)  # nginx's clock ticks in milliseconds
    again = np.zeros(len(table), np.bool_)
    again[looked_at.to_numpy()] = some.select((lately & failed).fill_null(False)).to_series().to_numpy()
    return table.select(again=pl.when(is_complete).then(pl.Series(again))).to_series()
