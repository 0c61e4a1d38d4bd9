"""A question reads, and only reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from sojourn.model.errors import SojournError
from sojourn.store import connect
from sojourn.store.query import answer
from store_support import one, tell


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE TABLE requests", "EXISTS TABLE spans", "EXPLAIN SELECT 1",
                                 "WITH 1 AS x SELECT x", "SELECT 1;", "/* ; */ SELECT 1",
                                 "-- a\nSELECT 1 -- b"])  # fmt: skip
def test_whatever_reads(store_dsn: str, sql: str) -> None:
    with connect(store_dsn) as store, answer(store, sql) as result:
        assert result.columns
        assert list(result.rows)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE requests", "INSERT INTO requests (status) VALUES (1)", "TRUNCATE TABLE requests",
        "SET readonly = 0",
        "SELECT 1 INTO OUTFILE '{out}'", "INSERT INTO FUNCTION file('{out}') SELECT 1",
        "EXPLAIN SELECT 1 INTO OUTFILE '{out}'",
        "SELECT 1; DROP TABLE requests", "SELECT 1) INTO OUTFILE '{out}' --", "SELECT 1 SETTINGS readonly = 0",
        "/* SELECT */ ALTER TABLE requests DELETE WHERE 1", "SYSTEM STOP MERGES",
        "CREATE TABLE x (a UInt8) ENGINE = Memory",
        "ATTACH DATABASE x", "OPTIMIZE TABLE requests", "EXISTS TABLE x; DROP TABLE requests", "",
    ],
)  # fmt: skip
def test_nothing_is_written(store_dsn: str, sql: str, tmp_path: Path) -> None:
    tell(store_dsn, "INSERT INTO incoming_rows (time, status) VALUES (now(), 200)")
    out = tmp_path / "out.csv"
    with (
        connect(store_dsn) as store,
        pytest.raises(SojournError) as refused,
        answer(store, sql.format(out=out)) as result,
    ):
        list(result.rows)
    assert "\n" not in str(refused.value)
    assert not out.exists()
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 1


def test_rows_come_as_they_are_taken(store_dsn: str) -> None:
    """A thousand million rows would not fit."""
    with connect(store_dsn) as store, answer(store, "SELECT number FROM numbers(1000000000)") as result:
        assert [next(result.rows) for _ in range(3)] == [(0,), (1,), (2,)]
