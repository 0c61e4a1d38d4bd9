"""Redact requests on the wire as the log is redacted: URIs without their query, addresses as their network."""

from __future__ import annotations

import polars as pl

from sojourn.model.redaction import network_of, redacting

QUERY = r"(?s)[?#].*"


def without_query(path: pl.Expr) -> pl.Expr:
    """Return a path without its query and fragment: ``/login?token=x`` as ``/login``."""
    return path.str.replace(QUERY, "")


def shown_path(path: pl.Expr) -> pl.Expr:
    """Return a path for display: without its query, unless ``SOJOURN_REDACT`` is ``off``."""
    return without_query(path) if redacting() else path


def as_logged(exchanges: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return exchanges with ``path`` and ``client`` (an address) in the form of the log's ``uri`` and ``remote_addr``.

    Paths lose their query if no record has one; addresses become networks if every record has a network. A log that
    contains both is compared by both, which distinguishes more requests.
    """
    if not log["uri"].str.contains(r"[?#]").any():
        exchanges = exchanges.with_columns(without_query(pl.col("path")).alias("path"))
    addresses = log["remote_addr"].drop_nulls().unique().to_list()
    if addresses and all(network_of(address) == address for address in addresses):
        seen = exchanges["client"].drop_nulls().unique().to_list()
        networks = {address: network_of(address) for address in seen}
        exchanges = exchanges.with_columns(pl.col("client").cast(pl.String).replace(networks))
    return exchanges
