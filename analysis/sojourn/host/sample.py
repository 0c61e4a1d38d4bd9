"""One sample of the kernel: a line of ``kernel.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Backlogs = Mapping[int, int] | Mapping[int | str, int]
"""Port, or path of a Unix socket -> requested backlog."""
MOST = 1 << 32
"""Connections, requests in service or workers: the largest number of the kernel, and the largest that is believed."""
TOTAL = 1 << 62
"""Requests since a server's start: the largest number that is believed."""
LONGEST = 1e9
"""Seconds: the longest time that is believed."""


class Listener(msgspec.Struct, frozen=True, rename={"backlog_requested": "asked"}):  # codespell:ignore asked
    """A socket in LISTEN.

    Attributes:
        name: the user's name for it; by default address:port, or the path.
        address, port: of a Unix socket its path, or ``@name``, and 0.
        depth: connections in the accept queue.
        limit: the backlog in force; the queue holds one more than that.
        syn_recv: handshakes under way, those in the SYN queue; None: unknown. A Unix socket has none.
        backlog_requested: the backlog that the server requests; None: unknown.
    """

    name: str
    address: str
    port: int
    depth: int
    limit: int
    syn_recv: int | None = None
    backlog_requested: int | None = None


class Raindrops(msgspec.Struct, frozen=True):
    """An answer of raindrops' middleware: requests in the app (calling), answers being written, and its listeners.

    ``listeners``: address -> (active, queued) connections. ``seconds``: how long it took to answer.
    """

    calling: int | None
    writing: int | None
    listeners: dict[str, tuple[int, int]]
    seconds: float

    def is_possible(self) -> bool:
        """Return whether every figure can be."""
        counts = [
            self.calling or 0,
            self.writing or 0,
            *(number for pair in self.listeners.values() for number in pair),
        ]
        return 0 <= self.seconds < LONGEST and all(0 <= number < MOST for number in counts)


class WorkerQueue(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer of an application server about its workers and the queue before them.

    What waits, and from which event to which, depends on the kind: ``sojourn.host.servers.kinds``.

    Attributes:
        kind: of the server.
        seconds: how long it took to answer; None: there was no answer.
        reason: why there was none.
        waiting: requests or connections that wait for a worker; None: unknown.
        limit: how many the queue holds; None: unknown, or unlimited.
        busy: requests in service; None: unknown.
        workers: the requests that can be in service at once, by processes, threads or cores; None: unknown.
        limit_reached: how often the server counted, since its start, that it reached a limit of its own.
        requests: requests, or connections, that it counted since its start.
        instance: the process that answered, of a server whose processes answer for themselves.
        event_loop_delay_mean, event_loop_delay_p50, event_loop_delay_p99, event_loop_delay_max: delay of the event
            loop, s.
        event_loop_utilisation: share of the time in which the event loop was busy.
    """

    kind: str
    seconds: float | None = None
    reason: str | None = None
    waiting: int | None = None
    limit: int | None = None
    busy: int | None = None
    workers: int | None = None
    limit_reached: int | None = None
    requests: int | None = None
    instance: str = ""
    event_loop_delay_mean: float | None = None
    event_loop_delay_p50: float | None = None
    event_loop_delay_p99: float | None = None
    event_loop_delay_max: float | None = None
    event_loop_utilisation: float | None = None

    def is_possible(self) -> bool:
        """Return whether every figure can be."""
        counts = (self.waiting, self.limit, self.busy, self.workers)
        totals = (self.limit_reached, self.requests)
        seconds = (
            self.seconds, self.event_loop_delay_mean, self.event_loop_delay_p50, self.event_loop_delay_p99,
            self.event_loop_delay_max,
        )  # fmt: skip
        return (
            all(0 <= (number or 0) < MOST for number in counts)
            and all(0 <= (number or 0) < TOTAL for number in totals)
            and all(0 <= (value or 0.0) < LONGEST for value in seconds)
            and 0 <= (self.event_loop_utilisation or 0.0) <= 1
        )


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample.

    Attributes:
        time: unix s.
        sockets: the selected sockets.
        counters: of the network namespace, since it began: names of TcpExt in /proc/net/netstat.
        settings: sysctls in force, by their last name (somaxconn); in the first sample and where one has changed.
        raindrops: address of a raindrops endpoint, the servers of kind unicorn -> what it answered, or why it did not.
        servers: address of any other application server, without its secrets -> what it answered.
        unavailable: what could not be read, with the reason.
    """

    time: float
    sockets: list[Listener] = []
    counters: dict[str, int] = {}
    settings: dict[str, int] = {}
    raindrops: dict[str, Raindrops | str] = {}
    servers: dict[str, WorkerQueue] = {}
    unavailable: dict[str, str] = {}


COUNTERS = (
    "ListenOverflows",
    "ListenDrops",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
    "SyncookiesSent",
    "SyncookiesRecv",
    "SyncookiesFailed",
    "TCPSynRetrans",
    "TCPAbortOnMemory",
    "TCPBacklogDrop",
    "TCPDeferAcceptDrop",
)
"""Counters of TcpExt that are kept. ListenDrops include ListenOverflows: they must not be added."""

SETTINGS = (
    "net.core.somaxconn",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syn_linear_timeouts",
)
"""Sysctls that affect a connection before accept(); those a kernel does not have are left out."""
