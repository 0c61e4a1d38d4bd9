"""How many connections wait in a listening socket's accept queue, asked of the kernel over netlink.

For a socket in LISTEN the kernel reports the queue's depth as `idiag_rqueue` and its limit, the
backlog after the kernel capped it, as `idiag_wqueue`. The queue may hold limit + 1 connections.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec

from sojourn_lab.errors import LabError

PERIOD = 0.25
"""Seconds between samples. A dump of a few listening sockets takes well under a millisecond."""

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x1 | 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_TCP_LISTEN = 10
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port id
_REQUEST = struct.Struct("=BBBBI48x")  # family, protocol, extensions, padding, states; any socket
_SOCKET = struct.Struct("=BBBB")  # family, state, timer, retransmissions; then the socket's id
_PORT_AT = 4  # the source port opens the socket's id, in network byte order
_QUEUES_AT = 4 + 48 + 4  # after the header, the id and `expires`: rqueue, wqueue


class Depth(NamedTuple):
    """Connections waiting in an accept queue, and how many the backlog allows."""

    depth: int
    limit: int


class ListenQueueError(LabError):
    """The kernel does not tell: not Linux, or netlink is not allowed here."""


def listen_depths() -> dict[int, Depth]:
    """Return the accept queue of every listening TCP socket over IPv4 in this network namespace, by port.

    Raises ListenQueueError with the reason where the kernel cannot be asked.
    """
    if not sys.platform.startswith("linux"):
        raise ListenQueueError(f"unavailable: accept queues are read over Linux netlink, not on {sys.platform}")
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(2.0)
            body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << _TCP_LISTEN)
            header = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, 1, 0)
            netlink.send(header + body)
            return _dumped_depths(netlink)
    except OSError as error:
        raise ListenQueueError(f"unavailable: sock_diag over netlink failed: {error}") from None


def _dumped_depths(netlink: socket.socket) -> dict[int, Depth]:
    depths: dict[int, Depth] = {}
    while True:
        answer = netlink.recv(65_536)
        offset = 0
        while offset + _HEADER.size <= len(answer):
            length, kind = _HEADER.unpack_from(answer, offset)[:2]
            if kind == _NLMSG_DONE:
                return depths
            body = offset + _HEADER.size
            if kind == _NLMSG_ERROR:
                code = struct.unpack_from("=i", answer, body)[0]
                raise OSError(-code, "the kernel refused the dump")
            (port,) = struct.unpack_from("!H", answer, body + _PORT_AT)
            rqueue, wqueue = struct.unpack_from("=II", answer, body + _QUEUES_AT)
            # Several sockets may share a port (other addresses, SO_REUSEPORT): keep the fullest.
            depths[port] = max(depths.get(port, Depth(-1, 0)), Depth(rqueue, wqueue))
            offset += (length + 3) & ~3


class ListenSampler:
    """A thread that writes the depth of some ports to a file of JSON lines, every `period` seconds.

    A line is `{"time": unix s, "socket": name, "port": n, "depth": n, "limit": n}`; where the kernel
    cannot be asked the file holds one line `{"unavailable": reason}`. With `keep` what is in the file
    stays; beyond `max_bytes` the file becomes `<name>.1`, in place of an older one, and a new one begins.
    """

    def __init__(
        self,
        path: Path,
        ports: dict[str, int],
        period: float = PERIOD,
        *,
        keep: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        self._path = path
        self._ports = ports
        self._period = period
        self._mode: Literal["ab", "wb"] = "ab" if keep else "wb"
        self._max_bytes = max_bytes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listen-sampler", daemon=True)
        self.unavailable: str | None = None
        self.last_seen = time.monotonic()
        """When one of the ports was there the last time, in monotonic seconds; the start, before that."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        out = self._path.open(self._mode)
        try:
            due = time.monotonic()
            while True:
                try:
                    depths = listen_depths()
                except ListenQueueError as error:
                    self.unavailable = str(error)
                    out.write(msgspec.json.encode({"unavailable": str(error)}) + b"\n")
                    return
                now = round(time.time(), 6)
                if not depths.keys().isdisjoint(self._ports.values()):
                    self.last_seen = time.monotonic()
                for name, port in self._ports.items():
                    if port in depths:
                        line = {"time": now, "socket": name, "port": port, **depths[port]._asdict()}
                        out.write(msgspec.json.encode(line) + b"\n")
                out.flush()
                if self._max_bytes is not None and out.tell() > self._max_bytes:
                    out.close()
                    self._path.replace(self._path.with_name(f"{self._path.name}.1"))
                    out = self._path.open("wb")
                due = max(due + self._period, time.monotonic())
                if self._end.wait(due - time.monotonic()):
                    return
        finally:
            out.close()
