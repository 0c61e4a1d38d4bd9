"""Build one row per request from both sides of the proxy and the log."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from sojourn.analyses.pcap.bounds import with_app_instants, with_queues
from sojourn.analyses.pcap.frames import TIMELINE
from sojourn.analyses.pcap.legs import address_and_port, of_connections, upstreams, with_legs
from sojourn.analyses.pcap.log_join import TOLERANCE, backend_join, client_join, log_table, sides_join
from sojourn.analyses.pcap.result import PROXY_COLUMNS, Joined
from sojourn.analyses.pcap.stamps import duration, stamp_us
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.analyses.pcap.vantage import AT_SERVER, with_vantage
from sojourn.model.redaction import network_of, redacting

HANDSHAKE = ("syn", "syn_answered", "syn_ack", "established", "ack_taken")
REQUEST = ("request_first", "request_last", "response_first", "response_last")
COLUMNS = {**TIMELINE, **PROXY_COLUMNS}
# Columns for the joins.
JOINED = (
    "exchange", "connection", "number", "leg", "endpoint", "client", "complete", "request_id", "method", "path",
    "stamp_us", "begun", "arrived", "request_ended", "answered", "ended",
)  # fmt: skip


@dataclass(frozen=True)
class Timelines:
    """Requests on the wire.

    Attributes:
        frame: columns of TIMELINE and of PROXY_COLUMNS, in the order of time.
        connections: columns of CONNECTIONS, ``leg``, ``endpoint`` (the server's address:port) and ``vantage``.
        exchanges: columns of EXCHANGES, ``leg`` and ``endpoint``.
        joined: how the log was joined.
        log: the log's columns for the joins, ``log_row`` being the position; None without a log.
    """

    frame: pl.DataFrame
    connections: pl.DataFrame
    exchanges: pl.DataFrame
    joined: Joined
    log: pl.DataFrame | None


def timeline(
    tracking: TrackingResult,
    rows: pl.LazyFrame | None = None,
    *,
    backends: Collection[str] = (),
    tolerance: float = TOLERANCE,
) -> Timelines:
    """Join connections and exchanges into requests.

    Args:
        tracking: connections and exchanges.
        rows: split rows (``SplitResult.rows``), or canonical rows, which lack the app's start. None: no log.
        backends: address:port (or :port) of backends, in addition to those in the log.
        tolerance: largest difference between nginx's times and those on the wire, s.
    """
    log = None if rows is None else log_table(rows)
    addresses = set(backends) | (upstreams(log) if log is not None else set())
    connections, exchanges = with_legs(tracking.connections, tracking.exchanges, addresses, log=log is not None)
    connections = with_vantage(connections)
    wire = _wire(connections, exchanges)
    # An address on an unknown side is shown as a backend: it was connected to and answered.
    lone = not (wire["leg"] == "backend").any() and log is None
    slim = wire.select(JOINED)
    backend = slim.filter((pl.col("leg") == "backend") | ((pl.col("leg") == "unknown") & lone))
    client = slim.filter(pl.col("leg") == "client" if lone else pl.col("leg") != "backend")
    if log is None:
        pairs, joined = _without_log(client, backend, tolerance), Joined()
        ahead = 0.0
    else:
        pairs, joined = _with_log(client, backend, log, connections, tolerance)
        ahead = joined.clock_offset or 0.0
    frame = _frame(pairs, wire, log, ahead)
    without = frame.filter(pl.col("accept_wait_upper").is_not_null() & pl.col("_service").is_null()).height
    both = frame.filter(pl.col("client_exchange").is_not_null() & pl.col("backend_exchange").is_not_null()).height
    joined = Joined(joined.log, joined.by, joined.unjoined, both, without, joined.clock_offset)
    return Timelines(frame.select(*COLUMNS), connections, exchanges, joined, log)


def _wire(connections: pl.DataFrame, exchanges: pl.DataFrame) -> pl.DataFrame:
    """Return exchanges with their connection's columns, and instants as ns for the joins."""
    endpoints = connections.select(
        "connection", "client", client_endpoint=address_and_port("client", "client_port"),
        complete=pl.col("syn").is_not_null(), at_server=AT_SERVER, **{name: pl.col(name) for name in HANDSHAKE},
    )  # fmt: skip
    first = pl.col("number") == 1
    wire = of_connections(exchanges, endpoints).with_columns(
        # The handshake belongs to the first request of its connection.
        pl.when(first).then(pl.col(name)).alias(name)
        for name in HANDSHAKE
    )
    ns = {name: pl.col(name).dt.epoch("ns") for name in (*HANDSHAKE, *REQUEST)}
    return wire.with_columns(
        begun=pl.coalesce(ns["syn"], ns["request_first"]),
        arrived=ns["request_first"],
        request_ended=ns["request_last"],
        answered=ns["response_first"],
        ended=ns["response_last"],
        stamp_us=stamp_us(wire["stamp"]),
    )


def _without_log(client: pl.DataFrame, backend: pl.DataFrame, tolerance: float) -> pl.DataFrame:
    """Return columns client_exchange, backend_exchange, attempts, log_row, joined_by."""
    last = backend.filter(
        pl.col("request_id").is_null() | (pl.col("begun") == pl.col("begun").max().over("request_id"))
    )
    attempts = (
        backend.filter(pl.col("request_id").is_not_null())
        .group_by("request_id").agg(attempts=pl.len().cast(pl.Int32))
    )  # fmt: skip
    last = last.unique(["request_id", "exchange"]).join(attempts, on="request_id", how="left").with_columns(
        pl.col("attempts").fill_null(1)
    ).sort("exchange")  # fmt: skip
    pairs = sides_join(client.with_columns(begun="arrived"), last, tolerance).rename({"exchange": "client_exchange"})
    both = last.select("attempts", backend_exchange="exchange").join(pairs, on="backend_exchange", how="left")
    lone = client.select(client_exchange="exchange").join(pairs, on="client_exchange", how="anti")
    return pl.concat([both, lone], how="diagonal").with_columns(
        log_row=pl.lit(None, pl.Int64), joined_by=pl.lit("none")
    )


def _with_log(
    client: pl.DataFrame, backend: pl.DataFrame, log: pl.DataFrame, connections: pl.DataFrame, tolerance: float
) -> tuple[pl.DataFrame, Joined]:
    client, backend = as_logged(client, log), as_logged(backend, log)
    at_backend = backend_join(backend, log, tolerance)
    offset = at_backend.clock_offset or 0.0
    backend_times = (
        at_backend.attempts.filter(pl.col("attempts") == 1)
        .join(backend.select("exchange", "begun", "answered"), on="exchange")
        .select("log_row", "begun", "answered")
    )
    at_client, ambiguous = client_join(client.with_columns(begun="arrived"), log, backend_times, offset, tolerance)
    back = at_backend.attempts.rename({"exchange": "backend_exchange", "by": "back_by"})
    front = at_client.rename({"exchange": "client_exchange", "by": "front_by"})
    joined = back.join(front, on="log_row", how="full", coalesce=True).with_columns(
        joined_by=pl.when((pl.col("back_by") == "request_id") | (pl.col("front_by") == "request_id"))
        .then(pl.lit("request_id")).otherwise(pl.lit("tuple"))
    )  # fmt: skip
    done = pl.concat([at_backend.others, at_backend.attempts["exchange"]])
    rest_back = backend.join(done.to_frame(), on="exchange", how="anti")
    rest_front = client.join(front, left_on="exchange", right_on="client_exchange", how="anti")
    rest = _without_log(rest_front, rest_back, tolerance)
    pairs = pl.concat([joined.drop("back_by", "front_by"), rest], how="diagonal_relaxed")
    unsure = pl.concat([at_backend.ambiguous, ambiguous]).unique()
    unjoined = _unjoined(log, joined, unsure, client, backend, connections, round(offset * 1e9), round(tolerance * 1e9))
    by = {str(name): int(count) for name, count in joined.group_by("joined_by").len().sort("joined_by").iter_rows()}
    return pairs, Joined(sum(by.values()) + sum(unjoined.values()), by, unjoined, clock_offset=at_backend.clock_offset)


def without_query(path: pl.Expr) -> pl.Expr:
    """Return a path without its query and fragment: ``/login?token=x`` as ``/login``."""
    return path.str.replace(r"(?s)[?#].*", "")


def as_logged(exchanges: pl.DataFrame, log: pl.DataFrame) -> pl.DataFrame:
    """Return exchanges with ``path`` and ``client`` (an address) in the form of the log's ``uri`` and ``remote_addr``.

    Paths lose their query if no record has one; addresses become networks if every record has a network. A log that
    contains both is compared by both, which distinguishes more requests.
    """
    if not log["uri"].str.contains(r"[?#]").any():
        exchanges = exchanges.with_columns(without_query(pl.col("path")).alias("path"))
    addresses = log["remote_addr"].drop_nulls().unique().to_list()
    if addresses and all(network_of(address) == address for address in addresses):
        clients = exchanges["client"].drop_nulls().unique().to_list()
        networks = {address: network_of(address) for address in clients}
        exchanges = exchanges.with_columns(pl.col("client").cast(pl.String).replace(networks))
    return exchanges


def _unjoined(
    log: pl.DataFrame,
    joined: pl.DataFrame,
    ambiguous: pl.Series,
    client: pl.DataFrame,
    backend: pl.DataFrame,
    connections: pl.DataFrame,
    offset: int,
    slack: int,
) -> dict[str, int]:
    """Return reason -> count of records within the capture's time that could be in it and were not joined."""
    if not len(connections):
        return {}
    first, last = connections.select(pl.col("first").min().dt.epoch("ns"), pl.col("last").max().dt.epoch("ns")).row(0)
    within = (pl.col("start_ns") + offset >= first + slack) & (pl.col("time_ns") + offset <= last - slack)
    missed = log.filter(within).join(joined, on="log_row", how="anti")
    captured = backend["endpoint"].unique().to_list()
    parts = pl.col("upstream_addr").str.replace_all(" : ", ", ", literal=True).str.split(", ")
    at_captured = parts.list.eval(pl.element().is_in(captured)).list.any().fill_null(value=False)
    # A capture of the backends' side alone lacks answers by nginx itself, and those over a Unix socket.
    missed = missed.filter(pl.lit(bool(len(client))) | at_captured)
    unsure = missed["log_row"].is_in(ambiguous.implode())
    counts = {"ambiguous": int(unsure.sum()), "not_found": int((~unsure).sum())}
    return {reason: count for reason, count in counts.items() if count}


def _frame(pairs: pl.DataFrame, wire: pl.DataFrame, log: pl.DataFrame | None, ahead: float) -> pl.DataFrame:
    """Return the columns of TIMELINE and PROXY_COLUMNS, and ``_service``."""
    needed = ("client_exchange", "backend_exchange", "attempts", "log_row")
    pairs = pairs.with_columns(pl.lit(None, pl.Int64).alias(name) for name in needed if name not in pairs.columns)
    text = ("method", "path", "status", "request_id")
    front = wire.select(
        client_exchange="exchange", client="client_endpoint",
        client_syn="syn", client_syn_answered="syn_answered", client_syn_ack="syn_ack",
        client_established="established", client_ack_taken="ack_taken", client_at_server="at_server",
        **{name: pl.col(name) for name in REQUEST},
        **{f"front_{name}": pl.col(name) for name in text},
    )  # fmt: skip
    back = wire.select(
        backend_exchange="exchange", backend="endpoint", proxy="client_endpoint", stamp_us="stamp_us",
        queueing_delay=duration("queueing_delay"), wire_service=duration("service_time"),
        backend_at_server="at_server",
        **{f"backend_{name}": pl.col(name) for name in (*HANDSHAKE, *REQUEST)},
        **{f"back_{name}": pl.col(name) for name in text},
    )  # fmt: skip
    frame = pairs.join(front, on="client_exchange", how="left", maintain_order="left").join(
        back, on="backend_exchange", how="left", maintain_order="left"
    )
    names = (
        "request_id", "method", "uri", "status", "start_ns", "proxy_start_ns", "app_start", "app_service",
        "clock_offset",
    )  # fmt: skip
    if log is None:
        frame = frame.with_columns(pl.lit(None).alias(f"log_{name}") for name in names)
    else:
        logged = log.select("log_row", **{f"log_{name}": pl.col(name) for name in names})
        frame = frame.join(logged, on="log_row", how="left", maintain_order="left")
    path = pl.coalesce("front_path", "log_uri", "back_path")
    frame = frame.with_columns(
        request_id=pl.coalesce("back_request_id", "front_request_id", "log_request_id"),
        method=pl.coalesce("front_method", "log_method", "back_method"),
        path=without_query(path) if redacting() else path,
        status=pl.coalesce("front_status", "log_status", "back_status").cast(pl.Int16),
        attempts=pl.when(pl.col("backend_exchange").is_not_null()).then("attempts").otherwise(0),
    )
    frame = with_queues(with_app_instants(frame, ahead), ahead)
    frame = frame.select("_service", *(pl.col(name).cast(dtype) for name, dtype in COLUMNS.items()))
    return frame.sort(pl.min_horizontal("client_syn", "request_first", "backend_syn", "backend_request_first"))
