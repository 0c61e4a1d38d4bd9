"""One sample of the kernel: a line of ``kernel.jsonl``."""

from __future__ import annotations

import msgspec


class Listener(msgspec.Struct, frozen=True, rename={"backlog_requested": "asked"}):  # codespell:ignore asked
    """A socket in LISTEN.

    Attributes:
        name: the user's name for it; address:port by default.
        depth: connections in the accept queue. limit: the backlog in force; the queue holds one more than that.
        syn_recv: handshakes under way, those in the SYN queue; None: unknown.
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


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample.

    Attributes:
        time: unix s.
        sockets: the selected sockets.
        counters: of the network namespace, since it began: names of TcpExt in /proc/net/netstat.
        settings: sysctls in force, by their last name (somaxconn); in the first sample and where one has changed.
        raindrops: address of a raindrops endpoint -> what it answered, or why it did not.
        unavailable: what could not be read, with the reason.
    """

    time: float
    sockets: list[Listener] = []
    counters: dict[str, int] = {}
    settings: dict[str, int] = {}
    raindrops: dict[str, Raindrops | str] = {}
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
