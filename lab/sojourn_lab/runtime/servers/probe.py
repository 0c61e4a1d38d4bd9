"""Ask an app server for /ready in its protocol, or the user's own app for any path."""

from __future__ import annotations

import re
import socket
import struct
from pathlib import Path
from typing import Literal

from sojourn.host.servers.fastcgi import fastcgi_request

Protocol = Literal["proxy", "fastcgi", "uwsgi"]
Address = tuple[str, int] | Path
"""Host and port, or the path of a Unix socket."""
LONGEST_ANSWER = 65_536
STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})\b")
LONGEST_STATUS_LINE = len("HTTP/1.1 200")


def ready(address: Address, protocol: Protocol, script: Path, timeout: float) -> bool:
    """Return whether /ready is answered with 200 within `timeout` seconds; `script` is the PHP file of the app."""
    answer = _answer(address, _REQUESTS[protocol](script), timeout, LONGEST_ANSWER)
    if answer is None:
        return False
    # A FastCGI answer of 200 has no Status line.
    return b"ready\n" in answer if protocol == "fastcgi" else answer.split(b" ", 2)[1:2] == [b"200"]


def answered_status(address: Address, path: str, timeout: float) -> int | None:
    """Return the status of the answer to a GET of a path within `timeout` seconds; None without an answer of HTTP."""
    match = STATUS_LINE.match(_answer(address, _get(path), timeout, LONGEST_STATUS_LINE) or b"")
    return int(match[1]) if match else None


def accepts(address: Address, timeout: float = 1.0) -> bool:
    """Return whether a connection to the address is accepted (by the kernel: the app may still be busy)."""
    return _answer(address, b"", timeout, 0) is not None


def _answer(address: Address, request: bytes, timeout: float, longest: int) -> bytes | None:
    """Return up to `longest` bytes of the answer, or more of its last packet; None if the connection fails."""
    family = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(address) if isinstance(address, Path) else address)
            connection.sendall(request)
            answer = b""
            while len(answer) < longest and (piece := connection.recv(4096)):
                answer += piece
        except OSError:
            return None
    return answer


def _http(_script: Path) -> bytes:
    return _get("/ready")


def _get(path: str) -> bytes:
    # Raw bytes: one socket and one reader serve three protocols, two of which no HTTP client knows.
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


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
