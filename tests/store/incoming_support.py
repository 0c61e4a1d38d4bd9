"""Shared by the tests of incoming lines: lines into the tables ``incoming_…``, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sojourn.store.client import Store
from sojourn.store.senders import INSERT_SETTINGS

START = 1_767_225_600_123_456_789
TABLES = ("spans", "listen_queue", "pipeline_metrics", "dead_letters")
SOUND = {
    "span_id": "sound", "start_time_unix_nano": "2026-01-01T00:00:00Z", "end_time_unix_nano": "2026-01-01T00:00:01Z",
}  # fmt: skip


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def send(store: Store, table: str, lines: Iterable[bytes], **others: Any) -> None:
    """Insert lines in one block; the position of each is its number."""
    columns = ["line"] if table == "incoming_pipeline_metrics" else ["line", "position", *others]
    rows = [[line, number, *others.values()][: len(columns)] for number, line in enumerate(lines)]
    # Instants of any day are more days than an INSERT may have partitions by default.
    store.client.insert(table, rows, column_names=columns, settings=INSERT_SETTINGS)


def answer(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.client.query(sql).result_rows]


def refused(store: Store) -> list[tuple[Any, ...]]:
    return answer(store, "SELECT kind, position, reason FROM dead_letters ORDER BY kind, position")


def emptied(store: Store) -> Store:
    for table in TABLES:
        store.client.command(f"TRUNCATE TABLE {table}")
    return store
