"""Requests on the wire as the log has them: nginx writes URIs without their query, and the network of an address."""

from __future__ import annotations

import polars as pl

from sojourn.model.redaction import network_of, redacting

QUERY = r"(?s)[?#].*"


def without_query(path: pl.Expr) -> pl.Expr:
    """``/login?token=x`` as ``/login``."""
    return path.str.replace(QUERY, "")


def shown_path(path: pl.Expr) -> pl.Expr:
    """A path as results show it: without its query, unless ``SOJOURN_REDACT`` is ``off``."""
    return without_query(path) if redacting() else path


def as_logged(exchanges: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Exchanges with ``path`` and ``client`` (an address) as ``log`` (``uri``, ``remote_addr``) writes them.

    Paths lose their query where no record has one, and addresses all but the network where every record's is one. A log
    that keeps both is compared by both, which tells more requests apart.
    """
    if not log["uri"].str.contains(r"[?#]").any():
        exchanges = exchanges.with_columns(without_query(pl.col("path")).alias("path"))
    addresses = log["remote_addr"].drop_nulls().unique().to_list()
    if addresses and all(network_of(address) == address for address in addresses):
        seen = exchanges["client"].drop_nulls().unique().to_list()
        networks = {address: network_of(address) for address in seen}
        exchanges = exchanges.with_columns(pl.col("client").cast(pl.String).replace(networks))
    return exchanges
