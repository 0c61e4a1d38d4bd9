"""What a store holds of the clients of a log that was written whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sojourn.model.redaction import SWITCH
from sojourn.store import connect, load
from sojourn.store.client import rows
from store_support import record, write_log

SECRET = "s3cr3t-t0k3n"
ADDRESS = "203.0.113.77"


def write(folder: Path) -> tuple[Path, Path]:
    """A log with a sound line and one that cannot be read, and spans of other instrumentation."""
    whole = {"uri": f"/login?password={SECRET}", "remote_addr": ADDRESS}
    log = write_log(folder / "a.jsonl", record(**whole), record(**whole, status="no number"))
    attributes = {"url.query": f"password={SECRET}", "client.address": ADDRESS, "url.full": f"https://h/login?{SECRET}"}
    span: dict[str, Any] = {
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "name": "GET", "kind": 2,
        "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225601000000000",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }  # fmt: skip
    late = {**span, "endTimeUnixNano": "1"}
    lines = [json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [each]}]}]}) for each in (span, late)]
    spans = folder / "spans.jsonl"
    spans.write_text("\n".join(lines) + "\n")
    return log, spans


def everything(dsn: str) -> str:
    """Every row of the tables that hold single requests, as text."""
    with connect(dsn) as store:
        matches = [rows(store, f"SELECT * FROM {table}") for table in ("requests", "spans", "dead_letters")]
    assert [len(each) for each in matches] == [1, 1, 2]
    return str(matches)


def test_queries_and_addresses_are_not_stored(store_dsn: str, tmp_path: Path) -> None:
    log, spans = write(tmp_path)
    load(store_dsn, log, spans=[spans])
    text = everything(store_dsn)
    assert SECRET not in text
    assert ADDRESS not in text
    assert "/login" in text
    assert "203.0.113.0" in text


def test_unless_one_asks_for_it(store_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "off")
    log, spans = write(tmp_path)
    load(store_dsn, log, spans=[spans])
    text = everything(store_dsn)
    assert text.count(SECRET) == 6
    assert ADDRESS in text
