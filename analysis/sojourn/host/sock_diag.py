"""Listening TCP sockets and handshakes under way, read from the kernel over netlink (sock_diag(7)).

For a socket in LISTEN the kernel reports the depth of its accept queue as ``idiag_rqueue`` and the limit, the backlog
after the kernel capped it by somaxconn, as ``idiag_wqueue``. The queue holds limit + 1 connections: a new one is
refused where the depth is *above* the limit (``sk_acceptq_is_full``). Handshakes under way are dumped one by one, as
sockets in SYN_RECV with the local address that they were sent to; ``handshakes`` assigns them to listening sockets.

No privileges are needed. The network namespace is that of the calling thread.
"""

from __future__ import annotations

import errno
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from sojourn.model.errors import KernelUnavailableError

FAMILIES = (socket.AF_INET, socket.AF_INET6)
TIMEOUT = 2.0  # s: for an answer of the kernel, or of ss

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST_DUMP = 0x1 | 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
TCP_LISTEN = 10  # the state, of Unix sockets, too
_TCP_SYN_RECV = 3
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port id
_REQUEST = struct.Struct("=BBBBI48x")  # family, protocol, extensions, padding, states; any socket
# A socket: family, state, timer, retransmissions; source and target port; source and target address; interface; cookie;
# expires; rqueue; wqueue. Ports and addresses are in network byte order.
_PORT = struct.Struct("!H")
_PORT_AT, _ADDRESS_AT, _COOKIE_AT, _QUEUES_AT = 4, 8, 44, 56
_COOKIE, _QUEUES = struct.Struct("=Q"), struct.Struct("=II")
_SIZE = _QUEUES_AT + _QUEUES.size
_LENGTHS: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}

_MAPPED = "::ffff:"  # an IPv4 address as an IPv6 socket sees it


class ListeningSocket(NamedTuple):
    """A socket in LISTEN: TCP, or a Unix socket, which has the port 0.

    ``depth``: connections in its accept queue; ``limit``: the backlog in force (the queue holds one more);
    ``cookie``: the kernel's number for this socket, 0 if unknown.
    """

    address: str
    port: int
    depth: int
    limit: int
    cookie: int = 0


Local = tuple[str, int]
"""A local address and port."""


def listening_sockets(families: Collection[int] = FAMILIES) -> list[ListeningSocket]:
    """Return every listening TCP socket of this network namespace, by port and address.

    Sockets that share a port (other addresses, SO_REUSEPORT) are each there.

    Raises:
        KernelUnavailableError: netlink is unavailable, with the reason.
    """
    sockets = {}
    for body in _dumped(TCP_LISTEN, families):
        depth, limit = _QUEUES.unpack_from(body, _QUEUES_AT)
        (cookie,) = _COOKIE.unpack_from(body, _COOKIE_AT)
        # A dump of many sockets comes in parts; one that comes twice is the same.
        sockets[cookie] = ListeningSocket(*_local(body), depth, limit, cookie)
    return sorted(sockets.values(), key=lambda each: (each.port, each.address, each.cookie))


def syn_recv_counts(families: Collection[int] = FAMILIES) -> dict[Local, int]:
    """Return the handshakes under way (SYN received, final ACK not yet) by local address and port.

    The kernel walks its whole table of connections for this: it costs more the larger the table is.

    Raises:
        KernelUnavailableError: netlink is unavailable, with the reason.
    """
    counts: dict[Local, int] = {}
    for body in _dumped(_TCP_SYN_RECV, families):
        local = _local(body)
        counts[local] = counts.get(local, 0) + 1
    return counts


def handshakes(sockets: Iterable[ListeningSocket], counts: dict[Local, int]) -> dict[Local, int]:
    """Return the handshakes under way by the address and port *listened on*: a wildcard has those of every address.

    Sockets that share address and port by SO_REUSEPORT share the figure, too: the kernel does not distinguish them.
    """
    under_way = {(each.address, each.port): 0 for each in sockets}
    for (address, port), count in counts.items():
        plain = address.removeprefix(_MAPPED)
        v4 = "." in plain
        wildcards = ("::", "*", "0.0.0.0") if address != plain else ("0.0.0.0", "*", "::") if v4 else ("::", "*")  # noqa: S104
        for candidate in (address, plain, *wildcards):
            if (candidate, port) in under_way:
                under_way[candidate, port] += count
                break
    return under_way


def _dumped(state: int, families: Collection[int]) -> Iterator[memoryview]:
    """Yield ``struct inet_diag_msg`` of each TCP socket in a state."""
    for family in families:
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << state)
        try:
            yield from (body for body in dumped(request) if len(body) >= _SIZE)
        except OSError as error:
            # A kernel without IPv6 has no such sockets.
            if family == socket.AF_INET6 and error.errno in (errno.ENOENT, errno.EAFNOSUPPORT):
                continue
            raise KernelUnavailableError(f"sock_diag over netlink failed: {error}") from None


def dumped(request: bytes) -> Iterator[memoryview]:
    """Yield the body of each message with which the kernel answers a request for a dump.

    Args:
        request: the body of the request; its first byte is the family of the sockets.

    Raises:
        KernelUnavailableError: this is not Linux.
        OSError: netlink is refused, or the kernel refuses the dump.
    """
    if not sys.platform.startswith("linux"):
        raise KernelUnavailableError(f"accept queues are read over Linux netlink, not on {sys.platform}")
    sequence = request[0]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(TIMEOUT)
        header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST_DUMP, sequence, 0)
        netlink.send(header + request)
        yield from _answered(netlink, sequence)


def _answered(netlink: socket.socket, sequence: int) -> Iterator[memoryview]:
    while True:
        answer = memoryview(netlink.recv(1 << 17))
        offset = 0
        while offset + _HEADER.size <= len(answer):
            length, kind, _, number, _ = _HEADER.unpack_from(answer, offset)
            if length < _HEADER.size:
                raise OSError(errno.EPROTO, "the kernel's answer is malformed")
            body = answer[offset + _HEADER.size : offset + length]
            offset += (length + 3) & ~3
            if number != sequence:
                continue
            if kind == _NLMSG_DONE:
                return
            if kind == _NLMSG_ERROR:
                (code,) = struct.unpack_from("=i", body)
                raise OSError(-code, "the kernel refused the dump")
            if kind == _SOCK_DIAG_BY_FAMILY:
                yield body


def _local(body: memoryview) -> Local:
    family = body[0]
    (port,) = _PORT.unpack_from(body, _PORT_AT)
    return socket.inet_ntop(family, body[_ADDRESS_AT : _ADDRESS_AT + _LENGTHS[family]]), port


_ENDPOINT = re.compile(r"\[?(?P<address>.*?)\]?(?:%[^:\]]*\]?)?:(?P<port>[0-9]{1,5})")
_COUNT = re.compile(r"[0-9]{1,10}")


def listening_sockets_of_ss(text: str) -> list[ListeningSocket]:
    """Return what ``ss -Htln`` printed, for where netlink is refused.

    Raises:
        KernelUnavailableError: no socket has a limit: the kernel refused them to ss, too.
    """
    sockets = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 4 or cells[0] != "LISTEN" or not all(map(_COUNT.fullmatch, cells[1:3])):
            continue
        if local := _ENDPOINT.fullmatch(cells[3]):
            sockets.append(ListeningSocket(local["address"], int(local["port"]), int(cells[1]), int(cells[2])))
    if sockets and not any(each.limit for each in sockets):
        raise KernelUnavailableError("ss does not print the limits of the queues either")
    return sorted(sockets, key=lambda each: (each.port, each.address))


def syn_recv_counts_of_ss(text: str) -> dict[Local, int]:
    """Return what ``ss -Htn state syn-recv`` printed, counted by local address and port."""
    counts: dict[Local, int] = {}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 4 and (local := _ENDPOINT.fullmatch(cells[2])):
            key = local["address"], int(local["port"])
            counts[key] = counts.get(key, 0) + 1
    return counts


def ss_output(*arguments: str) -> str:
    """Return what ``ss`` prints.

    Raises:
        KernelUnavailableError: it is not installed, failed or took too long.
    """
    command = shutil.which("ss") or shutil.which("ss", path="/usr/sbin:/sbin")
    if command is None:
        raise KernelUnavailableError("ss is not installed")
    try:
        done = subprocess.run([command, *arguments], capture_output=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelUnavailableError(f"ss could not be run: {error}") from None
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise KernelUnavailableError(f"ss failed: {reason[0] if reason else f'exit {done.returncode}'}")
    return done.stdout.decode(errors="replace")
