"""A generator that may send from few ports only: what a NAT gateway with few ports for a destination is to a client.

The socket option IP_LOCAL_PORT_RANGE (Linux 6.3 and later) sets the ports of a connection, and
the kernel refuses with EADDRNOTAVAIL when all of them are in use. On an older kernel one port after the other is tried
instead, by bind: that it refuses all of them comes to the same.

These sockets are reset when they are closed, so that a port is free as soon as its answer was read. The side that
closes first would otherwise keep it in TIME_WAIT, now the client and now the server, for an unknown long a port is
held.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sojourn_lab.errors import LabError

SocketFactory = Callable[[Any], socket.socket]

IP_LOCAL_PORT_RANGE = 51
"""From linux/in.h; Python has no name for it yet. Its value: the highest port << 16 | the lowest."""

USUAL_RANGE = (32_768, 60_999)
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def ephemeral_range() -> tuple[int, int]:
    """Return the lowest and the highest port that the kernel assigns to connections."""
    try:
        low, high = _RANGE_FILE.read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return USUAL_RANGE


def free_block(count: int, start_from: int) -> range:
    """Return `count` neighbouring ports of the ephemeral range that are free at this moment.

    Blocks are looked at from one that `start_from` picks, so that two generators begin at different ones. OSError
    (EADDRNOTAVAIL) where there is none. A port that is bound later is one less to send from.
    """
    low, high = ephemeral_range()
    blocks = (high + 1 - low) // count
    for step in range(blocks):
        first = low + (start_from + step) % blocks * count
        if all(_is_free(port) for port in range(first, first + count)):
            return range(first, first + count)
    raise OSError(errno.EADDRNOTAVAIL, f"no {count} neighbouring ports are free from {low} to {high}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def kernel_bounds_ports() -> bool:
    """Return whether the kernel supports IP_LOCAL_PORT_RANGE."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, _packed(range(*USUAL_RANGE)))
        except OSError:
            return False
    return sys.platform.startswith("linux")


def _packed(ports: range) -> bytes:
    return struct.pack("=I", ports[-1] << 16 | ports[0])


def _reset_when_closed(address: Sequence[Any]) -> socket.socket:
    """Return a socket for an address of `getaddrinfo` that is reset when closed."""
    sock = socket.socket(address[0], address[1], address[2])
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


def bounded_sockets(ports: range) -> SocketFactory:
    """Return a factory of sockets that the kernel connects from these ports only."""

    def factory(address: Sequence[Any]) -> socket.socket:
        sock = _reset_when_closed(address)
        try:
            sock.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, _packed(ports))
        except OSError:
            sock.close()
            raise
        return sock

    return factory


def bound_sockets(ports: range) -> SocketFactory:
    """Return a factory of sockets bound to one of these ports before they connect; OSError if none is free."""

    def factory(address: Sequence[Any]) -> socket.socket:
        for port in ports:
            sock = _reset_when_closed(address)
            try:
                sock.bind(("", port))
            except OSError:
                sock.close()
            else:
                return sock
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))

    return factory


def few_ports(count: int) -> SocketFactory:
    """Return a socket factory (as aiohttp takes it) for connections from `count` local ports, apart from others'.

    Raises LabError if that many neighbouring ports are not free.
    """
    try:
        ports = free_block(count, os.getpid())
    except OSError as error:
        raise LabError(f"it cannot have {count} local ports: {error.strerror}") from None
    return bounded_sockets(ports) if kernel_bounds_ports() else bound_sockets(ports)
