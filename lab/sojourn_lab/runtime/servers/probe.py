"""Ask an app server for /ready, in its protocol."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from sojourn.host.servers.fastcgi import fastcgi_request

from sojourn_lab.runtime.servers.table import Protocol

LONGEST_ANSWER = 65_536


def ready(address: tuple[str, int] | Path, protocol: Protocol, script: Path, timeout: float) -> bool:
    """Return whether /ready is answered with 200 within `timeout` seconds; `script` is the PHP file of the app."""
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(address) if isinstance(address, Path) else address)
            connection.sendall(_REQUESTS[protocol](script))
            answer = b""
            while len(answer) < LONGEST_ANSWER and (piece := connection.recv(4096)):
                answer += piece
        except OSError:
            return False
    # A FastCGI answer of 200 has no Status line.
    return b"ready\n" in answer if protocol == "fastcgi" else answer.split(b" ", 2)[1:2] == [b"200"]


def _http(_script: Path) -> bytes:
    # Raw bytes: one socket and one reader serve three protocols, two of which no HTTP client knows.
    return b"GET /ready HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n"


def _uwsgi(_script: Path) -> bytes:
    """Return a packet of the uwsgi protocol: modifier 0, size, modifier 0, pairs of sized strings."""
    pairs = b"".join(struct.pack("<H", len(part)) + part.encode() for pair in _variables("").items() for part in pair)
    return struct.pack("<BHB", 0, len(pairs), 0) + pairs


def _fastcgi(script: Path) -> bytes:
    return fastcgi_request(_variables(str(script)))


def _variables(script: str) -> dict[str, str]:
    return {
        "REQUEST_METHOD": "GET",
        "SCRIPT_FILENAME": script,
        "REQUEST_URI": "/ready",
        "PATH_INFO": "/ready",
        "QUERY_STRING": "",
        "SERVER_NAME": "lab",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }


_REQUESTS = {"proxy": _http, "fastcgi": _fastcgi, "uwsgi": _uwsgi}
