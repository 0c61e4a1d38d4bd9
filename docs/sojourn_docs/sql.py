"""``docs/reference/sql.md``: every table and view of the store with its columns, read back from the engine."""

from __future__ import annotations

import re
import tempfile
from typing import Any

from sojourn.store import connect, init
from sojourn.store.schema import schema_files

from sojourn_docs import NOTE

# Internal to the rollups, to the counts of spans and to the gaps of logs, and steps of parsing a line.
HIDDEN = (
    "incoming_rows", "rollup_results", "rollup_due", "minutes_known", "minutes_due", "spans_due", "spans_counted",
    "line_runs_of_files", "gaps_of_files", "gaps_between_runs",
    "incoming_records", "parsed",
    "incoming_span_lines", "incoming_span_values", "incoming_samples", "incoming_file_samples", "incoming_metrics",
    "incoming_work",
    "parsed_work",
)  # fmt: skip

HEAD = f"""# Tables and views

{NOTE}

The tables and views that `sojourn store init` makes, read back from the engine. Their purpose, deduplication and
example queries: [the store](store.md). Add `FINAL` after the name of a table. Instants are UTC, durations seconds.
"""

TABLES = (
    "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND engine != 'MaterializedView' "
    "ORDER BY name"
)
COLUMNS = (
    "SELECT name, type, default_kind, comment FROM system.columns WHERE database = currentDatabase() "
    "AND table = '{table}' ORDER BY position"
)


def page() -> str:
    """Return the whole page, of a new store in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        dsn = f"chdb://{folder}/store"
        init(dsn)
        with connect(dsn) as store:
            return page_of(store)


def page_of(store: Any) -> str:
    """Return the whole page, of an open store."""
    tables = [(name, engine) for name, engine in _rows(store, TABLES) if name not in HIDDEN]
    contents = (
        f"- {kind}: "
        + " · ".join(f"[{name}](#{_anchor(name, engine)})" for name, engine in tables if (engine == "View") == view)
        for kind, view in (("Tables", False), ("Views", True))
    )
    return "\n".join([HEAD, *contents, "", *(_section(store, name, engine) for name, engine in tables)])


def _rows(store: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in store.client.query(query).result_rows]


def _anchor(name: str, engine: str) -> str:
    return name + ("-a-view" if engine == "View" else "")


def _section(store: Any, name: str, engine: str) -> str:
    columns = _rows(store, COLUMNS.format(table=name))
    rows = [f"| `{column}` | {_type_cell(kind, default)} | {comment} |" for column, kind, default, comment in columns]
    heading = f"## {name}" + (" (a view)" if engine == "View" else "")
    return "\n".join([heading, "", _purpose(name), "", "| column | type | |", "| --- | --- | --- |", *rows, ""])


def _type_cell(kind: str, default: str) -> str:
    kind = re.sub(r"LowCardinality\((\w+)\)", r"\1", kind).replace("Decimal(18, 6)", "Decimal64(6)")
    kind = kind.replace(", 'UTC')", ")").replace("DateTime('UTC')", "DateTime").replace("'", "")
    return f"`{kind}`" + (", computed" if default in ("ALIAS", "MATERIALIZED") else "")


def _purpose(table: str) -> str:
    """Return the comment above the statement that defines the table or view, in Markdown."""
    statement = rf"CREATE (?:TABLE IF NOT EXISTS|OR REPLACE VIEW) {table}\$?\W"
    texts = [re.sub(r"^-- Distributed.*\n", "", file.text, flags=re.M) for file in schema_files()]
    comments = [comment for text in texts for comment in re.findall(rf"((?:^--.*\n)+){statement}", text, re.M)]
    if not comments:
        raise ValueError(f"{table}: no comment above its statement in collector/clickhouse")
    paragraphs = re.sub(r"^-- ?", "", comments[-1].strip(), flags=re.M).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
