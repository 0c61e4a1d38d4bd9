"""Query a store in SQL: read only, row by row, and with output in which no cell is executed."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import chain
from typing import Any, TextIO

from sojourn.model.errors import SojournError
from sojourn.store.client import QUERY, Store, plainly

Row = tuple[Any, ...]

# Statements that read and are no SELECT: the engine answers them whole.
_SHOWING = re.compile(r"(?:--[^\n]*\n|/\*.*?\*/|\s)*(SHOW|DESCRIBE|DESC|EXISTS|EXPLAIN)\b", re.IGNORECASE | re.DOTALL)
_FIRST_WORD = re.compile(r"(?:--[^\n]*\n|/\*.*?\*/|\s)*(\w+)", re.DOTALL)
_TO_A_FILE = re.compile(r"\bINTO\s+OUTFILE\b", re.IGNORECASE)
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass
class Answer:
    """The result of a query.

    Attributes:
        columns: (name, type) of each.
        rows: the rows, fetched as they are taken.
    """

    columns: list[tuple[str, str]]
    rows: Iterator[Row]


@contextmanager
def answer(store: Store, sql: str, parameters: dict[str, str] | None = None) -> Iterator[Answer]:
    """Run ``sql``, one statement that reads; ``{name:Type}`` in it stands for a value of ``parameters``.

    Raises:
        SojournError: it would write something, or the store refused it; in words.
    """
    text = sql.strip().removesuffix(";")
    if not text:
        raise SojournError("there is no query: give one as SQL, or a file with --file")
    client = store.client
    with plainly(store, QUERY):
        client.set_client_setting("readonly", 2)
        if _SHOWING.match(text):
            if _TO_A_FILE.search(text):
                raise SojournError("a query only reads here; INTO OUTFILE writes a file (use --csv or --json)")
            reply = client.query(text, parameters=parameters)
            names = list(zip(reply.column_names, (t.name for t in reply.column_types), strict=True))
            yield Answer(names, (tuple(row) for row in reply.result_rows))
            return
        _only_reads(store, text, parameters)
        with client.query_row_block_stream(text, parameters=parameters) as stream:
            source: Any = stream.source
            names = list(zip(source.column_names, (t.name for t in source.column_types), strict=True))
            yield Answer(names, chain.from_iterable(stream))


def _only_reads(store: Store, text: str, parameters: dict[str, str] | None) -> None:
    """Wrap a SELECT in brackets: the engine's read-only mode allows some writing (to files), brackets allow none."""
    from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415

    try:
        store.client.query(f"EXPLAIN AST SELECT * FROM (\n{text}\n)", parameters=parameters)  # noqa: S608 - parsed only
    except ClickHouseError:
        first = _FIRST_WORD.match(text)
        if not (first and first[1].upper() in _WRITING) and not _TO_A_FILE.search(text):
            store.client.query(f"EXPLAIN AST {text}", parameters=parameters)  # it says where the mistake is
        raise SojournError("a query only reads here (SELECT, WITH, SHOW, DESCRIBE, EXISTS, EXPLAIN)") from None


_WRITING = (
    "INSERT", "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "EXCHANGE", "DELETE", "UPDATE", "OPTIMIZE", "SYSTEM",
    "GRANT", "REVOKE", "SET", "USE", "ATTACH", "DETACH", "KILL", "UNDROP", "BACKUP", "RESTORE", "MOVE",
)  # fmt: skip


def write_json(answer: Answer, out: TextIO) -> None:
    """Write one object: ``columns`` (name, type) and ``rows`` (lists), ISO 8601 instants."""
    columns = [{"name": name, "type": kind} for name, kind in answer.columns]
    out.write('{"columns": ' + json.dumps(columns) + ', "rows": [')
    for number, row in enumerate(answer.rows):
        out.write((",\n  " if number else "\n  ") + json.dumps([plain_value(value) for value in row]))
    out.write("\n]}\n")


def write_csv(answer: Answer, out: TextIO) -> None:
    """Write a header and the rows as CSV; text that looks like a formula begins with ``'``."""
    writer = csv.writer(out)
    writer.writerow([cell(name) for name, _ in answer.columns])
    writer.writerows([cell(plain_value(value)) for value in row] for row in answer.rows)


def cell(value: Any) -> Any:
    """Return a value for CSV: numbers unchanged, empty for None, text that is no formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def plain_value(value: Any) -> Any:
    """Return a value of the store for JSON; NaN and infinities are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "replace")
    return str(value)
