"""What the tests of the store share: log lines, and a short way to ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sojourn.store import connect

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
