"""A connection that ends by a deadline and yields a bounded number of bytes; requests over HTTP and without it."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from http import HTTPStatus
from typing import Any

from sojourn.host.servers.address import HTTP_PORTS, Address
from sojourn.model.formatting import address_and_port

LARGEST = 4 << 20
"""Bytes of a whole answer. uWSGI's hold the variables of each request in service."""


class Connection:
    """A stream socket.

    Args:
        address: where to connect.
        seconds: until the connection, all requests and answers on it have to be complete.

    Raises:
        OSError: there is no connection; every other method raises it, too; TimeoutError after ``seconds``.
    """

    def __init__(self, address: Address, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._left = LARGEST
        self._socket = self._connected(address)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sendall(self, data: bytes) -> None:
        """Send all bytes."""
        self._socket.settimeout(self._remaining())
        self._socket.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        """Receive bytes; 0: the server ended the stream.

        Raises:
            ValueError: the answers are larger than ``LARGEST``.
        """
        self._socket.settimeout(self._remaining())
        count = self._socket.recv_into(buffer)
        self._left -= count
        if self._left < 0:
            raise ValueError(f"the answer is larger than {LARGEST >> 20} MiB")
        return count

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        """Return the stream of received bytes, for ``http.client`` and for reads of a given size."""
        return io.BufferedReader(_Received(self))

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _remaining(self) -> float:
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def _connected(self, address: Address) -> socket.socket:
        if address.socket is None:
            connected = socket.create_connection((address.host, address.port), timeout=self._remaining())
        else:
            connected = socket.socket(socket.AF_UNIX)
        try:
            if address.socket is not None:
                connected.settimeout(self._remaining())
                connected.connect(address.socket.replace("@", "\0", 1) if address.socket[0] == "@" else address.socket)
            if address.scheme == "https":
                context = ssl.create_default_context()
                connected = context.wrap_socket(connected, server_hostname=address.host)
        except BaseException:
            connected.close()
            raise
        return connected


class _Received(io.RawIOBase):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.recv_into(buffer)


def http_text(address: Address, target: str, seconds: float) -> str:
    """Return the body of the response to ``GET target``. Redirects are not followed.

    Raises:
        OSError, http.client.HTTPException: there is none.
        ValueError: the status is not 200, or the response is too large.
    """
    host = f"[{address.host}]" if ":" in address.host else address.host
    usual = address.port == HTTP_PORTS.get(address.scheme, 80)
    headers = {
        "Host": host if usual else address_and_port(address.host, address.port),
        "User-Agent": "sojourn",
        "Accept": "application/json, text/plain;q=0.9, */*;q=0.1",
        "Connection": "close",
    }
    if address.authorization is not None:
        headers["Authorization"] = address.authorization
    request = f"GET {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with Connection(address, seconds) as connection:
        connection.sendall(f"{request}\r\n".encode("ascii"))
        response = http.client.HTTPResponse(connection, method="GET")  # type: ignore[arg-type]  # it needs makefile()
        response.begin()
        body = response.read()
    if response.status != HTTPStatus.OK:
        raise ValueError(f"it answered {response.status}")
    return body.decode(errors="replace")


def stream_text(address: Address, seconds: float) -> str:
    """Return what a server sends to each connection.

    Raises:
        OSError, ValueError: there is no answer, or it is too large.
    """
    with Connection(address, seconds) as connection, connection.makefile() as received:
        return received.read().decode(errors="replace")
