"""One request to a local server as bytes, for paths that are no valid URL."""

from __future__ import annotations

import socket


def get(port: int, path: bytes) -> int:
    """Return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := client.recv(65536):
            answer += part
    return int(answer.split(b" ", 2)[1])
