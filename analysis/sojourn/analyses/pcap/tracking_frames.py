"""Build the frames of connections and exchanges from the tracking tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.analyses.pcap.frames import CONNECTIONS, ENDS, EXCHANGES, PROTOCOLS, WIRE_INSTANT
from sojourn.analyses.pcap.tracking.heads import gather
from sojourn.analyses.pcap.tracking.states import (
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
from sojourn.readers.arrow import octets, series

Array = npt.NDArray[Any]

IN_CACHE = 1 << 11
"""Records whose fields are copied while the processor's cache holds them."""

CONNECTION_FIELDS = (
    "low", "high", "client", "protocol", "reset_by", "tls_http2", "first", "last", "syn", "syn_answered", "syn_ack",
    "established", "ack_taken", "reset", "client_hello", "server_hello", "tls_ready", "syns", "syn_acks",
    "acks_dropped", "acks_doubtful", "copies", "packets", "exchanges",
)  # fmt: skip
SIDE_FIELDS = (
    "begun", "next", "acknowledged", "fin", "data", "bytes", "retransmissions", "zero_windows", "gaps", "hole",
    "packets",
)  # fmt: skip
EXCHANGE_FIELDS = (
    "connection", "request_first", "request_last", "response_first", "response_last", "request_bytes",
    "response_bytes", "number", "retransmissions", "status", "text", "text_length",
)  # fmt: skip


def _columns(records: Array, *names: str) -> dict[str, Array]:
    """Return fields of records as arrays of their own, each with its entries side by side."""
    columns = {name: np.empty((len(records), *records.dtype[name].shape), records.dtype[name].base) for name in names}
    for begin in range(0, len(records), IN_CACHE):  # else every field would fetch all records from memory
        block = records[begin : begin + IN_CACHE]
        for name, column in columns.items():
            column[begin : begin + IN_CACHE] = block[name]
    return columns


def _instants(values: Array) -> pl.Series:
    """Convert ns to instants, NONE to null."""
    return series(values, values == NONE).cast(WIRE_INSTANT)


def _of_side(values: Array, which: Array) -> Array:
    """Return the value of one side per connection; ``which``: 0 or 1 per connection."""
    return np.where(which == 0, values[::2], values[1::2])


def connections_frame(tables: Tables, addresses: list[str]) -> pl.DataFrame:
    """Return one row per connection, of schema CONNECTIONS; ``addresses``: texts by number."""
    count = int(tables.counts[N_CONNECTIONS])
    records = _columns(tables.connections[:count], *CONNECTION_FIELDS)
    sides = _columns(tables.sides[: 2 * count], *SIDE_FIELDS)
    low, high = records["low"], records["high"]
    # Where the client is unknown, the server has the lower port.
    by_port = (low & 0xFFFF) < (high & 0xFFFF)
    client = np.where(records["client"] == ABSENT, by_port, records["client"])
    ends = np.where(client == 0, low, high), np.where(client == 0, high, low)
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
            columns[f"{role}_{name}"] = _of_side(sides[name], which)
        for name in ("data", "fin"):
            columns[f"{role}_{name}"] = _instants(_of_side(sides[name], which))
    columns["exchanges"] = np.where(records["tls_http2"] == 1, 0, records["exchanges"])
    gaps = _gaps(tables, sides)
    columns["gaps"] = gaps[::2] + gaps[1::2]
    columns["end"] = _ends(records, sides, client)
    columns["protocol"] = _protocols(records, sides)
    return _frame(columns, CONNECTIONS)


def _frame(columns: dict[str, Any], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    """Return the columns in the order and the types of a schema."""
    arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
    columns = {**columns, **{name: series(column) for name, column in arrays.items()}}
    return pl.DataFrame({name: columns[name].cast(kind) for name, kind in schema.items()})


def _gaps(tables: Tables, sides: dict[str, Array]) -> Array:
    """Return per side how many parts of the payload are not in the capture."""
    gaps = sides["gaps"].astype(np.int64)
    at = sides["hole"].copy()
    while (linked := at != ABSENT).any():
        gaps += linked
        at[linked] = tables.holes["next"][at[linked]]
    # A FIN has a sequence number of its own, and may be missing, too.
    beyond = sides["acknowledged"] - sides["next"]
    return gaps + ((sides["begun"] == 1) & (beyond > 1))


def _ends(records: dict[str, Array], sides: dict[str, Array], client: Array) -> pl.Series:
    """Return per connection how it ends, one of ENDS."""
    fins = sides["fin"][::2], sides["fin"][1::2]
    both_fin = (fins[0] != NONE) & (fins[1] != NONE)
    reset = records["reset"] != NONE
    silent, unbegun = _of_side(sides["packets"], 1 - client) == 0, _of_side(sides["begun"], 1 - client) == 0
    early = (records["syn"] != NONE) & (records["syn_ack"] == NONE)
    by_client = records["reset_by"] == client
    return _first_kind(
        ENDS,
        {
            "refused": reset & early & ~by_client & unbegun,
            "fin": both_fin & (~reset | (np.maximum(*fins) <= records["reset"])),
            "reset_by_client": reset & by_client,
            "reset_by_server": reset,
            "unanswered": early & silent,
        },
        "open",
    )


def _protocols(records: dict[str, Array], sides: dict[str, Array]) -> pl.Series:
    """Return per connection its protocol, one of PROTOCOLS."""
    data = (sides["data"][::2] != NONE) | (sides["data"][1::2] != NONE)
    protocol = records["protocol"]
    kinds = {"http": protocol == HTTP, "http2": protocol == HTTP2, "tls": protocol == TLS, "other": data}
    return _first_kind(PROTOCOLS, kinds, "none")


def _first_kind(names: Sequence[str], kinds: dict[str, Array], otherwise: str) -> pl.Series:
    """Return the name of the first kind that holds, per row, of an enumeration of ``names``."""
    places = [names.index(name) for name in kinds]
    place = np.select(list(kinds.values()), places, names.index(otherwise))
    return pl.Series(names, dtype=pl.Enum(names)).gather(place)


def exchanges_frame(tables: Tables) -> pl.DataFrame:
    """Return one row per exchange, of schema EXCHANGES."""
    records = _columns(tables.exchanges[: int(tables.counts[N_EXCHANGES])], *EXCHANGE_FIELDS)
    turns = tables.connections["tls_http2"][records["connection"]] == 1
    if turns.any():
        records = {name: column[~turns] for name, column in records.items()}
    columns: dict[str, Any] = {"exchange": np.arange(len(records["connection"]))}
    for name in ("connection", "number", "request_bytes", "response_bytes", "retransmissions"):
        columns[name] = records[name]
    for name in ("request_first", "request_last", "response_first", "response_last"):
        columns[name] = _instants(records[name])
    columns["status"] = series(records["status"], records["status"] == 0)
    for k, name in enumerate(TEXTS):
        columns[name] = _texts(tables, records["text"][:, k], records["text_length"][:, k])
    for name in ("queueing_delay", "service_time"):
        columns[name] = columns[name].cast(pl.Float64, strict=False)
    return _frame(columns, EXCHANGES)


def _texts(tables: Tables, starts: Array, lengths: Array) -> pl.Series:
    """Return values of heads, null where there is none; invalid UTF-8 becomes U+FFFD, as in logs."""
    null = starts == ABSENT
    sizes = np.where(null, 0, lengths).astype(np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(offsets[-1], np.uint8)
    gather(tables.texts, np.ascontiguousarray(starts), sizes, data)
    raw = octets(offsets, data, null)
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
        "not_http": (other & (records["has_payload"] == 1)).sum(),
        "not_captured": (other & (records["has_payload"] == 0)).sum(),
        "upgraded": tables.counts[UPGRADED],
        "head_cut": cut.sum(),
        "answer_without_request": tables.counts[ANSWER_ALONE],
    }
    return {reason: int(count) for reason, count in counts.items() if count}
