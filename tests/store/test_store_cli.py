"""``sojourn store`` as its users run it: each in a process and a folder of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sojourn.store.schema import schema_files
from store_support import record, write_log

pytest.importorskip("chdb")

HOSTILE = "=cmd|' /C calc'!A0\x1b]0;owned\x07\u202e[red]"


def sojourn(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sojourn", "store", *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "160", **env}, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def dsn(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cli")
    address = f"chdb://{folder}/store"
    log = write_log(folder / "a.jsonl", record(1), record(2, worker=HOSTILE), b"bad\n")
    produced = sojourn("init", address)
    assert (produced.returncode, produced.stderr) == (0, "")
    assert produced.stdout == f"{address}: applied {len(schema_files())} files of the schema\n"
    loaded = sojourn("load", address, log)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert loaded.stdout == "3 lines read, 2 requests loaded, 1 refused (invalid_json 1; see dead_letters)\n"
    return address


def test_init_reports_changes(dsn: str) -> None:
    kept = sojourn("init", dsn, "--keep", "0")
    assert kept.stdout == f"{dsn}: up to date\nrows are kept without a limit\n"


def test_query_prints_a_table(dsn: str) -> None:
    done = sojourn("query", dsn, "SELECT request_id, worker, queueing_delay FROM requests_split ORDER BY time")
    assert (done.returncode, done.stderr) == (0, "")
    assert "r1" in done.stdout
    assert "0.298" in done.stdout
    assert "\x1b]0" not in done.stdout
    assert "\\x1b]0;owned\\x07\\u202e[red]" in done.stdout


def test_query_limits_rows(dsn: str) -> None:
    done = sojourn("query", dsn, "SELECT number FROM numbers(1000000)", "--rows", "3")
    assert done.stdout.split("\n")[1:5] == [
        "     0", "     1", "     2", "the first 3 rows; --rows shows more of them, --csv and --json give all",
    ]  # fmt: skip
    assert "no rows" in sojourn("query", dsn, "SELECT * FROM spans").stdout


def test_csv_disarmed(dsn: str) -> None:
    done = sojourn(
        "query", dsn, "SELECT worker, -1 AS n, '+1' AS text, '@x' AS at, NULL AS none, [1, 2] AS list, time "
        "FROM requests FINAL WHERE request_id = 'r2'", "--csv",
    )  # fmt: skip
    rows = list(csv.reader(io.StringIO(done.stdout, newline="")))
    assert rows[0] == ["worker", "n", "text", "at", "none", "list", "time"]
    assert rows[1] == [f"'{HOSTILE}", "-1", "'+1", "'@x", "", "[1, 2]", "2026-01-01T00:00:02.500000Z"]


def test_json(dsn: str) -> None:
    done = sojourn(
        "query", dsn,
        "SELECT app_service_time, time, attempt_addr, nan AS x, worker, map('a', 1) AS m, toDate(time) AS d "
        "FROM requests FINAL ORDER BY time",
        "--json",
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["columns"][0] == {"name": "app_service_time", "type": "Nullable(Decimal(18, 6))"}
    assert document["rows"][1] == [
        0.2, "2026-01-01T00:00:02.500000Z", ["10.0.0.1:80"], None, HOSTILE, {"a": 1}, "2026-01-01",
    ]  # fmt: skip
    assert json.loads(sojourn("query", dsn, "SELECT * FROM spans", "--json").stdout)["rows"] == []


def test_values_are_bound_not_pasted(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("-- a comment; with a semicolon\nSELECT {who:String} AS who, {n:UInt32} + 1 AS n;\n")
    done = sojourn("query", dsn, "--file", file, "--set", "who='; DROP TABLE requests; --", "--set", "n=4", "--csv")
    assert list(csv.reader(io.StringIO(done.stdout)))[1] == ["'; DROP TABLE requests; --", "5"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("query", "{dsn}", "SELECT nothing FROM requests"), 1, "nothing"),
        (("query", "{dsn}", "SELEC 1"), 1, "Syntax error"),
        (("query", "{dsn}", "SELECT * FROM rollup_minute"), 1, "aggregate"),
        (("query", "{dsn}", "SELECT {{x:String}}"), 1, "x"),
        (("query", "{dsn}", ""), 1, "there is no query"),
        (("query", "{dsn}"), 2, "--file"),
        (("query", "{dsn}", "DROP TABLE requests"), 1, "only reads"),
        (("query", "{dsn}", "SELECT 1", "--csv", "--json"), 2, "not both"),
        (("query", "{dsn}", "SELECT 1", "--set", "x"), 2, "COLUMN=VALUE"),
        (("query", "{dsn}", "--file", "nowhere.sql"), 1, "nowhere.sql"),
        (("query", "chdb:///nowhere/at/all", "SELECT 1"), 1, "no store in this folder"),
        (("load", "{dsn}", "nowhere.jsonl"), 1, "no such file"),
        (("load", "chdb:///nowhere/at/all", "a.jsonl"), 1, "no store in this folder"),
        (("init", "nowhere"), 1, "not a store"),
        (("init", "{dsn}", "--keep", "-1"), 2, "--keep"),
        (("init", "{dsn}", "--roles"), 1, "no users"),
        (("init", "{dsn}", "--cluster", "c"), 1, "no cluster"),
        (("init", "chdb:///proc/sojourn"), 1, "cannot be made"),
        (("init", "clickhouse://u:secret@127.0.0.1:1/d"), 1, "cannot be reached"),
    ],
)
def test_mistakes_give_one_error(dsn: str, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = sojourn(*(a.format(dsn=dsn) for a in arguments))
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of sojourn's own" not in done.stderr
    assert "secret" not in done.stderr
    if code == 1:
        assert len(done.stderr.splitlines()) == 1


def test_a_store_in_use_says_so(dsn: str) -> None:
    """One process at a time has the embedded engine."""
    holder = subprocess.Popen(
        [sys.executable, "-c", "import sys; from sojourn.store import connect\n"
         f"with connect({dsn!r}): print('open', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        done = sojourn("query", dsn, "SELECT 1")
        assert (done.returncode, done.stdout) == (1, "")
        assert "another process has it open" in done.stderr
    finally:
        holder.communicate(timeout=60)
    assert sojourn("query", dsn, "SELECT 1").returncode == 0


def test_a_closed_pipe_is_no_failure(dsn: str) -> None:
    command = [sys.executable, "-m", "sojourn", "store", "query", dsn, "SELECT number FROM numbers(3000000)", "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_help_is_there() -> None:
    for verb in ("init", "load", "query"):
        done = sojourn(verb, "--help")
        assert done.returncode == 0
        assert "DSN" in done.stdout


def test_a_broken_load_leaves_no_traceback(dsn: str, tmp_path: Path) -> None:
    bad = write_log(tmp_path / "only_bad.jsonl", b"\xff\xfe\n", b"{}\n")
    done = sojourn("load", dsn, bad)
    assert (done.returncode, done.stderr) == (0, "")
    assert (
        done.stdout == "2 lines read, 0 requests loaded, 2 refused (invalid_json 1, missing_time 1; see dead_letters)\n"
    )
