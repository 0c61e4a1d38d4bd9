"""The reference lists every table and column as the SQL makes it; ``python -m sojourn_docs`` writes the lists again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sojourn.store import connect
from sojourn.store.migrate import EXPIRING
from sojourn.store.roles import USERS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/store.md"
TABLES = ROOT / "docs/reference/sql.md"

sys.path.insert(0, str(ROOT / "docs"))


def test_the_reference_lists_what_there_is(store_dsn: str) -> None:
    from sojourn_docs.sql import page_of  # noqa: PLC0415 - importable by the path above

    with connect(store_dsn) as store:
        assert TABLES.read_text() == page_of(store), (
            "the schema has changed: PYTHONPATH=docs python -m sojourn_docs writes docs/reference/sql.md again"
        )


def test_the_reference_names_what_the_code_does() -> None:
    text = PAGE.read_text()
    for user, role in USERS.items():
        assert f"`{role}`" in text
        assert f"`{user}`: `{user.upper()}_PASSWORD_FILE`" in text
    assert set(EXPIRING) <= set(re.findall(r"^## (\w+)", TABLES.read_text(), re.M))


def test_comments_of_the_schema_are_paragraphs_of_the_last_definition() -> None:
    text = TABLES.read_text()
    assert not re.search(r"^--", text, re.M)
    reconciliation = text.partition("## reconciliation")[2].partition("\n## ")[0]
    assert "(each delivery counted)" in reconciliation
