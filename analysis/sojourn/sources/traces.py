"""Traces: OTLP/JSON lines (one export request an object) into a frame, one row per span of any kind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from sojourn.model.errors import SojournError
from sojourn.model.traces_frame import INSTANCE, KINDS, PEER, TRACES_SCHEMA
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.spans import NOT_AN_EXPORT, Export, Span, first_value, span_bounds, values_of
from sojourn.sources.store_rows import SPAN_LIMIT
from sojourn.store.client import connect, plainly
from sojourn.store.statements import sql

BATCH = 200_000


@dataclass
class Traces:
    """Spans as they were read.

    Attributes:
        spans: columns as in ``TRACES_SCHEMA``, each span once, in no order.
        refused: reason -> count. ``not_an_export``: lines that are not an export request; ``invalid_span_time``: spans
            without a valid start and end; ``no_id``: spans without a trace id or a span id; ``duplicates``: spans
            that were read before.
    """

    spans: pl.DataFrame
    refused: dict[str, int] = field(default_factory=dict)


def read_traces(
    sources: Sequence[str | os.PathLike[str]], *, since: datetime | None = None, until: datetime | None = None
) -> Traces:
    """Read the spans of OTLP/JSON-lines files (plain or compressed), run folders and stores.

    Args:
        sources: what to read.
        since: only traces whose first span began at or after this instant, UTC.
        until: only traces whose first span began before this instant, UTC.

    Raises:
        SojournError: a source cannot be opened, a folder has no spans, or a store has too many.
    """
    decoder = msgspec.json.Decoder(Export, strict=False)
    refused: dict[str, int] = {}
    rows: list[tuple[Any, ...]] = []
    frames: list[pl.DataFrame] = []
    inputs = opened_inputs([path for source in sources for path in _files(os.fspath(source))])
    try:
        if inputs.parquet:
            raise SojournError(f"{inputs.parquet[0]}: spans are read from files of OTLP/JSON lines, not from Parquet")
        frames += [_stored_traces(dsn, since, until) for dsn in inputs.stores]
        for log in inputs.logs:
            for block in blocks_of_lines(log):
                for line in block.lines.to_list():
                    rows.extend(_rows(decoder, line, refused))
                if block.refused:
                    _count(refused, "not_an_export", len(block.refused))
                if len(rows) > BATCH:
                    frames.append(_frame(rows))
                    rows = []
    finally:
        inputs.close()
    read = pl.concat([*frames, _frame(rows)])
    # Exporters deliver at least once. Of two spans with one id the longer one is kept: it was written at the end.
    spans = read.sort("trace_id", "span_id", pl.col("end") - pl.col("start"), "start").unique(
        ["trace_id", "span_id"], keep="last", maintain_order=True
    )
    if len(spans) < len(read):
        _count(refused, "duplicates", len(read) - len(spans))
    return Traces(_begun(spans, since, until), refused)


def _stored_traces(dsn: str, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    """Return the spans of the traces that began in [since, until), each once, with the columns of ``TRACES_SCHEMA``."""
    bounds = {
        "since": int(since.timestamp() * 1e6) if since else 0,
        "until": int(until.timestamp() * 1e6) if until else 1 << 52,
        "instance": list(INSTANCE),
        "peer": list(PEER),
        "limit": SPAN_LIMIT + 1,
    }
    with connect(dsn) as store, plainly(store, "fetching its spans"):
        table = store.client.query_arrow(sql("traces"), parameters=bounds, use_strings=True)
    if len(table) > SPAN_LIMIT:
        raise SojournError(
            f"{store.dsn}: more than {SPAN_LIMIT:,} spans; narrow them with --since and --until (of when a trace began)"
        )
    tables = pl.DataFrame(pl.from_arrow(table))
    texts = [pl.col(name).replace("", None) for name in ("parent_span_id", "service", "worker", "request_id")]
    return tables.with_columns(*texts).select(pl.col(name).cast(kind) for name, kind in TRACES_SCHEMA.items())


def _begun(spans: pl.DataFrame, since: datetime | None, until: datetime | None) -> pl.DataFrame:
    begun = pl.col("start").min().over("trace_id")
    for bound, condition in ((since, begun.ge), (until, begun.lt)):
        if bound is not None:
            spans = spans.filter(condition(int(bound.timestamp() * 1e6) * 1000))
    return spans


def _files(source: str) -> list[str]:
    if not os.path.isdir(source):
        return [source]
    paths = [path for name in ("spans.jsonl", "spans.jsonl.gz") if (path := Path(source) / name).is_file()]
    if not paths:
        raise SojournError(f"{source}: this folder holds no spans.jsonl")
    return [str(path) for path in paths]


def _frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TRACES_SCHEMA, orient="row")


def _count(refused: dict[str, int], reason: str, number: int = 1) -> None:
    refused[reason] = refused.get(reason, 0) + number


def _rows(
    decoder: msgspec.json.Decoder[Export], line: str | None, refused: dict[str, int]
) -> Iterator[tuple[Any, ...]]:
    try:
        export = decoder.decode(line or "")
    except NOT_AN_EXPORT:
        if (line or "").strip():
            _count(refused, "not_an_export")
        return
    for resource in export.resource_spans:
        facts = values_of(resource.resource.attributes)
        service, instance = _text(facts.get("service.name")), _first(facts, INSTANCE)
        for scope in resource.scope_spans:
            for span in scope.spans:
                bounds = span_bounds(span)
                if bounds is None or not span.trace_id or not span.span_id:
                    _count(refused, "no_id" if bounds else "invalid_span_time")
                    continue
                yield _row(span, bounds, service, instance)


def _row(span: Span, bounds: tuple[int, int], service: str | None, instance: str | None) -> tuple[Any, ...]:
    values = values_of(span.attributes)
    return (
        span.trace_id, span.span_id, span.parent_span_id or None, service, instance, _kind(span.kind), span.name,
        _first(values, PEER), *bounds, _seconds(values.get("queueing.delay", values.get("queueing.delay.raw"))),
        _text(values.get("queueing.worker")), _text(first_value(values.get("http.request.header.x-request-id"))),
    )  # fmt: skip


def _kind(kind: int | str) -> str:
    if isinstance(kind, str):
        name = kind.removeprefix("SPAN_KIND_").lower()
        return name if name in KINDS else KINDS[0]
    return KINDS[kind] if 0 <= kind < len(KINDS) else KINDS[0]


def _first(values: dict[str, Any], keys: Sequence[str]) -> str | None:
    return next((text for key in keys if (text := _text(values.get(key)))), None)


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        return None
    return float(value)
