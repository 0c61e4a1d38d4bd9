"""Send one request through each changed location, and find its line in the log."""

from __future__ import annotations

import json
import os
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sojourn.doctor.nginx_levels import Level
from sojourn.install.targets import Target

PATIENCE_S = 10.0
LOG_PATIENCE_S = 5.0
_MOST_BYTES = 1 << 20
_BETWEEN_LOOKS_S = 0.02
# Long enough that no other request has the same length by chance: it identifies the request where no URI is logged.
_LEAST_PADDING, _MOST_PADDING = 2_000, 7_000
# HTTP/2 (RFC 9113): frame types, flags; HPACK (RFC 7541): indexes of the static table.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _HEADERS, _END_STREAM, _END_HEADERS, _ACK = 0x4, 0x1, 0x1, 0x4, 0x1
_GET_METHOD, _HTTP_SCHEME, _AUTHORITY, _PATH = 2, 6, 1, 4


@dataclass(frozen=True)
class Trial:
    """A request that was sent, and what the log has of it.

    Attributes:
        target: the request.
        line: its line in the log; None without one.
        error: why the request failed; None if it was answered.
        stamped: whether the log has to have its stamp if it went to an app.
    """

    target: Target
    line: dict[str, Any] | None
    error: str | None
    stamped: bool = True

    @property
    def failure(self) -> str | None:
        """Return what is wrong: no answer, no line, or no stamp although the request went to an app; or None."""
        if self.line is None:
            return self.error or f"the log has no line of it within {LOG_PATIENCE_S:.0f} s"
        if self.stamped and self.line.get("upstream_addr") and not self.line.get("request_start"):
            return "its line in the log has no request_start"
        return None


def tried(targets: Sequence[Target], log: str, unstamped: Sequence[Level] = ()) -> list[Trial]:
    """Send the requests one after another, and return what the log has of each.

    Args:
        targets: the requests.
        log: the log, in Sojourn's format.
        unstamped: locations whose requests need no stamp in the log.
    """
    return [replace(_tried(each, log), stamped=each.level not in unstamped) for each in targets]


def _tried(target: Target, log: str) -> Trial:
    begin = os.path.getsize(log) if os.path.exists(log) else 0
    request = _http2_request(target) if target.http2 else _request(target)
    error = None
    try:
        _exchange(target, request)
    except TimeoutError:
        error = f"no answer within {PATIENCE_S:.0f} s"
    except OSError as failure:
        error = failure.strerror or str(failure)
    length = None if target.http2 else len(request) - len(_proxy_header(target))
    deadline = time.monotonic() + (0.5 if error else LOG_PATIENCE_S)
    while True:
        for line in _lines(log, begin):
            if _is_of(line, target, length):
                return Trial(target, line, error)
        if time.monotonic() > deadline:
            return Trial(target, None, error)
        time.sleep(_BETWEEN_LOOKS_S)


def _is_of(line: dict[str, Any], target: Target, length: int | None) -> bool:
    """Return whether a line is of a request: by its path, if it is logged, and by its length, which is random."""
    if length is not None and line.get("request_length") != str(length):
        return False
    return line.get("uri") == target.path or (length is not None and not line.get("uri"))


def _lines(log: str, begin: int) -> Iterator[dict[str, Any]]:
    with suppress(OSError), Path(log).open("rb") as file:
        file.seek(begin)
        for raw in file.read(_MOST_BYTES).splitlines():
            with suppress(ValueError):
                line = json.loads(raw.decode("utf-8", "replace"))
                if isinstance(line, dict):
                    yield line


def _proxy_header(target: Target) -> bytes:
    return b"PROXY TCP4 127.0.0.1 127.0.0.1 1024 80\r\n" if target.proxy_protocol else b""


def _request(target: Target) -> bytes:
    padding = "x" * (_LEAST_PADDING + secrets.randbelow(_MOST_PADDING - _LEAST_PADDING))
    return _proxy_header(target) + (
        f"GET {target.path} HTTP/1.1\r\nHost: {target.host}\r\nUser-Agent: sojourn-install\r\n"
        f"X-Padding: {padding}\r\nConnection: close\r\n\r\n"
    ).encode("utf-8", "surrogateescape")


def _exchange(target: Target, request: bytes) -> None:
    """Send a request and read its answer to the end, or a million bytes of it.

    Raises:
        OSError: there was no answer.
    """
    deadline = time.monotonic() + PATIENCE_S
    with closing(_connected(target, request)) as connection:
        received = 0
        while received < _MOST_BYTES:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            part = connection.recv(65_536)
            received += len(part)
            if target.http2 and _ends_stream(part):
                return
            if not part:
                break
        if not received:
            raise OSError("the connection was closed without an answer")


def _connected(target: Target, request: bytes) -> socket.socket:
    """Connect, in TLS without verifying the certificate where the server expects it, and send the request."""
    connection: socket.socket
    if isinstance(target.address, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        connection.connect(target.address)
    else:
        connection = socket.create_connection(target.address, PATIENCE_S)
    head = _proxy_header(target)
    if target.tls:
        connection.sendall(head)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        connection = context.wrap_socket(connection, server_hostname=target.host)
        request = request.removeprefix(head)
    connection.sendall(request)
    return connection


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _http2_request(target: Target) -> bytes:
    def named(index: int, value: str) -> bytes:
        raw = value.encode("utf-8", "surrogateescape")[:126]
        return bytes([index, len(raw)]) + raw  # a literal without indexing, without Huffman's code

    headers = (
        bytes([0x80 | _GET_METHOD, 0x80 | _HTTP_SCHEME]) + named(_AUTHORITY, target.host) + named(_PATH, target.path)
    )
    te = b"\x00\x02te\x08trailers"
    return (
        _proxy_header(target)
        + _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_SETTINGS, _ACK, 0, b"")
        + _frame(_HEADERS, _END_STREAM | _END_HEADERS, 1, headers + te)
    )


def _ends_stream(part: bytes) -> bool:
    """Return whether a part begins with frames of which one ends stream 1."""
    while len(part) >= 9:
        length, flags, stream = int.from_bytes(part[:3], "big"), part[4], int.from_bytes(part[5:9], "big")
        if stream == 1 and part[3] in (0x0, _HEADERS, 0x3) and (flags & _END_STREAM or part[3] == 0x3):
            return True
        part = part[9 + length :]
    return False
