"""Load files into a store: parse blocks, gather them into large inserts, send them as Arrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from sojourn.model.errors import SojournError
from sojourn.model.redaction import redacted_text, redacting
from sojourn.readers.blocks import Reject, parsed_blocks
from sojourn.readers.inputs import LogInput, opened_inputs
from sojourn.store.client import Store, plainly
from sojourn.store.listen_rows import LISTEN_SCHEMA, listen_rows
from sojourn.store.load_result import Loaded, Source
from sojourn.store.log_rows import MACROS, request_rows, rows_query
from sojourn.store.span_rows import SPAN_SCHEMA, span_rows

ROWS_PER_INSERT = 250_000  # few, large parts: each insert becomes one per day
REJECTS_KEPT = 1_000
RAW_KEPT = 2_000
INSERT_SETTINGS = {"max_partitions_per_insert_block": 0}  # a sparse log may hold years

DEAD_LETTERS = pa.schema([
    ("time", pa.timestamp("ms", "UTC")), ("kind", pa.string()), ("source", pa.string()), ("position", pa.uint64()),
    ("reason", pa.string()), ("raw", pa.string()),
])  # fmt: skip


class Sender:
    """Gathers tables of one kind, and inserts them when they are large enough."""

    def __init__(self, store: Store, table: str, rows_per_insert: int = ROWS_PER_INSERT) -> None:
        self.sent = 0
        self._store = store
        self._table = table
        self._limit = rows_per_insert
        self._held: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        if len(rows):
            self._held.append(rows)
            if sum(map(len, self._held)) >= self._limit:
                self.flush()

    def flush(self) -> None:
        """Send the remaining rows."""
        if not self._held:
            return
        rows = pa.concat_tables(self._held)
        with plainly(self._store, f"loading into {self._table} (what came before is there; loading again is safe)"):
            self._store.client.insert_arrow(self._table, rows, settings=INSERT_SETTINGS)
        self.sent += len(rows)
        self._held = []


def load_into(
    store: Store,
    sources: Sequence[Source],
    spans: Sequence[Source],
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Loaded:
    """Load into an open store as ``sojourn.store.load`` does, without the rollups."""
    loaded = Loaded()
    inputs = opened_inputs(sources)
    dead = Sender(store, "dead_letters")
    try:
        if inputs.stores:
            raise SojournError(f"{inputs.stores[0]}: a store cannot be loaded into another one")
        if inputs.parquet:
            raise SojournError(f"{inputs.parquet[0]}: Parquet is not loaded; load the log it was made from")
        if on_size:
            on_size(inputs.size)
        _load_logs(store, inputs.logs, loaded, dead, on_progress)
    finally:
        inputs.close()
    requests = loaded.requests
    span_files = [*inputs.spans, *spans]
    if span_files:
        loaded.spans = _load_rows(store, "spans", SPAN_SCHEMA, span_rows, span_files, dead)
    listen_files = [p for s in sources if (p := Path(os.fspath(s)) / "listen.jsonl").is_file()]
    if listen_files:
        loaded.listen = _load_rows(store, "listen_queue", LISTEN_SCHEMA, listen_rows, listen_files, dead)
    dead.flush()
    loaded.requests, loaded.dead_letters = requests, dead.sent
    return loaded


def _load_logs(
    store: Store,
    logs: Sequence[LogInput],
    loaded: Loaded,
    dead: Sender,
    on_progress: Callable[[int], None] | None,
) -> None:
    sender = Sender(store, "requests")
    for block in parsed_blocks(logs, rows_query, on_progress, MACROS):
        loaded.records.read += block.lines
        for reject in block.rejects:
            _count(loaded, block.source, reject)
        dead.add(dead_letters("requests", block.source, block.rejects))
        if block.accepted is not None and len(block.accepted):
            sender.add(request_rows(block.accepted, block.source))
    sender.flush()
    loaded.requests = sender.sent


def _load_rows(
    store: Store,
    table: str,
    schema: pa.Schema,
    rows_of: Callable[[list[LogInput]], Iterator[tuple[str, list[dict[str, Any]], list[Reject]]]],
    files: Sequence[Source],
    dead: Sender,
) -> int:
    sender = Sender(store, table)
    inputs = opened_inputs(files)
    try:
        for source, rows, rejects in rows_of(inputs.logs):
            sender.add(pa.Table.from_pylist(rows, schema=schema))
            dead.add(dead_letters(table, source, rejects))
    finally:
        inputs.close()
    sender.flush()
    return sender.sent


def dead_letters(kind: str, source: str, rejects: Sequence[Reject]) -> pa.Table:
    """Return refused lines as rows of ``dead_letters``."""
    now = datetime.now(UTC)
    stored = redacted_text if redacting() else str
    rows = [
        {"time": now, "kind": kind, "source": source, "position": r.position, "reason": r.reason, "raw": stored(r.raw)}
        for r in rejects
    ]
    return pa.Table.from_pylist(rows, schema=DEAD_LETTERS)


def _count(loaded: Loaded, source: str, reject: Reject) -> None:
    records = loaded.records
    records.reasons[reject.reason] = records.reasons.get(reject.reason, 0) + 1
    if len(records.rejects) < REJECTS_KEPT:
        records.rejects.append(
            {"source": source, "line": reject.line, "reason": reject.reason, "raw": reject.raw[:RAW_KEPT]}
        )
