"""Parse one HTTP/1.x request from the bytes of a connection, and build its WSGI environment.

h11 parses the same head in 106 µs instead of 18 (CPython 3.11). That work delays every arrival, for one thread accepts
and reads all of them, and would be measured as queueing; h11 is no dependency of the lab either.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

LONGEST_HEAD = 65_536
LONGEST_BODY = 1 << 24
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadRequestError(Exception):
    """A request that is refused; `status` is the response's status with its reason phrase."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True)
class Head:
    """The request line and the headers; repeated headers are joined by a comma."""

    method: str
    target: str
    protocol: str
    headers: dict[str, str]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


def head_in(received: bytes | bytearray) -> tuple[Head, int, int] | None:
    """Return (head, offset of the body, length of the body); None while the head is incomplete.

    Raises BadRequestError for what is no request, is too large, or has a body of unknown length.
    """
    end = received.find(b"\r\n\r\n")
    if end < 0 or end > LONGEST_HEAD:
        if len(received) > LONGEST_HEAD:
            raise BadRequestError("431 Request Header Fields Too Large")
        return None
    first, *lines = bytes(received[:end]).decode("latin-1").lstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadRequestError("400 Bad Request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise BadRequestError("400 Bad Request")
        key = name.lower()
        headers[key] = f"{headers[key]},{value.strip()}" if key in headers else value.strip()
    return Head(words[0], words[1], words[2], headers), end + 4, _body_length(headers)


def _body_length(headers: dict[str, str]) -> int:
    # nginx has the whole body before it asks, and sends its length. Guessing where a body ends is how requests are
    # smuggled, so every other kind is refused.
    if "transfer-encoding" in headers:
        raise BadRequestError("411 Length Required")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdecimal()):
        raise BadRequestError("400 Bad Request")
    if len(text) > 18 or int(text) > LONGEST_BODY:
        raise BadRequestError("413 Content Too Large")
    return int(text)


def environ_of(head: Head, body: bytes, *, server: tuple[str, int], client: str) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333) of a request."""
    path, _, query = head.target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": head.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "SERVER_PROTOCOL": head.protocol,
        "REMOTE_ADDR": client,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in head.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    return environ
