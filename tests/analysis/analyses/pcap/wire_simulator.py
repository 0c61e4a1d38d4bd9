"""Connections and exchanges as a capture of both sides of nginx gives them, the log of the requests, and the truth.

Waits are drawn, not queued: the test is whether the analysis measures them. nginx's clock is truncated to a
millisecond, the wire's is not; the app's clock may be off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.model.frame import INSTANT, SCHEMA

EPOCH = 1_767_225_600_000_000  # us
PROXY, PROXY_PORT = "10.0.0.1", 80
US = 1_000_000
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WireSettings:
    """How the requests are. Shares of requests, times in s."""

    requests: int = 2_000
    rate: float = 200.0  # connections of clients per second
    per_connection: int = 1  # requests on a connection of a client
    keepalive: int = 1  # requests on a connection to a backend
    backends: int = 2
    clients: int = 20  # addresses
    paths: int = 1_000
    wait: float = 0.05
    service: float = 0.02
    syn_dropped: float = 0.01  # share
    ack_dropped: float = 0.0
    retried: float = 0.0  # a first attempt at another backend fails after 0.1 s
    proxy_late: float = 0.0  # share of requests that nginx reads 30 ms late
    skew: float = 0.0  # the app's clock less nginx's
    capture_ahead: float = 0.0  # the capturing machine's clock less nginx's
    ids: bool = True
    stamps: bool = True
    answers: bool = True  # the app tells its delay and its service time
    tls: bool = False
    loopback: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Wire:
    """What was made: frames, log rows (canonical, in the order of their end), and one row of truth per log row.

    Truth: client_exchange, backend_exchange (of the last attempt), accept_wait, syn_dropped (s), first (of its
    connection to the backend).
    """

    tracked: TrackingResult
    rows: pl.DataFrame
    truth: pl.DataFrame
    backends: list[str]


def simulated_wire(settings: WireSettings = WireSettings()) -> Wire:
    """Requests through nginx."""
    rng = np.random.default_rng(settings.seed)
    n = settings.requests - settings.requests % settings.per_connection
    connections = n // settings.per_connection

    def us(mean: float) -> Ints:
        return np.round(rng.exponential(mean, n) * US).astype(np.int64)

    def trip() -> Ints:  # one way, us
        return rng.integers(20, 60, n)

    def seconds(later: Ints, earlier: Ints) -> Floats:
        return (later - earlier) / US

    wait = us(settings.wait)
    wait[rng.random(n) < 0.3] = 30  # a free worker
    service = us(settings.service) + 500
    dropped = rng.random(n) < settings.syn_dropped
    ack_dropped = (rng.random(n) < settings.ack_dropped) & ~dropped
    retried = rng.random(n) < settings.retried
    late = np.where(rng.random(n) < settings.proxy_late, 30_000, 0)
    fresh = np.arange(n) % settings.keepalive == 0
    dropped &= fresh
    ack_dropped &= fresh
    # Of each request, relative to the first byte of the client's: nginx turns to the app, and so on.
    built = late + rng.integers(80, 400, n)
    failed = np.where(retried, 100_000 + rng.integers(0, 500, n), 0)
    syn = built + failed + trip()
    syn_answered = syn + np.where(dropped, 1_000_000 + rng.integers(0, 3000, n), 0)
    syn_ack = syn_answered + trip()
    established = np.where(fresh, syn_ack + trip(), syn)
    ack_taken = established + np.where(ack_dropped, 1_000_000, 0)
    requested = established + rng.integers(5, 40, n)
    begun = np.where(ack_dropped, np.maximum(established + wait, ack_taken), established + wait)
    begun = np.maximum(begun, requested)
    answer = begun + service + trip()
    answered = answer + rng.integers(0, 300, n)
    client_answer = answer + rng.integers(30, 300, n)
    client_answered = np.maximum(answered + rng.integers(30, 300, n), client_answer)

    # When each request's first byte is sent: after the answer to the one before, on its connection.
    arrivals = EPOCH + np.cumsum(np.round(rng.exponential(1 / settings.rate, connections) * US).astype(np.int64))
    lasting = (client_answered + rng.integers(500, 20_000, n)).reshape(connections, settings.per_connection)
    offsets = np.concatenate([np.zeros((connections, 1), np.int64), np.cumsum(lasting, axis=1)[:, :-1]], axis=1)
    handshake = rng.integers(100, 400, connections)
    first = (arrivals[:, None] + handshake[:, None] + 50 + offsets).ravel()

    def at(relative: Ints) -> Ints:
        return first + relative

    def floored(instants: Ints) -> Ints:
        return instants // 1000 * 1000

    ahead = round(settings.capture_ahead * US)
    backend = rng.integers(0, settings.backends, n)
    if settings.keepalive > 1:
        backend = np.repeat(backend[:: settings.keepalive], settings.keepalive)[:n]
    hosts = (
        ["127.0.0.1"] * settings.backends
        if settings.loopback
        else [f"10.0.1.{k + 1}" for k in range(settings.backends)]
    )
    ports = [8001 + k if settings.loopback else 8080 for k in range(settings.backends)]
    names = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
    proxy = "127.0.0.1" if settings.loopback else PROXY
    clients = np.array(["127.0.0.1" if settings.loopback else f"10.9.0.{k}" for k in range(settings.clients)])
    client_of = rng.integers(0, settings.clients, connections)
    paths = np.array([f"/orders/{k}?q=1" for k in range(settings.paths)])[rng.integers(0, settings.paths, n)]
    ids = np.char.add("r", np.arange(n).astype(str))
    stamp = floored(at(built))
    owner = np.repeat(np.arange(connections), settings.per_connection)
    number = np.tile(np.arange(1, settings.per_connection + 1), connections)
    head = not settings.tls

    client_side = _frame(
        CONNECTIONS, connections,
        client=clients[client_of], client_port=20_000 + np.arange(connections) % 40_000,
        server=np.repeat(proxy, connections), server_port=np.full(connections, 443 if settings.tls else PROXY_PORT),
        first=arrivals, syn=arrivals, syn_answered=arrivals,
        syn_ack=arrivals + handshake // 2, established=arrivals + handshake, ack_taken=arrivals + handshake,
        last=at(client_answered)[settings.per_connection - 1 :: settings.per_connection], end="fin",
        protocol="tls" if settings.tls else "http", exchanges=np.full(connections, settings.per_connection),
    )  # fmt: skip
    client_exchanges = _frame(
        EXCHANGES, n,
        connection=owner, number=number, request_first=first, request_last=first,
        response_first=at(client_answer), response_last=at(client_answered), method="GET" if head else None,
        path=paths if head else None, status=200 if head else None,
    )  # fmt: skip
    back_first = np.flatnonzero(fresh)
    of = np.cumsum(fresh) - 1
    backend_side = _frame(
        CONNECTIONS, len(back_first),
        client=np.repeat(proxy, len(back_first)), client_port=30_000 + np.arange(len(back_first)) % 30_000,
        server=np.array(hosts)[backend[back_first]], server_port=np.array(ports)[backend[back_first]],
        **{
            name: at(instants)[back_first]
            for name, instants in {
                "first": syn, "syn": syn, "syn_answered": syn_answered, "syn_ack": syn_ack, "established": established,
                "ack_taken": ack_taken, "last": answered,
            }.items()
        },
        syn_retransmissions=dropped[back_first].astype(np.int64), end="fin", protocol="http",
        acks_dropped=ack_dropped[back_first].astype(np.int64), exchanges=np.bincount(of),
    )  # fmt: skip
    backend_exchanges = _frame(
        EXCHANGES, n,
        connection=of, number=np.arange(n) - back_first[of] + 1, request_first=at(requested),
        request_last=at(requested), response_first=at(answer), response_last=at(answered),
        method="GET", path=paths, status=200, request_id=ids if settings.ids else None,
        stamp=np.char.add("t=", [f"{t // US}.{t // 1000 % 1000:03d}" for t in stamp]) if settings.stamps else None,
        queueing_delay=(at(begun) + round(settings.skew * US) - stamp) / US if settings.answers else None,
        service_time=service / US if settings.answers else None,
    )  # fmt: skip
    again = np.flatnonzero(retried)
    retry_side = _frame(
        CONNECTIONS, len(again),
        client=np.repeat(proxy, len(again)), client_port=61_000 + np.arange(len(again)) % 4_000,
        server=np.array(hosts)[(backend[again] + 1) % settings.backends],
        server_port=np.array(ports)[(backend[again] + 1) % settings.backends],
        **{
            name: at(built + 40 + shift)[again]
            for name, shift in {
                "first": 0, "syn": 0, "syn_answered": 0, "syn_ack": 30, "established": 60, "ack_taken": 60,
            }.items()
        },
        last=at(built + failed)[again], end="fin", protocol="http", exchanges=np.ones(len(again), np.int64),
    )  # fmt: skip
    retry_exchanges = _frame(
        EXCHANGES, len(again),
        connection=np.arange(len(again)), number=np.ones(len(again), np.int64), request_first=at(built + 120)[again],
        request_last=at(built + 120)[again], method="GET", path=paths[again],
        request_id=ids[again] if settings.ids else None,
    )  # fmt: skip
    sides = [client_side, backend_side, retry_side]
    starts = np.cumsum([0, *(len(side) for side in sides)])[:-1]
    parts = [
        part.with_columns(pl.col("connection") + int(start))
        for part, start in zip((client_exchanges, backend_exchanges, retry_exchanges), starts, strict=True)
    ]
    wire_connections = pl.concat(sides).with_columns(connection=pl.int_range(pl.len()))
    exchanges = pl.concat(parts).with_columns(exchange=pl.int_range(pl.len()))
    shifted = pl.duration(nanoseconds=ahead * 1000, time_unit="ns")
    wire_connections = wire_connections.with_columns(pl.col(pl.Datetime) + shifted)
    exchanges = exchanges.with_columns(pl.col(pl.Datetime) + shifted)

    start, end = floored(first + late), floored(at(client_answered))
    turned = floored(at(built + failed))  # nginx's clock when it turns to the last attempt
    connect = seconds(floored(at(np.where(fresh, syn_ack, built + failed))), turned)
    header, response = seconds(floored(at(answer)), turned), seconds(floored(at(answered)), turned)
    upstream = np.array(names)[backend]
    other = np.array(names)[(backend + 1) % settings.backends]
    rows = _frame(
        SCHEMA, n,
        time=end, start=start, status=200, request_time=seconds(end, start), request_start=stamp, proxy_start=stamp,
        upstream=upstream, attempts=1 + retried.astype(np.int64),
        retries=np.where(retried, seconds(turned, stamp), 0.0),
        connect=connect, header=header, response=response, app_garbled=False,
        app_queueing_delay=(at(begun) + round(settings.skew * US) - stamp) / US if settings.answers else None,
        app_service_time=service / US if settings.answers else None,
        route="/orders/:id", proxy="edge", worker="1", request_id=ids, method="GET", uri=paths,
        remote_addr=clients[client_of][owner], connection=owner * 3 + 7, connection_requests=number,
        upstream_addr=np.where(retried, np.char.add(np.char.add(other, ", "), upstream), upstream),
    )  # fmt: skip
    truth = pl.DataFrame(
        {
            "client_exchange": np.arange(n), "backend_exchange": n + np.arange(n),
            "accept_wait": (begun - established) / US, "syn_dropped": (syn_answered - syn) / US, "first": fresh,
            "proxy_unread": late / US,
        }
    )  # fmt: skip
    order = pl.Series(np.argsort(end, kind="stable"))
    return Wire(TrackingResult(wire_connections, exchanges), rows[order], truth[order], names)


def _frame(schema: dict[str, pl.DataType], size: int, **columns: Any) -> pl.DataFrame:
    """A frame of a schema; instants in us, one value for all rows, or None. Missing counts are 0."""
    items = []
    for name, dtype in schema.items():
        value = columns.pop(name, 0 if dtype == pl.Int32() and schema is CONNECTIONS else None)
        if value is None or isinstance(value, str | bool | int):
            items.append(pl.Series(name, [value], dtype=dtype).new_from_index(0, size))
        elif isinstance(dtype, pl.Datetime):
            micros = pl.Series(name, np.asarray(value, np.int64), dtype=pl.Int64)
            items.append(micros.cast(INSTANT).cast(dtype))
        else:
            items.append(pl.Series(name, value).cast(dtype))
    assert not columns, columns
    return pl.DataFrame(items)
