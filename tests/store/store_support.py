"""What the tests of the store share: log lines, and a short way to ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sojourn.store import connect, load, migrate
from sojourn.store.migrate import migrations

BASE = 1_767_225_600  # 2026-01-01T00:00:00Z, the beginning of a minute


def record(number: int = 0, **changes: str) -> dict[str, str]:
    """A sound record: at BASE + number s, 0.5 s long, 0.298 s of it queueing, 0.2 s service."""
    end = BASE + number + 0.5
    return {
        "time": f"{end:.3f}", "request_id": f"r{number}", "service": "shop", "route": "/cart", "method": "GET",
        "uri": f"/cart?n={number}", "status": "200", "request_time": "0.500", "request_start": f"{end - 0.499:.3f}",
        "upstream_addr": "10.0.0.1:80", "upstream_status": "200", "upstream_connect_time": "0.000",
        "upstream_header_time": "0.498", "upstream_response_time": "0.498", "queueing_delay": "0.298500",
        "service_time": "0.200000", "worker": "7", "proxy": "edge", **changes,
    }  # fmt: skip


def write_log(path: Path, *records: dict[str, str] | bytes) -> Path:
    path.write_bytes(b"".join(r if isinstance(r, bytes) else json.dumps(r).encode() + b"\n" for r in records))
    return path


TYPED = (
    "time, request_time, request_start, proxy_start, status, service, route, proxy, worker, stamp, method, protocol, "
    "host, uri, remote_addr, request_id, span_id, bytes_sent, request_length, connection, connection_requests, "
    "attempt_addr, attempt_status, attempt_connect, attempt_header, attempt_response, app_queueing_delay, "
    "app_service_time, app_garbled, source"
)


def older_store(make_store: Callable[[], str], monkeypatch: pytest.MonkeyPatch, version: int) -> str:
    """A store with the files of the schema below a number."""
    older = [m for m in migrations() if m.version < version]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda cluster: older)
        return make_store()


def load_as_before(dsn: str, parsed_by: str, log: Path) -> None:
    """Load a log as version 0.1.0 did: typed rows, with the trace id in every row. ``parsed_by``: a store of today."""
    load(parsed_by, log)
    database, source = (each.split("=")[1] for each in (dsn, parsed_by))
    for table, columns, values in (
        ("requests", f"{TYPED}, trace_id", f"{TYPED}, trace"),
        ("dead_letters", "time, kind, source, position, reason, raw", "time, kind, source, position, reason, raw"),
    ):
        tell(dsn, f"INSERT INTO {database}.{table} ({columns}) SELECT {values} FROM {source}.{table} FINAL")


def ask(dsn: str, sql: str) -> list[tuple[Any, ...]]:
    with connect(dsn) as store:
        return [tuple(row) for row in store.client.query(sql).result_rows]


def one(dsn: str, sql: str) -> Any:
    ((value,),) = ask(dsn, sql)
    return value


def tell(dsn: str, *statements: str) -> None:
    with connect(dsn) as store:
        for statement in statements:
            store.client.command(statement)
