"""``sojourn store doctor``: the schema it sees, and what to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sojourn.cli import app
from sojourn.model.dsn import Dsn
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load
from sojourn.store.doctor import examine
from store_support import record, tell, write_log
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


def test_another_schema_is_named_and_init_brings_it_up_to_date(store_dsn: str) -> None:
    tell(store_dsn, f"INSERT INTO schema_state (name, checksum) VALUES ('views/line_gaps', '{'0' * 64}')")
    assert examine(store_dsn).changed == ["views/line_gaps"]
    code, text = run(store_dsn)
    assert code == 1
    assert "1 file of the schema, such as views/line_gaps, differs from that of this version" in text
    assert f"sojourn store init {store_dsn}" in text
    assert init(store_dsn) == ["views/line_gaps"]
    assert run(store_dsn)[0] == 0


def test_a_store_of_a_later_version_is_not_touched(store_dsn: str) -> None:
    tell(store_dsn, f"INSERT INTO schema_state (name, checksum) VALUES ('upgrades/0_2_0', '{'0' * 64}')")
    state = examine(store_dsn)
    assert (state.schema, state.later) == ("later", ["upgrades/0_2_0"])
    assert state.advice[0].run == "git pull && make setup"
    with pytest.raises(SojournError, match=r"a later version has applied upgrades/0_2_0"):
        init(store_dsn)


def test_an_empty_database(make_store: Callable[[], str]) -> None:
    dsn = make_store()
    database = dsn.split("=")[1]
    address = Dsn("chdb", "default", path=dsn.removeprefix("chdb://").split("?")[0])
    with connect(address, database="default") as store:
        store.client.command(f"DROP DATABASE {database} SYNC")
        store.client.command(f"CREATE DATABASE {database}")
    state = examine(dsn)
    assert (state.schema, state.advice[0].run) == ("none", f"sojourn store init {dsn}")


def test_missing_lines_are_named(store_dsn: str) -> None:
    record = '{"time": "%d", "request_time": "0.1", "status": "200", "request_start": "-", "request_id": "%d"}'
    rows = "('{}', 'h', '/a.jsonl', {}, 100)"
    lines = [rows.format(record % (1_767_225_600 + n, n), n * 100) for n in (0, 1, 2, 5)]
    tell(
        store_dsn,
        *(
            f"INSERT INTO incoming (line, host, file, position, line_bytes) VALUES {', '.join(each)}"
            for each in (lines[:3], lines[3:])
        ),
    )
    state = examine(store_dsn)
    assert (state.lines, state.missing_lines) == ({"requests": 4}, 2)
    assert len(state.advice) == 1
    assert run(store_dsn)[0] == 1
