"""Generate traffic through a proxy, for benchmarks and tests: every instant of it is known.

Requests arrive as a Poisson process over connections that are kept alive for a few; nginx opens a connection to a
backend for each, in turn; a backend's workers serve them first come, first served. Some SYNs to backends are dropped
and retransmitted a second later; some responses to clients are retransmitted. The clocks of all machines agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sojourn.model.arrays import Ints
from sojourn.queueing.replay import replay
from sojourn.queueing.sharing import replay_shared
from sojourn.queueing.speed_laws import SpeedLaw
from sojourn.queueing.system import System

from benchmarks.odd_lines import THOUSAND, kind_of, odd_line

EPOCH = 1_767_225_600 * 10**9  # ns
Flags = npt.NDArray[np.bool_]

MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9  # ns
PROXY, PROXY_PORT = "192.0.2.1", 80
BACKEND_PORT = 8000
CLIENTS = 16_384  # addresses; a port of each per connection
LIVE = 2_000  # connections that clients keep open


@dataclass(frozen=True)
class Settings:
    """The traffic to generate.

    Attributes:
        requests: number of requests.
        rate: requests per second.
        service: mean time in a worker, s, exponential.
        workers: per backend.
        backends: number of backends.
        cores: of each backend, which its services share; 0: services do not depend on the load.
        per_connection: requests per connection of a client, at most.
        dropped_syns: share of the connections to backends whose first SYN is dropped.
        repeated: share of the answers to clients that are sent twice.
        seed: of the random numbers.
    """

    requests: int = 50_000
    rate: float = 800.0
    service: float = 0.01
    workers: int = 5
    backends: int = 2
    cores: int = 0
    per_connection: int = 1
    dropped_syns: float = 0.002
    repeated: float = 0.005
    seed: int = 1


@dataclass(frozen=True)
class Traffic:
    """Instants in unix ns, one per request, in order of arrival; as seen at the proxy's machine.

    Attributes:
        settings: of the traffic.
        connection: of the client, from 0 in the order of first requests.
        number: which request on that connection, from 0.
        last: whether it is the last request on that connection.
        round_trip: ns, between the proxy and that client.
        request, answer: at the client's side.
        repeated: whether the response is retransmitted 200 ms later.
        backend: index of the backend, from 0.
        backend_port: the proxy's port of the connection to the backend.
        syn: to the backend.
        syn_dropped: whether this SYN is lost.
        syn_again: the SYN that is answered.
        established: the last packet of the handshake with the backend.
        app_start, app_end: of the work in the worker; app_start - established is the wait in the accept queue.
        worker: number of the worker.
        backend_answer: the backend's response, at the proxy.
        identity: 16 bytes of the request id.
    """

    settings: Settings
    connection: Ints
    number: Ints
    last: Flags
    round_trip: Ints
    request: Ints
    answer: Ints
    repeated: Flags
    backend: Ints
    backend_port: Ints
    syn: Ints
    syn_dropped: Flags
    syn_again: Ints
    established: Ints
    app_start: Ints
    app_end: Ints
    worker: Ints
    backend_answer: Ints
    identity: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.request)

    @property
    def connections(self) -> int:
        """Number of connections, of clients and to backends."""
        return int(self.connection.max(initial=-1)) + 1 + len(self)

    @property
    def stamp(self) -> Ints:
        """X-Request-Start in unix ms, the resolution of nginx's clock."""
        return (self.request + 140 * MICROSECOND) // MILLISECOND


def generate_traffic(settings: Settings = Settings()) -> Traffic:
    """Return the traffic of these settings; equal settings give equal traffic."""
    rng = np.random.default_rng(settings.seed)
    n = settings.requests
    request = EPOCH + SECOND + np.cumsum(rng.exponential(SECOND / settings.rate, n)).astype(np.int64)
    dropped = rng.random(n) < settings.dropped_syns
    syn = request + 150 * MICROSECOND
    again = syn + np.where(dropped, SECOND + rng.integers(0, 9, n) * MILLISECOND, 0)
    established = again + 115 * MICROSECOND
    backend = np.arange(n, dtype=np.int64) % settings.backends
    service = np.maximum(rng.exponential(settings.service, n) * SECOND, 10_000).astype(np.int64)
    order = np.argsort(established, kind="stable")
    pool = System((settings.workers,) * settings.backends, balancer="given")
    came = (established[order] - EPOCH) / SECOND
    destination = backend[order].astype(np.int32)
    if settings.cores:
        none = np.zeros(n)
        laws = (SpeedLaw(1.0, float(settings.cores)),) * settings.backends
        parts = none, service[order] / SECOND, none
        slowed = replay_shared(came, parts, pool, laws, resource=np.arange(settings.backends), backend=destination)
        replayed = slowed.outcome
        service[order] = np.round(slowed.lasted * SECOND).astype(np.int64)
    else:
        replayed = replay(came, service[order] / SECOND, pool, backend=destination)
    start, worker = np.empty(n, np.int64), np.empty(n, np.int64)
    start[order] = EPOCH + np.round(replayed.start * SECOND).astype(np.int64) + 90 * MICROSECOND
    worker[order] = 1000 + replayed.backend
    end = start + service
    backend_answer = end + 120 * MICROSECOND
    answer = backend_answer + 100 * MICROSECOND
    repeated = rng.random(n) < settings.repeated
    round_trip = (rng.exponential(10.0, n) * MILLISECOND).astype(np.int64) + 200 * MICROSECOND
    over = answer + 2 * round_trip + np.where(repeated, 200 * MILLISECOND, 0)
    connection, number, last = _connections(request, over, settings.per_connection)
    first = np.zeros(int(connection.max(initial=-1)) + 1, np.int64)
    first[connection[number == 0]] = np.flatnonzero(number == 0)
    return Traffic(
        settings, connection, number, last, round_trip[first[connection]], request, answer, repeated, backend,
        10_240 + np.arange(n) // settings.backends % 50_000, syn, dropped, again, established, start, end, worker,
        backend_answer, rng.integers(0, 256, (n, 16), np.uint8),
    )  # fmt: skip


def _connections(begins: Ints, over: Ints, per_connection: int) -> tuple[Ints, Ints, Flags]:
    """Return the connection of each request, its number on it, and whether it is the last.

    The n-th request reuses the connection of the request LIVE before it, if that had ended long enough before.
    """
    n = len(begins)
    live = max(min(LIVE, n // max(per_connection, 1)), 1)
    opened, number = np.ones(n, bool), np.zeros(n, np.int64)
    for at in range(live, n, live):
        now = slice(at, min(at + live, n))
        then = slice(at - live, now.stop - live)
        fits = (begins[now] > over[then] + 5 * MILLISECOND) & (number[then] + 1 < per_connection)
        opened[now] = ~fits
        number[now] = np.where(fits, number[then] + 1, 0)
    connection = np.cumsum(opened) - 1
    for at in range(live, n, live):
        now = slice(at, min(at + live, n))
        connection[now] = np.where(opened[now], connection[now], connection[at - live : now.stop - live])
    last = np.ones(n, bool)
    last[: n - live] = opened[live:]
    return connection, number, last


def path_of(request: int) -> str:
    """Return the path of the n-th request, of 18 characters."""
    return f"/r{request % 10}/items/{request:08d}"


def client_of(connection: int) -> tuple[str, int]:
    """Return address and port of a client's connection."""
    address = connection % CLIENTS
    return f"10.9.{address >> 8}.{address & 255}", 2048 + connection // CLIENTS % 60_000


def write_log(traffic: Traffic, path: Path, routes: int = 10, *, odd: bool = False) -> None:
    """Write nginx's log of the traffic, one JSON object a line, in order of the requests' ends.

    Args:
        traffic: the requests.
        path: of the log.
        routes: number of routes; every backend serves each.
        odd: whether some lines are odd, as in a real log (``odd_lines``), and routes of uneven popularity.
    """
    started = (traffic.request + 60 * MICROSECOND) // MILLISECOND
    ended = (traffic.answer + 80 * MICROSECOND) // MILLISECOND
    opened = traffic.syn // MILLISECOND
    columns = {
        "ended": ended,
        "response_time": ended - started,
        "stamp": traffic.stamp,
        "connect": (traffic.established + 20 * MICROSECOND) // MILLISECOND - opened,
        "header": (traffic.backend_answer + 20 * MICROSECOND) // MILLISECOND - opened,
        "delay": traffic.app_start - traffic.stamp * MILLISECOND,
        "service": traffic.app_end - traffic.app_start,
        "worker": traffic.worker,
        "backend": traffic.backend,
        "connection": traffic.connection,
        "number": traffic.number,
    }
    backends = traffic.settings.backends
    rng = np.random.default_rng(traffic.settings.seed)
    kinds = rng.integers(0, THOUSAND, len(traffic)) if odd else np.full(len(traffic), THOUSAND)
    even = np.arange(len(traffic)) // backends % routes
    route = (routes * rng.random(len(traffic)) ** 3).astype(np.int64) if odd else even
    with path.open("w", encoding="utf-8") as log:
        for request in np.argsort(traffic.answer, kind="stable").tolist():
            of = {name: int(values[request]) for name, values in columns.items()}
            upstream = f"{of['header'] / 1e3:.3f}"
            record = {
                "time": f"{of['ended'] / 1e3:.3f}", "request_id": traffic.identity[request].tobytes().hex(),
                "service": "shop", "route": f"/r{route[request]}", "method": "GET",
                "uri": path_of(request), "status": "200", "protocol": "HTTP/1.1", "host": "example.com",
                "remote_addr": client_of(of["connection"])[0], "bytes_sent": "360", "request_length": "120",
                "connection": str(of["connection"] + 1), "connection_requests": str(of["number"] + 1),
                "request_time": f"{of['response_time'] / 1e3:.3f}", "request_start": f"{of['stamp'] / 1e3:.3f}",
                "upstream_addr": f"10.1.0.{of['backend'] + 1}:{BACKEND_PORT}", "upstream_status": "200",
                "upstream_connect_time": f"{of['connect'] / 1e3:.3f}", "upstream_header_time": upstream,
                "upstream_response_time": upstream, "queueing_delay": f"{of['delay'] / 1e9:.6f}",
                "service_time": f"{of['service'] / 1e9:.6f}", "worker": str(of["worker"]),
            }  # fmt: skip
            log.write(odd_line(record, kind_of(int(kinds[request]))) + "\n")
