"""One GET request over FastCGI 1.0 (M. R. Brown, FastCGI Specification, 1996), as nginx's fastcgi_pass sends it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import BinaryIO

from sojourn.host.servers.address import Address
from sojourn.host.servers.connection import Connection

_HEADER = struct.Struct("!BBHHBx")  # version, type, request id, content length, padding length, reserved
_VERSION, _REQUEST = 1, 1
_BEGIN, _END, _PARAMETERS, _INPUT, _OUTPUT = 1, 3, 4, 5, 6
_ROLE = struct.Struct("!HB5x")  # role, flags
_RESPONDER, _KEEP = 1, 1
_SHORT = 128  # a longer name or value has a length of four bytes, with the highest bit set


def fastcgi_text(address: Address, target: str, seconds: float) -> str:
    """Return the body of the response to ``GET target``.

    Raises:
        OSError: there is none.
        ValueError: it is not FastCGI, is too large, or its status is not 200.
    """
    path, _, query = target.partition("?")
    parameters = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": path,
        "SCRIPT_FILENAME": path,
        "REQUEST_URI": target,
        "QUERY_STRING": query,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "GATEWAY_INTERFACE": "CGI/1.1",
    }
    with Connection(address, seconds) as connection:
        connection.sendall(fastcgi_request(parameters))
        with connection.makefile() as received:
            return _body(fastcgi_output(received))


def fastcgi_request(parameters: Mapping[str, str], *, keep: bool = False) -> bytes:
    """Return the records of a request without a body; ``keep``: the server leaves the connection open."""
    begin = _ROLE.pack(_RESPONDER, _KEEP if keep else 0)
    return _record(_BEGIN, begin) + _record(_PARAMETERS, _pairs(parameters)) + _record(_PARAMETERS) + _record(_INPUT)


def fastcgi_output(received: BinaryIO) -> bytes:
    """Read the records of one response, and return its output: headers and body.

    Raises:
        ValueError: it is not FastCGI, or ends early.
    """
    output = bytearray()
    while True:
        header = received.read(_HEADER.size)
        if len(header) < _HEADER.size:
            raise ValueError("the server closed the connection without an answer")
        version, kind, number, length, padding = _HEADER.unpack(header)
        content = received.read(length + padding)[:length]
        if version != _VERSION or number not in (0, _REQUEST) or len(content) < length:
            raise ValueError("the answer is not FastCGI")
        if kind == _OUTPUT:
            output += content
        elif kind == _END:
            return bytes(output)


def _body(output: bytes) -> str:
    head, separator, body = output.partition(b"\r\n\r\n")
    if not separator:
        raise ValueError("the answer has no headers")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        status = value.split()[:1]
        if name.lower() == b"status" and status != [b"200"]:
            raise ValueError(f"it answered {status[0].decode(errors='replace') if status else 'no status'}")
    return body.decode(errors="replace")


def _record(kind: int, content: bytes = b"") -> bytes:
    return _HEADER.pack(_VERSION, kind, _REQUEST, len(content), 0) + content


def _pairs(parameters: Mapping[str, str]) -> bytes:
    pairs = [(name.encode(), value.encode()) for name, value in parameters.items()]
    return b"".join(_length(name) + _length(value) + name + value for name, value in pairs)


def _length(text: bytes) -> bytes:
    return bytes([len(text)]) if len(text) < _SHORT else struct.pack("!I", len(text) | 1 << 31)
