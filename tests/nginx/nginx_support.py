"""A raw HTTP client and the documented way to read the log, for the tests of nginx/."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.runtime.nginx import Nginx

# The log record, in its order.
KEYS = [
    *("time", "request_id", "trace_id", "span_id", "service", "route"),
    *("method", "uri", "status", "protocol", "host", "remote_addr", "bytes_sent", "request_length"),
    *("request_time", "request_start", "connection", "connection_requests"),
    *("upstream_addr", "upstream_status"),
    *("upstream_connect_time", "upstream_header_time", "upstream_response_time"),
    *("upstream_cache_status", "limit_req_status"),
    *("queueing_delay", "service_time", "worker"),
    *("proxy", "stamp", "proxy_start"),
]

# The lean record, in its order.
LEAN_KEYS = [
    *("time", "request_id", "service", "route", "uri", "status", "bytes_sent", "request_length", "request_time"),
    *("request_start", "connection", "connection_requests", "upstream_addr", "upstream_status"),
    *("upstream_connect_time", "upstream_header_time", "upstream_response_time", "upstream_cache_status"),
    *("queueing_delay", "service_time", "worker", "proxy"),
]

PROXY = "proxy_pass http://app; include sojourn/sojourn_proxy.conf;"
LOCATION = f"location / {{ {PROXY} }}"
TRUSTED = "127.0.0.1 1;\n"
DEADLINE_S = 60.0


@dataclass
class Response:
    """What a client received."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name.lower()]


def connect(nginx: Nginx) -> socket.socket:
    return socket.create_connection(("127.0.0.1", nginx.port), timeout=DEADLINE_S)


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def parsed_response(data: bytes) -> Response:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in rest]
    return Response(int(first.split()[1]), [(key.lower(), value.strip()) for key, _, value in pairs], body)


def request_bytes(
    path: bytes | str = "/", headers: list[tuple[str, str | bytes]] | None = None, method: str = "GET"
) -> bytes:
    target = path if isinstance(path, bytes) else path.encode()
    lines = [method.encode() + b" " + target + b" HTTP/1.1", b"Connection: close"]
    pairs = [("Host", "shop.example"), *(headers or [])]
    if any(name == "Host" for name, _ in headers or []):
        pairs = pairs[1:]
    for name, value in pairs:
        lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def get(nginx: Nginx, path: bytes | str = "/", headers: list[tuple[str, str | bytes]] | None = None) -> Response:
    """One request on a connection of its own."""
    with connect(nginx) as connection:
        connection.sendall(request_bytes(path, headers))
        return parsed_response(received(connection))


def rows_of(path: Path) -> list[dict[str, str]]:
    """Every line of a log by the documented decoding, checked against the contract."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    assert text == "" or text.endswith("\n"), "the last line is torn"
    rows = [json.loads(line) for line in text.split("\n")[:-1]]
    for row in rows:
        assert list(row) in (KEYS, LEAN_KEYS)
        assert all(isinstance(value, str) for value in row.values()), row
        if list(row) == LEAN_KEYS:
            assert row["upstream_addr"] != "" or row["request_start"] == "", row
            continue
        assert row["stamp"] in {"", "own", "inbound"} or row["stamp"].startswith("refused:"), row
        assert (row["stamp"] == "") == (row["request_start"] == "") == (row["proxy_start"] == ""), row
        if row["upstream_addr"] == "":
            assert row["stamp"] == "", row
    return rows


def logged(nginx: Nginx, count: int = 1) -> list[dict[str, str]]:
    """The log once it has `count` records: nginx writes one after the client already has its answer."""
    deadline = time.monotonic() + DEADLINE_S
    while nginx.access_log.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, f"no {count} records: {nginx.access_log.read_text()}"
        time.sleep(0.005)
    rows = rows_of(nginx.access_log)
    assert len(rows) == count
    return rows


def seconds_list(value: str) -> list[float | None]:
    """The numbers of an upstream list; None for a dash."""
    parts = value.replace(" : ", ", ").split(", ")
    return [None if part == "-" else float(part) for part in parts]


def upload_seconds(row: dict[str, str]) -> float:
    return float(row["request_start"]) - (float(row["time"]) - float(row["request_time"]))


def app_upstream(*addresses: str) -> str:
    """Http-level text: the first address is tried first, the others after it failed."""
    first, *backups = addresses
    others = "".join(f" server {address} backup;" for address in backups)
    return f"upstream app {{ server {first};{others} }}\n"
