"""Build the frames of connections and exchanges from the tracking tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from sojourn.analyses.wire.frames import CONNECTIONS, ENDS, EXCHANGES, PROTOCOLS, WIRE_INSTANT
from sojourn.analyses.wire.tracking.heads import gather
from sojourn.analyses.wire.tracking.states import (
    ABSENT,
    ANSWER_ALONE,
    HTTP,
    HTTP2,
    N_CONNECTIONS,
    N_EXCHANGES,
    NONE,
    TEXTS,
    TLS,
    UPGRADED,
    Tables,
)
from sojourn.readers.arrow import bitmap

Array = npt.NDArray[Any]


def _instants(values: Array) -> pl.Series:
    """Convert ns to instants, NONE to null."""
    series = pl.Series(np.ascontiguousarray(values))
    return series.set(series == NONE, None).cast(WIRE_INSTANT)


def _of_side(sides: Array, which: Array, name: str) -> Array:
    """Return a field of one side per connection; ``which``: 0 or 1 per connection."""
    return sides[name][2 * np.arange(len(which)) + which]


def connections_frame(tables: Tables, addresses: list[str]) -> pl.DataFrame:
    """Return one row per connection, of schema CONNECTIONS; ``addresses``: texts by number."""
    count = int(tables.counts[N_CONNECTIONS])
    records = tables.connections[:count]
    sides = tables.sides[: 2 * count]
    low_port, high_port = records["low"] & 0xFFFF, records["high"] & 0xFFFF
    # Where the client is unknown, the server has the lower port.
    client = np.where(records["client"] == ABSENT, np.where(low_port < high_port, 1, 0), records["client"]).astype(
        np.int64
    )
    ends = (
        np.where(client == 0, records["low"], records["high"]),
        np.where(client == 0, records["high"], records["low"]),
    )
    names = pl.Series(addresses, dtype=pl.String)
    columns: dict[str, Any] = {"connection": np.arange(count)}
    for role, end in zip(("client", "server"), ends, strict=True):
        columns[role] = names.gather(end >> 16)
        columns[f"{role}_port"] = end & 0xFFFF
    for name in ("first", "last", "syn", "syn_ack", "established", "ack_taken", "reset", "tls_ready"):
        columns[name] = _instants(records[name])
    columns["syn_answered"] = _instants(np.where(records["syn_ack"] == NONE, NONE, records["syn_answered"]))
    columns["tls_client_hello"] = _instants(records["client_hello"])
    columns["tls_server_hello"] = _instants(records["server_hello"])
    columns["syn_retransmissions"] = np.maximum(records["syns"] - 1, 0)
    columns["syn_ack_retransmissions"] = np.maximum(records["syn_acks"] - 1, 0)
    for name in ("acks_dropped", "acks_doubtful", "copies", "packets"):
        columns[name] = records[name]
    for role, which in (("client", client), ("server", 1 - client)):
        for name in ("retransmissions", "zero_windows", "bytes"):
            columns[f"{role}_{name}"] = _of_side(sides, which, name)
        for name in ("data", "fin"):
            columns[f"{role}_{name}"] = _instants(_of_side(sides, which, name))
    columns["exchanges"] = np.where(records["tls_http2"] == 1, 0, records["exchanges"])
    columns["gaps"] = _gaps(tables, sides).reshape(-1, 2).sum(axis=1)
    columns["end"] = pl.Series(_ends(records, sides, client), dtype=pl.Enum(ENDS))
    columns["protocol"] = pl.Series(_protocols(records, sides), dtype=pl.Enum(PROTOCOLS))
    return pl.DataFrame({name: pl.Series(columns[name]).cast(kind) for name, kind in CONNECTIONS.items()})


def _gaps(tables: Tables, sides: Array) -> Array:
    """Return per side how many parts of the payload are not in the capture."""
    gaps = sides["gaps"].astype(np.int64)
    at = sides["hole"].copy()
    while (held := at != ABSENT).any():
        gaps += held
        at[held] = tables.holes["next"][at[held]]
    # A FIN has a sequence number of its own, and may be missing, too.
    beyond = sides["acknowledged"] - sides["next"]
    return gaps + ((sides["begun"] == 1) & (beyond > 1))


def _ends(records: Array, sides: Array, client: Array) -> Array:
    """Return per connection how it ends, one of ENDS."""
    fins = sides["fin"].reshape(-1, 2)
    both_fin = (fins != NONE).all(axis=1)
    reset = records["reset"] != NONE
    of_server = _of_side(sides, 1 - client, "packets")
    early = (records["syn"] != NONE) & (records["syn_ack"] == NONE)
    by_client = records["reset_by"] == client
    kinds = [
        reset & early & ~by_client & (_of_side(sides, 1 - client, "begun") == 0),
        both_fin & (~reset | (fins.max(axis=1) <= records["reset"])),
        reset & by_client,
        reset,
        early & (of_server == 0),
    ]
    return np.select(kinds, ["refused", "fin", "reset_by_client", "reset_by_server", "unanswered"], "open")


def _protocols(records: Array, sides: Array) -> Array:
    """Return per connection its protocol, one of PROTOCOLS."""
    data = (sides["data"].reshape(-1, 2) != NONE).any(axis=1)
    protocol = records["protocol"]
    kinds = [protocol == HTTP, protocol == HTTP2, protocol == TLS, data]
    return np.select(kinds, ["http", "http2", "tls", "other"], "none")


def exchanges_frame(tables: Tables) -> pl.DataFrame:
    """Return one row per exchange, of schema EXCHANGES."""
    records = tables.exchanges[: int(tables.counts[N_EXCHANGES])]
    turns = tables.connections["tls_http2"][records["connection"]] == 1
    if turns.any():
        records = records[~turns]
    columns: dict[str, Any] = {"exchange": np.arange(len(records))}
    for name in ("connection", "number", "request_bytes", "response_bytes", "retransmissions"):
        columns[name] = np.ascontiguousarray(records[name])
    for name in ("request_first", "request_last", "response_first", "response_last"):
        columns[name] = _instants(records[name])
    status = pl.Series(np.ascontiguousarray(records["status"]))
    columns["status"] = status.set(status == 0, None)
    for k, name in enumerate(TEXTS):
        columns[name] = _texts(tables, records["text"][:, k], records["text_length"][:, k])
    for name in ("queueing_delay", "service_time"):
        columns[name] = columns[name].cast(pl.Float64, strict=False)
    return pl.DataFrame({name: pl.Series(columns[name]).cast(kind) for name, kind in EXCHANGES.items()})


def _texts(tables: Tables, starts: Array, lengths: Array) -> pl.Series:
    """Return values of heads, null where there is none; invalid UTF-8 becomes U+FFFD, as in logs."""
    there = starts != ABSENT
    sizes = np.where(there, lengths, 0).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    octets = np.empty(offsets[-1], np.uint8)
    gather(tables.texts, np.ascontiguousarray(starts), sizes, octets)
    buffers = [bitmap(there), pa.py_buffer(offsets), pa.py_buffer(octets)]
    raw = pl.Series(pl.from_arrow(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(starts), buffers)))
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:  # a value is not UTF-8
        return pl.Series(
            [None if value is None else value.decode("utf-8", "replace") for value in raw], dtype=pl.String
        )


def unparsed_counts(tables: Tables, connections: pl.DataFrame, exchanges: pl.DataFrame) -> dict[str, int]:
    """Return reason -> count of payload that gave no exchanges, or incomplete ones (``TrackingResult.unparsed``)."""
    records = tables.connections[: len(connections)]
    other = connections.get_column("protocol").to_numpy() == "other"
    http = records["protocol"][exchanges.get_column("connection").to_numpy()] == HTTP
    cut = exchanges.get_column("path").is_null().to_numpy() & http
    counts = {
        "http2": (records["protocol"] == HTTP2).sum(),
        "tls": ((records["protocol"] == TLS) & (records["tls_http2"] == 0)).sum(),
        "tls_http2": records["tls_http2"].sum(),
        "not_http": (other & (records["kept"] == 1)).sum(),
        "not_captured": (other & (records["kept"] == 0)).sum(),
        "upgraded": tables.counts[UPGRADED],
        "head_cut": cut.sum(),
        "answer_without_request": tables.counts[ANSWER_ALONE],
    }
    return {reason: int(count) for reason, count in counts.items() if count}
