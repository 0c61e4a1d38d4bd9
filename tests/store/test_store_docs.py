"""The reference lists every table and column as the SQL makes it. SOJOURN_RECORD=1 writes the lists anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sojourn.store.migrate import EXPIRING
from sojourn.store.roles import USERS
from store_support import ask

HOUSE = Path(__file__).parents[2]
PAGE = HOUSE / "docs/reference/store.md"
MARK = "pytest tests/store/test_store_docs.py -->\n"
HIDDEN = ("rollup_results", "rollup_due", "minutes_known", "minutes_due")  # how rollups are made, and nobody's to read


def listed(dsn: str) -> str:
    tables = ask(
        dsn,
        "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND engine != 'MaterializedView' "
        "ORDER BY name",
    )
    parts = []
    for table, engine in tables:
        if table in HIDDEN:
            continue
        columns = ask(
            dsn,
            "SELECT name, type, default_kind, comment FROM system.columns WHERE database = currentDatabase() "
            f"AND table = '{table}' ORDER BY position",
        )
        rows = [f"| `{name}` | {shown(kind, default)} | {comment} |" for name, kind, default, comment in columns]
        what = " (a view)" if engine == "View" else ""
        parts.append(
            "\n".join(
                [f"### {table}{what}", "", purpose(table), "", "| column | type | |", "| --- | --- | --- |", *rows]
            )
        )
    return "\n\n".join(parts) + "\n"


def shown(kind: str, default: str) -> str:
    kind = (
        re.sub(r"LowCardinality\((\w+)\)", r"\1", kind)
        .replace("Decimal(18, 6)", "Decimal64(6)")
        .replace(", 'UTC')", ")")
    )
    kind = kind.replace("DateTime('UTC')", "DateTime").replace("'", "")
    return f"`{kind}`" + (", computed" if default in ("ALIAS", "MATERIALIZED") else "")


def purpose(table: str) -> str:
    """The comment that stands above the table or view in its file."""
    for file in sorted((HOUSE / "collector/clickhouse").glob("0*.sql")):
        found = re.search(rf"((?:^--.*\n)+)CREATE (?:TABLE|VIEW) IF NOT EXISTS {table}\$?\W", file.read_text(), re.M)
        if found:
            return re.sub(r"\s*\n-- ", " ", found[1].strip()).removeprefix("-- ")
    raise AssertionError(f"nothing is said about {table}")


def test_the_reference_lists_what_there_is(store_dsn: str) -> None:
    head, _, tables = PAGE.read_text().partition(MARK)
    wanted = "\n" + listed(store_dsn)
    if os.environ.get("SOJOURN_RECORD"):
        PAGE.write_text(head + MARK + wanted)
    else:
        assert tables == wanted, (
            "the schema has changed: SOJOURN_RECORD=1 writes the lists of docs/reference/store.md anew"
        )


def test_the_reference_names_what_the_code_does() -> None:
    text = PAGE.read_text()
    for user, role in USERS.items():
        assert f"`{role}`" in text
        assert f"`{user}`: `{user.upper()}_PASSWORD_FILE`" in text
    assert set(EXPIRING) <= set(re.findall(r"^### (\w+)", text, re.M))
