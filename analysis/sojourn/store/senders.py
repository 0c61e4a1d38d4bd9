"""Send lines to a store as they are, or rows to one of its tables, in few large inserts."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue

import numpy as np
import pyarrow as pa

from sojourn.model.redaction import redacting
from sojourn.readers.blocks import Reject
from sojourn.readers.lines import Block
from sojourn.store.client import Store, connect, plainly, rows, store_time

BYTES_PER_INSERT = 48 << 20  # of lines: two blocks of a file. Each insert becomes a part per day, and parts are merged
ROWS_PER_INSERT = 250_000
INSERTS = 2  # at the same time: the store parses one while it writes the other
INSERT_SETTINGS = {
    "max_partitions_per_insert_block": 0,  # a sparse log may hold years
    "optimize_on_insert": 0,  # merges remove duplicates, and FINAL; to remove them here too takes a third of the time
    "distributed_foreground_insert": 1,  # on a cluster: what is refused is known when the insert returns
}
DOING = "loading into {} (what came before is there; loading again is safe)"

REFUSED = """
    SELECT source, position, reason, raw FROM dead_letters FINAL
    WHERE kind = {kind:String} AND source IN {sources:Array(String)} AND time >= toDateTime64({begun:String}, 3, 'UTC')
        AND position BETWEEN {first:UInt64} AND {last:UInt64}"""


class RowSender:
    """Gathers rows of one table, and inserts them when there are enough."""

    def __init__(self, store: Store, table: str, rows_per_insert: int = ROWS_PER_INSERT) -> None:
        self.sent = 0
        self._store = store
        self._table = table
        self._limit = rows_per_insert
        self._gathered: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Add rows."""
        if len(rows):
            self._gathered.append(rows)
            if sum(map(len, self._gathered)) >= self._limit:
                self.flush()

    def flush(self) -> None:
        """Send the remaining rows."""
        if not self._gathered:
            return
        rows = pa.concat_tables(self._gathered)
        with plainly(self._store, DOING.format(self._table)):
            self._store.client.insert_arrow(self._table, rows, settings=INSERT_SETTINGS)
        self.sent += len(rows)
        self._gathered = []


@dataclass
class _Batch:
    """Blocks of lines that are sent together, each with its source."""

    blocks: list[tuple[str, Block]] = field(default_factory=list)
    bytes: int = 0
    lines: int = 0


class LineSender:
    """Gathers lines, and inserts them when there are enough. The store's views parse them (incoming/lines.sql).

    ``table`` has raw lines, as ``incoming``; bad lines become dead letters of ``kind``. ``on_refused`` is called with a
    source and each line of it that the store refused, in the order of the lines.
    """

    def __init__(
        self,
        store: Store,
        table: str,
        kind: str,
        on_refused: Callable[[str, Reject], None] | None = None,
        bytes_per_insert: int = BYTES_PER_INSERT,
    ) -> None:
        self.sent = self.refused = 0
        self._table, self._kind, self._on_refused = table, kind, on_refused
        self._limit = bytes_per_insert
        self._batch = _Batch()
        with plainly(store, DOING.format(table)):
            self._begun = store_time(store)
        self._store = store
        # A connection of the embedded engine answers one query at a time; that of a server has several.
        self._opened: list[Store] = []
        self._idle: SimpleQueue[Store] = SimpleQueue()
        for _ in range(1 if store.embedded else INSERTS):
            self._idle.put(store)
        self._pool = ThreadPoolExecutor(INSERTS, thread_name_prefix="sojourn-insert")
        self._pending: list[tuple[int, Future[list[tuple[str, Reject]]]]] = []

    def __enter__(self) -> LineSender:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for store in self._opened:
            store.close()

    def add(self, source: str, block: Block) -> None:
        """Add the lines of a block; those that it has refused itself are not among them."""
        if len(block):
            self._batch.blocks.append((source, block))
            self._batch.bytes += len(block.data)
            self._batch.lines += len(block)
            if self._batch.bytes >= self._limit:
                self._send()

    def flush(self) -> None:
        """Send the remaining lines, and wait until the store has all of them."""
        self._send()
        while self._pending:
            self._finish()

    def _send(self) -> None:
        if self._batch.lines:
            while len(self._pending) >= INSERTS:
                self._finish()
            if self._store.embedded and len(self._pending) > len(self._opened):
                self._opened.append(connect(self._store.address))
                self._idle.put(self._opened[-1])
            batch, self._batch = self._batch, _Batch()
            self._pending.append((batch.lines, self._pool.submit(self._insert, batch)))

    def _finish(self) -> None:
        lines, inserted = self._pending.pop(0)
        refused = inserted.result()
        self.sent += lines
        for source, reject in refused:
            self.refused += 1
            if self._on_refused:
                self._on_refused(source, reject)

    def _insert(self, batch: _Batch) -> list[tuple[str, Reject]]:
        lines = pa.concat_tables([_table(source, block) for source, block in batch.blocks]).unify_dictionaries()
        store = self._idle.get()
        try:
            with plainly(store, DOING.format(self._table)):
                store.client.insert_arrow(self._table, lines, settings=INSERT_SETTINGS)
                bounds = {
                    "kind": self._kind,
                    "sources": sorted({source for source, _ in batch.blocks}),
                    "begun": self._begun,
                    "first": min(block.start for _, block in batch.blocks),
                    "last": max(block.start + int(block.places[-1]) for _, block in batch.blocks),
                }
                reported = rows(store, REFUSED, bounds)
        finally:
            self._idle.put(store)
        numbered = ((source, _number(batch, source, position), position, *rest) for source, position, *rest in reported)
        refused = [(s, Reject(n, p, reason, raw)) for s, n, p, reason, raw in numbered if n is not None]
        return sorted(refused, key=lambda each: (each[0], each[1].line))


def _table(source: str, block: Block) -> pa.Table:
    count = len(block)
    starts = block.start + block.places[block.positions].astype(np.uint64)
    columns = {
        "line": block.lines.to_arrow().cast(pa.string()),
        "file": pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([source])),
        "position": pa.array(starts, pa.uint64()),
    }
    if not redacting():  # the store redacts by itself
        columns["redact"] = pa.repeat(pa.scalar(False), count)
    return pa.table(columns)


def _number(batch: _Batch, source: str, position: int) -> int | None:
    """Return the number of the line at a byte; None: it was not sent with this batch."""
    for name, block in batch.blocks:
        if name == source and block.start <= position < block.start + int(block.places[-1]):
            number = block.first + int(np.searchsorted(block.places, position - block.start))
            return number if number in block.numbers else None
    return None
