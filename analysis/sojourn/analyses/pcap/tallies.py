"""Count connections by server, by their end, and by when a repeated SYN was answered."""

from __future__ import annotations

import polars as pl

from sojourn.analyses.pcap.frames import seconds_on_wire
from sojourn.analyses.pcap.vantage import AT_SERVER

STEP = 0.15  # s: largest distance of a repeated SYN from its whole second
SERVERS = {
    "server": pl.String(),
    "leg": pl.String(),
    "vantage": pl.String(),  # where its connections were captured; at the server only if all were
    "connections": pl.UInt32(),
    "syn_retransmissions": pl.Int64(),
    "syn_ack_retransmissions": pl.Int64(),
    "acks_dropped": pl.Int64(),
    "acks_doubtful": pl.Int64(),
    "refused": pl.UInt32(),
    "unanswered": pl.UInt32(),
    "reset_by_client": pl.UInt32(),
    "reset_by_server": pl.UInt32(),
    "zero_windows": pl.Int64(),
    "retransmissions": pl.Int64(),
    "handshake_p50": pl.Float64(),  # s
    "handshake_p99": pl.Float64(),
}
STEPS = {
    "leg": pl.String(),
    "step": pl.Float64(),  # s after the first SYN
    "answered": pl.Boolean(),  # at this step; False: the last SYN, unanswered
    "connections": pl.UInt32(),
    "retransmissions": pl.Int64(),
}


def servers(connections: pl.DataFrame) -> pl.DataFrame:
    """Return one row per server address, columns of ``SERVERS``, the busiest first."""
    shaken = seconds_on_wire("syn", "established")
    ends = ("refused", "unanswered", "reset_by_client", "reset_by_server")
    return (
        connections.group_by(server="endpoint", leg=pl.col("leg").cast(pl.String))
        .agg(
            pl.len().alias("connections"),
            pl.col("syn_retransmissions", "syn_ack_retransmissions", "acks_dropped", "acks_doubtful").sum(),
            *((pl.col("end") == end).sum().alias(end) for end in ends),
            # The clients of a server may be on its machine and elsewhere.
            vantage=pl.coalesce(pl.col("vantage").filter(~AT_SERVER).first(), pl.col("vantage").first()),
            zero_windows=(pl.col("client_zero_windows") + pl.col("server_zero_windows")).sum().cast(pl.Int64),
            retransmissions=(pl.col("client_retransmissions") + pl.col("server_retransmissions")).sum().cast(pl.Int64),
            handshake_p50=shaken.quantile(0.5, "linear"),
            handshake_p99=shaken.quantile(0.99, "linear"),
        )
        .select(*SERVERS)
        .cast(SERVERS)  # type: ignore[arg-type]
        .sort("connections", "server", descending=[True, False])
    )


def counts_of(table: pl.DataFrame, column: str) -> dict[str, int]:
    """Return value of the column -> number of rows, the most frequent first; empty without the column."""
    if column not in table.columns:
        return {}
    counts = table.group_by(pl.col(column).cast(pl.String)).len().sort("len", column, descending=[True, False])
    return {str(value): int(count) for value, count in counts.iter_rows()}


def syn_steps(connections: pl.DataFrame) -> pl.DataFrame:
    """Return when repeated SYNs were answered, or last sent: columns of ``STEPS``.

    A step near a whole second counts as that second; the kernel's timer runs a little late. The steps depend on the
    kernel: 1, 3, 7, 15 s; since Linux 6.5 by default 1, 2, 3, 4, 5, 7, 11 s (tcp_syn_linear_timeouts).
    """
    last = pl.coalesce("syn_answered", pl.when(pl.col("syn_ack").is_null()).then("last"))
    delay = seconds_on_wire("syn", last)
    whole = delay.round()
    near = pl.when((delay - whole).abs() <= STEP * pl.max_horizontal(whole, 1.0)).then(whole).otherwise(delay.round(1))
    return (
        connections.filter(pl.col("syn_retransmissions") > 0, pl.col("syn").is_not_null())
        .group_by(leg=pl.col("leg").cast(pl.String), step=near, answered=pl.col("syn_ack").is_not_null())
        .agg(connections=pl.len(), retransmissions=pl.col("syn_retransmissions").sum().cast(pl.Int64))
        .filter(pl.col("step").is_not_null())
        .select(*STEPS)
        .cast(STEPS)  # type: ignore[arg-type]
        .sort("leg", "step", "answered")
    )
