"""One log line with sensible values, the split of a log, and zstd on every Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import sojourn
from sojourn.analyses.split.result import SplitResult
from sojourn.model.frame import SCHEMA
from sojourn.readers.spans import SPANS_SCHEMA

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BASE = 1_767_225_600


def line(**fields: str) -> bytes:
    record = {
        "time": f"{BASE}.100",
        "request_time": "0.100",
        "status": "200",
        "request_start": "-",
        "uri": "/",
        **fields,
    }
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def split_of_log(folder: Path, content: bytes, **options: Any) -> SplitResult:
    """Return the split of a log with this content."""
    log = folder / "a.jsonl"
    log.write_bytes(content)
    return sojourn.split(log, **options)


def audit_check(result: SplitResult, name: str) -> dict[str, Any]:
    """Return one check of the audit, as the JSON has it."""
    (check,) = [check for check in result.to_dict()["audit"]["checks"] if check["name"] == name]
    return check


def zstandard(data: bytes) -> bytes:
    return zstd.compress(data)


def instant_us(seconds: float) -> int:
    return round((BASE + seconds) * 1e6)


def frame(*rows: dict[str, object]) -> pl.LazyFrame:
    """Canonical rows; instants as seconds after ``BASE``. Defaults: one answered request through one backend."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA}
    for row in rows:
        full: dict[str, object] = {
            "start": 0.0, "request_time": 0.5, "status": 200, "upstream": "10.0.0.1:80", "attempts": 1, "retries": 0.0,
            "connect": 0.0, "header": 0.4, "response": 0.4, "app_garbled": False, "route": "/", "proxy": "edge",
            "worker": "1", **row,
        }  # fmt: skip
        full.setdefault("time", full["start"] + full["request_time"])  # type: ignore[operator]
        full.setdefault("proxy_start", full.get("request_start"))
        for name in SCHEMA:
            value = full.get(name)
            instant = isinstance(SCHEMA[name], pl.Datetime) and value is not None
            columns[name].append(instant_us(value) if instant else value)  # type: ignore[arg-type]
    instants = [name for name, dtype in SCHEMA.items() if isinstance(dtype, pl.Datetime)]
    types = {name: pl.Int64() if name in instants else dtype for name, dtype in SCHEMA.items()}
    return pl.LazyFrame(columns, schema=types).with_columns(
        pl.from_epoch(name, time_unit="us").cast(SCHEMA[name]) for name in instants
    )


def span(request_id: str | None, start: float, seconds: float, **fields: object) -> dict[str, object]:
    return {
        "request_id": request_id, "span_start": instant_us(start), "span_end": instant_us(start + seconds),
        "span_seconds": seconds, "span_service_time": seconds, **fields,
    }  # fmt: skip


def spans(*rows: dict[str, object]) -> pl.DataFrame:
    types = {n: pl.Int64() if isinstance(t, pl.Datetime) else t for n, t in SPANS_SCHEMA.items()}
    table = pl.DataFrame([{name: row.get(name) for name in SPANS_SCHEMA} for row in rows], schema=types)
    return table.with_columns(
        pl.from_epoch(n, time_unit="us").cast(SPANS_SCHEMA[n]) for n in ("span_start", "span_end")
    )
