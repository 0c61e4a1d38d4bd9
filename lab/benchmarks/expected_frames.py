"""The connections and exchanges of generated traffic, as a reader of its capture must reconstruct them."""

from __future__ import annotations

import numpy as np
import polars as pl
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.model.arrays import Ints

from benchmarks.capture_generator import ANSWER, BACKEND_ANSWER, BACKEND_REQUEST, REQUEST
from benchmarks.traffic_generator import BACKEND_PORT, CLIENTS, MICROSECOND, MILLISECOND, PROXY, PROXY_PORT, Traffic

BACKEND_COLUMNS = ("request_id", "stamp", "queueing_delay", "service_time", "worker")  # null on the client's side


def expected_tracked(traffic: Traffic) -> TrackingResult:
    """Return what ``track`` must return for the capture of this traffic."""
    legs = [_client_connections(traffic), _backend_connections(traffic)]
    connections = _in_order(pl.concat(legs), CONNECTIONS, "connection", "first")
    number_of = connections.select("leg", "owner", "connection")
    exchanges = pl.concat([_client_exchanges(traffic), _backend_exchanges(traffic)])
    exchanges = exchanges.join(number_of, on=["leg", "owner"], how="left", maintain_order="left")
    exchanges = _in_order(exchanges, EXCHANGES, "exchange", "request_first")
    return TrackingResult(connections.select(*CONNECTIONS), exchanges.select(*EXCHANGES), {})


def _in_order(frame: pl.DataFrame, schema: dict[str, pl.DataType], number: str, by: str) -> pl.DataFrame:
    numbered = frame.sort(by, maintain_order=True).drop(number, strict=False).with_row_index(number)
    return numbered.with_columns(
        pl.col(name).cast(dtype) if name in numbered.columns else pl.lit(None, dtype).alias(name)
        for name, dtype in schema.items()
    )


def _client_connections(traffic: Traffic) -> pl.DataFrame:
    first, us = np.flatnonzero(traffic.number == 0), MICROSECOND
    last = np.empty(len(first), np.int64)
    last[traffic.connection[traffic.last]] = np.flatnonzero(traffic.last)
    turns = traffic.number[last] + 1
    again = np.bincount(traffic.connection, traffic.repeated, len(first)).astype(np.int64)
    trip = traffic.round_trip[first]
    closed = traffic.answer[last] + trip + np.where(traffic.repeated[last], 200 * MILLISECOND, 0) + 100 * us
    established = traffic.request[first] - 50 * us
    number = np.arange(len(first))
    address = number % CLIENTS
    return pl.DataFrame({
        "leg": np.zeros(len(first), np.int8), "owner": number,
        "client": _address("10.9", address >> 8, address & 255), "client_port": 2048 + number // CLIENTS % 60_000,
        "server": pl.Series([PROXY]).new_from_index(0, len(first)), "server_port": np.full(len(first), PROXY_PORT),
        "first": established - trip - 20 * us, "last": closed + 30 * us + trip,
        "syn": established - trip - 20 * us, "syn_answered": established - trip - 20 * us,
        "syn_ack": established - trip, "established": established, "ack_taken": established,
        "syn_retransmissions": np.zeros(len(first), np.int64), "server_retransmissions": again,
        "client_bytes": turns * len(REQUEST), "server_bytes": turns * len(ANSWER), "packets": 6 + 4 * turns + again,
        "client_data": traffic.request[first], "server_data": traffic.answer[first],
        "client_fin": closed, "server_fin": closed + 30 * us, "exchanges": turns,
    }).with_columns(*_constants())  # fmt: skip


def _backend_connections(traffic: Traffic) -> pl.DataFrame:
    n, us = len(traffic), MICROSECOND
    answer, opened = traffic.backend_answer, traffic.syn_again
    dropped = traffic.syn_dropped.astype(np.int64)
    return pl.DataFrame({
        "leg": np.ones(n, np.int8), "owner": np.arange(n),
        "client": pl.Series([PROXY]).new_from_index(0, n), "client_port": traffic.backend_port,
        "server": _address("10.1", np.zeros(n, np.int64), traffic.backend + 1),
        "server_port": np.full(n, BACKEND_PORT), "first": traffic.syn, "last": answer + 160 * us, "syn": traffic.syn,
        "syn_answered": opened, "syn_ack": opened + 100 * us, "established": traffic.established,
        "ack_taken": traffic.established, "syn_retransmissions": dropped,
        "server_retransmissions": np.zeros(n, np.int64), "client_bytes": np.full(n, len(BACKEND_REQUEST)),
        "server_bytes": np.full(n, len(BACKEND_ANSWER)), "packets": 10 + dropped,
        "client_data": traffic.established + 25 * us, "server_data": answer, "client_fin": answer + 60 * us,
        "server_fin": answer + 40 * us, "exchanges": np.ones(n, np.int64),
    }).with_columns(*_constants())  # fmt: skip


def _constants() -> list[pl.Expr]:
    zeros = (
        "syn_ack_retransmissions", "acks_dropped", "acks_doubtful", "client_retransmissions", "client_zero_windows",
        "server_zero_windows", "gaps", "copies",
    )  # fmt: skip
    return [*(pl.lit(0).alias(name) for name in zeros), pl.lit("fin").alias("end"), pl.lit("http").alias("protocol")]


def _client_exchanges(traffic: Traffic) -> pl.DataFrame:
    sizes = len(REQUEST), len(ANSWER)
    return _exchanges(traffic, 0, traffic.connection, traffic.request, traffic.answer, sizes).with_columns(
        pl.Series("number", traffic.number + 1),
        pl.Series("retransmissions", traffic.repeated.astype(np.int64)),
    )


def _backend_exchanges(traffic: Traffic) -> pl.DataFrame:
    sent, sizes = traffic.established + 25 * MICROSECOND, (len(BACKEND_REQUEST), len(BACKEND_ANSWER))
    seconds = {
        "queueing_delay": traffic.app_start - traffic.stamp * MILLISECOND,
        "service_time": traffic.app_end - traffic.app_start,
    }
    stamp = pl.Series("stamp", traffic.stamp)
    return _exchanges(traffic, 1, np.arange(len(traffic)), sent, traffic.backend_answer, sizes).with_columns(
        pl.Series("request_id", [row.tobytes().hex() for row in traffic.identity]),
        pl.format("t={}.{}", stamp // 1000, (stamp % 1000).cast(pl.String).str.zfill(3)).alias("stamp"),
        *(pl.Series(name, ns // 1000 / 1e6) for name, ns in seconds.items()),
        pl.Series("worker", traffic.worker).cast(pl.String),
    )


def _exchanges(
    traffic: Traffic, leg: int, owner: Ints, request: Ints, response: Ints, sizes: tuple[int, int]
) -> pl.DataFrame:
    n = len(traffic)
    every = pl.Series("every", np.arange(n))
    return pl.DataFrame({
        "leg": np.full(n, leg, np.int8), "owner": owner, "number": np.ones(n, np.int64),
        "request_first": request, "request_last": request, "response_first": response, "response_last": response,
        "request_bytes": np.full(n, sizes[0]), "response_bytes": np.full(n, sizes[1]),
        "retransmissions": np.zeros(n, np.int64), "status": np.full(n, 200),
    }).with_columns(
        pl.lit("GET").alias("method"), pl.lit("example.com").alias("host"),
        pl.format("/r{}/items/{}", every % 10, every.cast(pl.String).str.zfill(8)).alias("path"),
        *(pl.lit(None, EXCHANGES[name]).alias(name) for name in BACKEND_COLUMNS),
    )  # fmt: skip


def _address(network: str, third: Ints, fourth: Ints) -> pl.Series:
    frame = pl.DataFrame({"third": third, "fourth": fourth})
    return frame.select(pl.format(network + ".{}.{}", "third", "fourth").alias("address"))["address"]
