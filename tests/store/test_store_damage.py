"""A store whose tables are damaged: what is lost, what says so, and what brings it back."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError
from sojourn.analyses.split.run import split
from sojourn.cli import app
from sojourn.doctor.doctor import diagnose
from sojourn.model.errors import SojournError
from sojourn.store import connect, init, load
from sojourn.store.condition import broken_parts, lost_records
from sojourn.store.damage import LOADED, damage
from sojourn.store.doctor import examine
from store_support import BASE, ask, one, record, tell, write_log
from typer.testing import CliRunner

UNMERGED = (*LOADED, "spans", "line_runs")
PATHS = "SELECT path FROM system.parts WHERE active AND table = '{}' AND database = currentDatabase() ORDER BY name"


@pytest.fixture
def dsn(store_dsn: str) -> Iterator[str]:
    """An empty store whose parts are not merged; parts that are put aside are dropped at the end."""
    tell(store_dsn, *(f"SYSTEM STOP MERGES {table}" for table in UNMERGED))
    yield store_dsn
    with connect(store_dsn) as store:
        parts = broken_parts(store)
    dropped = "ALTER TABLE {} DROP DETACHED PART '{}' SETTINGS allow_drop_detached = 1"
    tell(store_dsn, *(dropped.format(part.table, part.name) for part in parts))
    tell(store_dsn, *(f"SYSTEM START MERGES {table}" for table in UNMERGED))


@contextmanager
def closed(dsn: str, table: str) -> Iterator[None]:
    """Let the engine close a table, and open it again afterwards, when the last query over it has ended."""
    tell(dsn, f"DETACH TABLE {table}")
    yield
    deadline = time.monotonic() + 30
    while True:
        try:
            tell(dsn, f"ATTACH TABLE {table}", f"SYSTEM STOP MERGES {table}")
        except ClickHouseError as error:
            if "still used by some query" not in str(error) or time.monotonic() > deadline:
                raise
        else:
            return


def cut(dsn: str, table: str, number: int) -> None:
    """Cut the file of a part in half while the engine has the table closed, as a full disk or a power cut does."""
    file = Path(ask(dsn, PATHS.format(table))[number][0]) / "data.bin"
    with closed(dsn, table), file.open("r+b") as opened:
        opened.truncate(file.stat().st_size // 2)


def arrive(dsn: str, file: str, first: int, count: int, host: str = "") -> None:
    """Insert lines as shippers do, each with its file and byte; an agent also names its host, and the line's length."""
    rows = [[json.dumps(record(n)), host, file, n * 500, 500 if host else 0] for n in range(first, first + count)]
    with connect(dsn) as store:
        store.client.insert("incoming", rows, column_names=["line", "host", "file", "position", "line_bytes"])


def lost(dsn: str) -> dict[str, int]:
    return dict(ask(dsn, "SELECT source, sum(lost) FROM reconciliation WHERE lost > 0 GROUP BY source"))


def advice_of(dsn: str) -> list[tuple[str, str]]:
    return [(each.what, each.run) for each in examine(dsn).advice]


def run_statements(dsn: str, commands: str) -> None:
    """Run the statements of commands for another process; the engine is open in this one."""
    tell(dsn, *(shlex.split(command)[-1] for command in commands.splitlines()))


def test_requests_of_a_part_cut_in_half_are_lost_until_their_file_is_loaded_again(dsn: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "1.jsonl", *(record(100 + n) for n in range(100)))
    arrive(dsn, "/0.jsonl", 0, 100)
    arrive(dsn, str(log), 100, 100)
    arrive(dsn, "/log/2.jsonl", 200, 50, host="edge")
    assert lost(dsn) == {}
    assert examine(dsn).advice == []
    cut(dsn, "requests", 2)
    cut(dsn, "requests", 1)
    assert one(dsn, "SELECT count() FROM requests FINAL") == 100
    assert lost(dsn) == {str(log): 100, "edge:/log/2.jsonl": 50}
    assert one(dsn, "SELECT sum(lost) FROM lost_records WHERE hour = toDateTime(1767225600, 'UTC')") == 150

    assert "its engine has put aside 2 parts of requests" in split(dsn).notes[0]
    errors = [each for each in diagnose(dsn).findings if each.severity == "error"]
    assert [(each.code, each.fix) for each in errors] == [
        ("store-damaged", f"sojourn store load '{dsn}' {file}") for file in (log, "/log/2.jsonl")
    ]
    assert "100 records of " in errors[0].what
    assert "50 records of /log/2.jsonl (on edge) arrived and are not stored any more" in errors[1].what
    assert "the engine has put aside 2 parts of requests" in errors[0].why

    load(dsn, log)
    arrive(dsn, "/log/2.jsonl", 200, 50)  # loaded on its machine: the same requests under another name
    assert lost(dsn) == {}
    ((what, run),) = advice_of(dsn)
    assert what == "2 parts of the table requests are put aside (broken-on-start)"
    run_statements(dsn, run)
    assert advice_of(dsn) == []


def test_the_doctor_of_the_store_exits_with_1_for_lost_records(dsn: str) -> None:
    arrive(dsn, "/a.jsonl", 0, 3)
    tell(dsn, "ALTER TABLE requests DETACH PARTITION ID '20260101'")
    done = CliRunner().invoke(app, ["store", "doctor", dsn])
    assert done.exit_code == 1
    assert "- 3 records of /a.jsonl arrived and are not stored any more. All of them arrived" in done.stdout
    assert f"\n    sojourn store load '{dsn}' /a.jsonl\n" in done.stdout


def test_what_is_delivered_twice_or_refused_again_is_not_lost(dsn: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n", b"worse\n")
    for _ in range(2):
        load(dsn, log)
    # Refused hours before: a later delivery takes the place of that row.
    letter = "INSERT INTO dead_letters SELECT now64(3) - INTERVAL 5 HOUR, kind, source, reason, raw FROM dead_letters"
    tell(dsn, letter.replace("dead_letters SELECT", "dead_letters (time, kind, source, reason, raw) SELECT"))
    tell(dsn, "SYSTEM START MERGES requests", "SYSTEM START MERGES dead_letters")
    tell(dsn, "OPTIMIZE TABLE requests FINAL", "OPTIMIZE TABLE dead_letters FINAL")
    assert lost(dsn) == {}
    tell(dsn, "TRUNCATE TABLE dead_letters")
    assert ask(dsn, "SELECT kind, arrived, lost FROM lost_records WHERE lost > 0") == [("dead_letters", 4, 4)]
    with connect(dsn) as store:
        assert lost_records(store) == {str(log): 4}


def test_expired_rows_are_not_lost(dsn: str, tmp_path: Path) -> None:
    load(dsn, write_log(tmp_path / "a.jsonl", record(1), record(2)))
    tell(dsn, *(f"SYSTEM START MERGES {table}" for table in UNMERGED))  # an ALTER of the TTL waits for a merge
    init(dsn, keep_days=3)
    tell(dsn, "OPTIMIZE TABLE requests FINAL")
    assert one(dsn, "SELECT count() FROM requests") == 0
    assert lost(dsn) == {}
    assert examine(dsn).advice == []
    init(dsn, keep_days=0)


def test_more_records_than_are_counted_exactly(dsn: str) -> None:
    """Equal sets are equal at any size, and a loss is counted within a few per cent."""
    rows = (
        "INSERT INTO incoming_rows (time, request_time, status, request_id, source) SELECT "
        f"fromUnixTimestamp64Micro({BASE}000000 + number * 10000, 'UTC'), 0.1, 200, toString(number), 'big' "
        "FROM numbers({}, {})"
    )
    tell(dsn, rows.format(0, 150_000), rows.format(150_000, 20_000), rows.format(140_000, 20_000))
    assert lost(dsn) == {}
    first = one(dsn, "SELECT _part FROM requests WHERE request_id = '0'")
    tell(dsn, f"ALTER TABLE requests DETACH PART '{first}'")
    assert lost(dsn)["big"] == pytest.approx(140_000, rel=0.03)


@pytest.mark.parametrize(
    ("table", "words", "command"),
    [
        ("spans", "Spans are missing", "sojourn store load '{}' LOG --spans SPANS"),
        ("lines_received", "Counts of lines", "DROP DETACHED PART"),
        ("rollup_minute", "Dashboards show too little", "sojourn store load '{}' LOG"),
        ("records_received", "Whether records", "DROP DETACHED PART"),
        ("listen_queue", "Rows of that time are missing", "DROP DETACHED PART"),
    ],
)
def test_other_tables_have_their_own_remedy(dsn: str, table: str, words: str, command: str) -> None:
    arrive(dsn, "/a.jsonl", 0, 1)
    tell(dsn, *ROWS.get(table, ()))
    tell(dsn, f"ALTER TABLE {table} DETACH PARTITION ID '{one(dsn, PARTITION.format(table))}'")
    (advice,) = examine(dsn).advice
    assert f"of the table {table} " in advice.what
    assert advice.what.endswith(" put aside (detached by hand)")
    assert words in advice.why
    assert command.format(dsn) in advice.run


ROWS = {
    "spans": ["INSERT INTO spans (start, span_id) VALUES (now(), 's')"],
    "listen_queue": ["INSERT INTO listen_queue (time, socket) VALUES (now(), 'a')"],
    "rollup_minute": ["INSERT INTO rollup_minute (minute) VALUES (now())"],
}
PARTITION = "SELECT any(partition_id) FROM system.parts WHERE active AND table = '{}' AND database = currentDatabase()"


def test_a_damaged_table_of_arrivals_blames_no_file(dsn: str) -> None:
    """Without a part of line_runs, lines that arrived look as if they had not."""
    for first in (0, 10, 20):
        arrive(dsn, "/a.jsonl", first, 10, host="edge")
    assert examine(dsn).missing_lines == 0
    cut(dsn, "line_runs", 1)
    state = examine(dsn)
    assert one(dsn, "SELECT sum(lines) FROM line_gaps") == 10
    assert state.missing_lines is None
    ((what, run),) = advice_of(dsn)
    assert what == "1 part of the table line_runs is put aside (broken-on-start)"
    run_statements(dsn, run)
    assert (examine(dsn).missing_lines, examine(dsn).advice) == (None, [])


def test_a_part_that_cannot_be_read_is_named(dsn: str) -> None:
    """Its file has its length, so the engine does not put it aside by itself."""
    arrive(dsn, "/0.jsonl", 0, 100)
    arrive(dsn, "/1.jsonl", 100, 100)
    file = Path(ask(dsn, PATHS.format("requests"))[0][0]) / "data.bin"
    content = bytearray(file.read_bytes())
    for place in range(len(content) // 8, len(content)):
        content[place] ^= 0x5A
    with closed(dsn, "requests"):
        file.write_bytes(content)
    part = file.parent.name
    with pytest.raises(SojournError, match=rf"its engine cannot read the part {part} of the table requests "):
        split(dsn)
    (finding,) = [each for each in diagnose(dsn).findings if each.severity == "error"]
    assert finding.code == "store-damaged"
    assert f"cannot read the part {part} of the table requests" in finding.what
    run_statements(dsn, finding.fix)
    assert lost(dsn) == {"/0.jsonl": 100}


def test_a_store_that_lost_all_requests_is_not_called_an_empty_source(dsn: str) -> None:
    arrive(dsn, "/a.jsonl", 0, 1)
    cut(dsn, "requests", 0)
    done = CliRunner().invoke(app, ["split", dsn])
    assert isinstance(done.exception, SojournError)
    assert str(done.exception).startswith(
        "no request. The store is damaged: its engine has put aside 1 part of requests"
    )
    assert {each.code for each in diagnose(dsn).findings} == {"store-damaged", "listen-missing"}


def test_erasing_as_the_page_on_privacy_says_is_no_loss(store_dsn: str, tmp_path: Path) -> None:
    load(store_dsn, write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n"))
    page = (Path(__file__).parents[2] / "docs/how-to/privacy.md").read_text(encoding="utf-8")
    statements = (
        page.partition("## Erase one client")[2].partition("\n## ")[0].replace("…", "r1").split("\n    DELETE ")[1:]
    )
    assert len(statements) == 4
    tell(store_dsn, *(f"DELETE {each.split(';')[0]}" for each in statements))
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 1
    assert lost(store_dsn) == {}


def test_damage_of_an_empty_store(make_store: Callable[[], str]) -> None:
    with connect(make_store()) as store:
        assert damage(store) == []
