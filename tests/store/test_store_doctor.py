"""``sojourn store doctor``: the schema it sees, and what to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sojourn.cli import app
from sojourn.model.dsn import Dsn
from sojourn.store import connect, init, load
from sojourn.store.doctor import examine
from store_support import older_store, record, tell, write_log
from typer.testing import CliRunner


def run(dsn: str, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["store", "doctor", dsn, *options])
    return done.exit_code, done.stdout


def test_a_current_store_needs_nothing(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n"))
    assert run(store_dsn) == (0, "schema: current\nlines of the last 24 hours: dead_letters 1, requests 2\n")
    code, text = run(store_dsn, "--json")
    assert code == 0
    state = json.loads(text)
    assert (state["schema"], state["missing"], state["advice"]) == ("current", [], [])


def test_an_older_schema_is_named_and_init_mends_it(
    make_store: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = older_store(make_store, monkeypatch, 105)
    code, text = run(dsn)
    assert code == 1
    assert "the schema is of 0.1.0" in text
    assert "105_incoming" in text
    assert f"sojourn store init {dsn}" in text
    init(dsn)
    assert run(dsn)[0] == 0


def test_a_store_of_a_later_version_is_not_touched(store_dsn: str) -> None:
    tell(store_dsn, f"INSERT INTO schema_migrations (version, name, checksum) VALUES (999, '999_later', '{'0' * 64}')")
    state = examine(store_dsn)
    assert (state.schema, state.unknown) == ("unknown", ["999_later"])
    assert state.advice[0].run == "git pull && make setup"


def test_a_file_that_differs_is_named(store_dsn: str) -> None:
    tell(
        store_dsn,
        f"INSERT INTO schema_migrations (version, name, checksum) VALUES (20, '020_spans', '{'0' * 64}')",
    )
    assert examine(store_dsn).changed == ["020_spans"]


def test_an_empty_database(make_store: Callable[[], str]) -> None:
    dsn = make_store()
    database = dsn.split("=")[1]
    address = Dsn("chdb", "default", path=dsn.removeprefix("chdb://").split("?")[0])
    with connect(address, database="default") as store:
        store.client.command(f"DROP DATABASE {database} SYNC")
        store.client.command(f"CREATE DATABASE {database}")
    state = examine(dsn)
    assert (state.schema, state.advice[0].run) == ("none", f"sojourn store init {dsn}")


def test_agents_that_parse_and_lines_that_are_missing_are_named(store_dsn: str) -> None:
    typed = "INSERT INTO requests (time, request_time, status, request_id, source, position, line_bytes) VALUES {}"
    rows = "(toDateTime64({}, 6), 0.1, 200, '{}', 'h:/a.jsonl', {}, 100)"
    tell(
        store_dsn,
        typed.format(", ".join(rows.format(1_767_225_600 + n, n, n * 100) for n in (0, 1, 2))),
        typed.format(rows.format(1_767_225_609, "late", 500)),
    )
    state = examine(store_dsn)
    assert (state.typed_rows, state.missing_lines) == (4, 2)
    assert len(state.advice) == 2
    assert run(store_dsn)[0] == 1
