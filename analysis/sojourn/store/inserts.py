"""Load files into a store: its own views parse the lines; logs of other formats are read here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa

from sojourn.model.errors import SojournError
from sojourn.model.redaction import redacted_text, redacting
from sojourn.readers.blocks import Parsers, Reject, formed_blocks, refuse_table, rejects_of
from sojourn.readers.inputs import LogInput, NamedSources, SourcesLike, opened_inputs
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.store.client import Store, plainly, rows, store_time
from sojourn.store.load_result import Loaded, Source
from sojourn.store.log_rows import MACROS, request_rows, rows_query
from sojourn.store.senders import DOING, LineSender, RowSender

DEAD_LETTERS = pa.schema([
    ("time", pa.timestamp("ms", "UTC")), ("kind", pa.string()), ("source", pa.string()), ("position", pa.uint64()),
    ("reason", pa.string()), ("raw", pa.string()),
])  # fmt: skip


def load_into(
    store: Store,
    sources: SourcesLike,
    spans: Sequence[Source],
    app_logs: Sequence[Source] = (),
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Loaded:
    """Load into an open store as ``sojourn.store.load`` does, without the rollups."""
    loaded = Loaded()
    by_kind = NamedSources.of(sources)
    inputs = opened_inputs(by_kind)
    dead = RowSender(store, "dead_letters")
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
    span_files = [*inputs.spans, *spans]
    if span_files:
        stored = "SELECT count() FROM spans FINAL WHERE ingested >= toDateTime64({begun:String}, 3, 'UTC')"
        with plainly(store, DOING.format("spans")):
            begun = store_time(store)
            _load_lines(store, "spans", span_files, loaded, dead)
            loaded.spans = int(rows(store, stored, {"begun": begun})[0][0])
    if app_logs:
        loaded.app_logs = _load_lines(store, "app_log", app_logs, loaded, dead)
    listen_files = [p for s in by_kind.folders if (p := Path(s) / "listen.jsonl").is_file()]
    if listen_files:
        loaded.listen = _load_lines(store, "listen_queue", listen_files, loaded, dead)
    dead.flush()
    loaded.dead_letters += dead.sent
    return loaded


def _load_logs(
    store: Store,
    logs: Sequence[LogInput],
    loaded: Loaded,
    dead: RowSender,
    on_progress: Callable[[int], None] | None,
) -> None:
    def refused(source: str, reject: Reject) -> None:
        _count(loaded, source, reject)

    others = RowSender(store, "incoming_rows")
    with LineSender(store, "incoming", "requests", refused) as own, Parsers(rows_query, MACROS) as parsers:
        for log, block, form in formed_blocks(logs, on_progress):
            if form is None:
                refuse_table(log, block)
            loaded.records.read += block.count
            if form is None:
                rejects: Iterable[Reject]
                rejects, whole = _refused_here(block)
                own.add(log.name, whole)
            else:
                parsed = parsers.of(form).parsed(log.name, block)
                rejects = parsed.rejects
                if parsed.accepted is not None and len(parsed.accepted):
                    others.add(request_rows(parsed.accepted, log.name))
            for reject in rejects:
                refused(log.name, reject)
            dead.add(dead_letters("requests", log.name, rejects))
        own.flush()
    others.flush()
    loaded.requests = own.sent - own.refused + others.sent
    loaded.dead_letters += own.refused


def _load_lines(store: Store, kind: str, files: Sequence[Source], loaded: Loaded, dead: RowSender) -> int:
    """Send the lines of files to ``incoming_<kind>``; return how many of them were not refused."""
    inputs = opened_inputs(files)
    with LineSender(store, f"incoming_{kind}", kind) as lines:
        try:
            for log in inputs.logs:
                for block in blocks_of_lines(log):
                    lines.add(log.name, block)
                    dead.add(dead_letters(kind, log.name, rejects_of(block)))
        finally:
            inputs.close()
        lines.flush()
    loaded.dead_letters += lines.refused
    return lines.sent - lines.refused


def _refused_here(block: Block) -> tuple[list[Reject], Block]:
    """Return the lines that only the file can tell to be bad (too long, damaged, cut off), and the block without."""
    refused = rejects_of(block)
    if block.open_end and len(block):
        line = block.lines_at(block.positions[-1:])[0].rstrip("\r\n")
        if line.strip() and not _is_json(line):
            number = int(block.numbers[-1])
            refused.append(Reject(number, block.position(number), "incomplete_line", line))
            return refused, block.without_last()
    return refused, block


def _is_json(line: str) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True


def dead_letters(kind: str, source: str, rejects: Iterable[Reject]) -> pa.Table:
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
    records.keep({"source": source, "line": reject.line, "reason": reject.reason, "raw": reject.raw})
