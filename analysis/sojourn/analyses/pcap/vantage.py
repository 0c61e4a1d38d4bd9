"""Determine per server address where the capture was taken: at the server, at the client, or between them.

A machine answers a SYN, and a SYN-ACK, within some tens of microseconds; a longer time includes the round trip to the
other machine. At the server the SYN-ACK follows the SYN at once and the ACK comes a round trip later; at the client the
reverse is true. On the loopback, and between two programs with one address, the capture is at both ends.
"""

from __future__ import annotations

import ipaddress

import polars as pl

from sojourn.analyses.pcap.frames import VANTAGES, seconds_on_wire

VANTAGE = pl.Enum(VANTAGES)
APART = 4.0  # the round trip takes this many times longer than the answer of the capturing machine
AT_ONCE = 1e-3  # s: the longest median time in which the capturing machine answers a packet

AT_SERVER = pl.col("vantage").cast(pl.String).is_in(["server", "both"])
"""Whether the capture was taken where the connection's queues are."""


def with_vantage(connections: pl.DataFrame) -> pl.DataFrame:
    """Add ``vantage`` to connections with ``endpoint``; only at the server does a repeated SYN-ACK prove a dropped ACK.

    Without the proof ``acks_dropped`` is 0 (its count is added to ``acks_doubtful``) and ``ack_taken`` is
    ``established``.
    """
    clean = (pl.col("syn_retransmissions") == 0) & (pl.col("syn_ack_retransmissions") == 0)
    server = pl.when(clean).then(seconds_on_wire("syn", "syn_ack")).median()
    client = pl.when(clean).then(seconds_on_wire("syn_ack", "established")).median()
    measured = connections.group_by("endpoint").agg(_server=server, _client=client)
    near = [name for name in connections["server"].unique().to_list() if is_loopback(name)]
    alone = pl.col("server").is_in(near) | (pl.col("server") == pl.col("client"))
    at_server = (pl.col("_server") <= AT_ONCE) & (pl.col("_client") > APART * pl.col("_server"))
    at_client = (pl.col("_client") <= AT_ONCE) & (pl.col("_server") > APART * pl.col("_client"))
    near_one = pl.when(at_server).then(pl.lit("server")).when(at_client).then(pl.lit("client"))
    where = pl.when(alone).then(pl.lit("both")).otherwise(near_one.otherwise(pl.lit("unknown")))
    connections = connections.join(measured, on="endpoint", how="left", maintain_order="left")
    connections = connections.with_columns(vantage=where.cast(VANTAGE)).drop("_server", "_client")
    return connections.with_columns(
        acks_dropped=pl.when(AT_SERVER).then("acks_dropped").otherwise(0).cast(pl.Int32),
        acks_doubtful=pl.col("acks_doubtful") + pl.when(AT_SERVER).then(0).otherwise(pl.col("acks_dropped")),
        ack_taken=pl.when(AT_SERVER).then("ack_taken").otherwise("established"),
    )


def is_loopback(address: str) -> bool:
    """Return whether a text is a loopback address; False if it is not an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
