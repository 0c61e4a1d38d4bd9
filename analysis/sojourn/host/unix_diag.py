"""Listening Unix sockets, read from the kernel over netlink (sock_diag(7), AF_UNIX).

For a socket in LISTEN the kernel reports the connections that wait for accept() and the backlog in force, as it does
for TCP: the queue holds limit + 1 connections (``unix_recvq_full``). A connect() that meets a full queue waits until
there is room; of a non-blocking client it fails at once, with EAGAIN. The kernel counts neither. net.core.somaxconn
caps the backlog of Unix sockets, too.

The sockets are those of the network namespace in which they were created; a path is the one that the server gave to
bind(), relative to the working and root directory of that time.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator

from sojourn.host.sock_diag import TCP_LISTEN, ListeningSocket, dumped
from sojourn.model.errors import KernelUnavailableError

# family, protocol, padding, states, inode, what to show, cookie (none)
_REQUEST = struct.Struct("=BBHIIIII")
_SHOW_NAME, _SHOW_QUEUES = 0x1, 0x10
_COOKIE = struct.Struct("=8xQ")  # family, type, state, padding, inode; cookie
_ATTRIBUTE = struct.Struct("=HH")  # length with this header, type
_NAME, _QUEUE_LENGTHS = 0, 4
_QUEUES = struct.Struct("=II")

_SS_LINE = re.compile(r"u_\S+\s+LISTEN\s+([0-9]{1,10})\s+([0-9]{1,10})\s+(\S.*?)\s+[0-9]+\s+\*\s+[0-9]+\s*")


def listening_unix_sockets() -> list[ListeningSocket]:
    """Return every listening Unix socket of this network namespace, by path; ``port`` is 0.

    ``address``: the path, or ``@name`` of an abstract socket.

    Raises:
        KernelUnavailableError: netlink is unavailable, or the kernel lacks unix_diag, with the reason.
    """
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << TCP_LISTEN, 0, _SHOW_NAME | _SHOW_QUEUES, 2**32 - 1, 2**32 - 1)
    sockets = {}
    try:
        for body in dumped(request):
            attributes = dict(_attributes(body))
            name, queues = attributes.get(_NAME), attributes.get(_QUEUE_LENGTHS)
            if name and queues is not None and len(queues) >= _QUEUES.size:
                depth, limit = _QUEUES.unpack_from(queues)
                (cookie,) = _COOKIE.unpack_from(body)
                sockets[cookie] = ListeningSocket(_address(bytes(name)), 0, depth, limit, cookie)
    except OSError as error:
        raise KernelUnavailableError(f"sock_diag over netlink failed for Unix sockets: {error}") from None
    return sorted(sockets.values(), key=lambda each: (each.address, each.cookie))


def listening_unix_sockets_of_ss(text: str) -> list[ListeningSocket]:
    """Return what ``ss -Hxln`` printed, for where netlink is refused.

    Raises:
        KernelUnavailableError: no socket has a limit: ss read /proc/net/unix, which has none.
    """
    matches = (_SS_LINE.fullmatch(line) for line in text.splitlines())
    sockets = [ListeningSocket(match[3], 0, int(match[1]), int(match[2])) for match in matches if match]
    if sockets and not any(each.limit for each in sockets):
        raise KernelUnavailableError("ss does not print the limits of the queues either")
    return sorted(sockets, key=lambda each: each.address)


def unix_address(path: str) -> str:
    """Return the address under which a path, or ``@name``, is reported: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _address(name: bytes) -> str:
    # An abstract name begins with NUL and may hold more of them; ss prints @ for each.
    plain = name.replace(b"\0", b"@") if name.startswith(b"\0") else name.rstrip(b"\0")
    return plain.decode(errors="backslashreplace")


def _attributes(body: memoryview) -> Iterator[tuple[int, memoryview]]:
    offset = _COOKIE.size
    while offset + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind, body[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3
