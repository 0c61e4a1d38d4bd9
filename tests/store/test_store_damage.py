"""A store whose tables are damaged: what is lost, what says so, and what brings it back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
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

HALF = "SELECT path FROM system.parts WHERE active AND table = '{}' AND database = currentDatabase() ORDER BY name"


@pytest.fixture
def dsn(store_dsn: str) -> Iterator[str]:
    """An empty store whose parts are not merged; parts that are put aside are dropped at the end."""
    tables = (*LOADED, "spans", "line_runs")
    tell(store_dsn, *(f"SYSTEM STOP MERGES {table}" for table in tables))
    yield store_dsn
    with connect(store_dsn) as store:
        parts = broken_parts(store)
    dropped = "ALTER TABLE {} DROP DETACHED PART '{}' SETTINGS allow_drop_detached = 1"
    tell(store_dsn, *(dropped.format(part.table, part.name) for part in parts))
    tell(store_dsn, *(f"SYSTEM START MERGES {table}" for table in tables))


def cut(dsn: str, table: str, number: int) -> None:
    """Cut the file of a part in half while the engine has the table closed, as a full disk or a power cut does."""
    path = Path(ask(dsn, HALF.format(table))[number][0])
    tell(dsn, f"DETACH TABLE {table}")
    with (path / "data.bin").open("r+b") as file:
        file.truncate((path / "data.bin").stat().st_size // 2)
    tell(dsn, f"ATTACH TABLE {table}", f"SYSTEM STOP MERGES {table}")


def shipped(dsn: str, file: str, first: int, count: int) -> None:
    """Insert lines as Vector does: each with its host, file, byte and length."""
    lines = [json.dumps(record(n)) for n in range(first, first + count)]
    rows = [[line, "edge", file, n * 500, 500] for n, line in enumerate(lines)]
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
    logs = [write_log(tmp_path / f"{k}.jsonl", *(record(100 * k + n) for n in range(100))) for k in range(3)]
    for log in logs:
        load(dsn, log)
    shipped(dsn, "/var/log/nginx/sojourn.jsonl", 300, 50)
    assert lost(dsn) == {}
    assert examine(dsn).advice == []
    cut(dsn, "requests", 2)
    cut(dsn, "requests", 1)
    assert one(dsn, "SELECT count() FROM requests FINAL") == 150
    assert lost(dsn) == {str(logs[1]): 100, str(logs[2]): 100}
    assert one(dsn, "SELECT sum(lost) FROM lost_records WHERE hour = toStartOfHour(toDateTime(1767225600, 'UTC'))") == 200

    state = examine(dsn)
    assert state.missing_lines == 0
    assert [each.what for each in state.advice] == [
        f"100 records of {log} arrived and are not stored any more" for log in logs[1:]
    ]
    assert "the engine has put aside 2 parts of requests" in state.advice[0].why
    assert CliRunner().invoke(app, ["store", "doctor", dsn]).exit_code == 1
    errors = [each for each in diagnose(dsn).findings if each.severity == "error"]
    assert [(each.code, each.fix) for each in errors] == [
        ("store-damaged", f"sojourn store load '{dsn}' {log}") for log in logs[1:]
    ]
    assert "its engine has put aside 2 parts of requests" in split(dsn).notes[0]

    load(dsn, logs[1:])
    assert lost(dsn) == {}
    diagnosis = diagnose(dsn)
    assert not diagnosis.broken
    assert "every record that arrived is stored" in diagnosis.checked
    ((what, run),) = advice_of(dsn)
    assert what == "2 parts of the table requests are put aside (broken-on-start)"
    run_statements(dsn, run)
    assert examine(dsn).advice == []
    assert split(dsn).records.warnings == []


def test_records_of_a_shipper_are_lost_on_its_machine(dsn: str) -> None:
    """Lines of an agent have a host; the same requests are stored under another name when the file is loaded there."""
    shipped(dsn, "/log/a.jsonl", 0, 20)
    shipped(dsn, "/log/a.jsonl", 20, 20)
    tell(dsn, "ALTER TABLE requests DETACH PARTITION ID '20260101'")
    assert lost(dsn) == {"edge:/log/a.jsonl": 40}
    ((what, run),) = advice_of(dsn)
    assert what == "40 records of /log/a.jsonl (on edge) arrived and are not stored any more"
    assert run == f"sojourn store load '{dsn}' /log/a.jsonl"
    with connect(dsn) as store:
        rows = [[json.dumps(record(n)), "/log/a.jsonl"] for n in range(40)]
        store.client.insert("incoming", rows, column_names=["line", "file"])
    assert lost(dsn) == {}


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
    init(dsn, keep_days=3)
    tell(dsn, "SYSTEM START MERGES requests", "OPTIMIZE TABLE requests FINAL")
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
    first = one(dsn, "SELECT min(name) FROM system.parts WHERE active AND table = 'requests' AND database = currentDatabase() AND rows = 150000")
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
def test_other_tables_have_their_own_remedy(dsn: str, tmp_path: Path, table: str, words: str, command: str) -> None:
    span = {
        "traceId": "t", "spanId": "s", "name": "GET", "kind": 2, "startTimeUnixNano": f"{BASE}000000000",
        "endTimeUnixNano": f"{BASE + 1}000000000",
    }  # fmt: skip
    spans = write_log(tmp_path / "s.jsonl", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode())
    load(dsn, write_log(tmp_path / "a.jsonl", record(1)), spans=[spans])
    tell(dsn, "INSERT INTO listen_queue (time, socket) VALUES (now(), 'a')")
    tell(dsn, f"ALTER TABLE {table} DETACH PARTITION ID '{one(dsn, PARTITION.format(table))}'")
    (advice,) = examine(dsn).advice
    assert advice.what == f"{len(parts_of(dsn))} part{'s' * (len(parts_of(dsn)) > 1)} of the table {table} " + (
        "are" if len(parts_of(dsn)) > 1 else "is"
    ) + " put aside (detached by hand)"
    assert words in advice.why
    assert command.format(dsn) in advice.run
    (finding,) = [each for each in diagnose(dsn).findings if each.severity == "error"]
    assert finding.code == "store-damaged"


PARTITION = "SELECT any(partition_id) FROM system.parts WHERE active AND table = '{}' AND database = currentDatabase()"


def parts_of(dsn: str) -> list[tuple[object, ...]]:
    return ask(dsn, "SELECT name FROM broken_parts")


def test_a_damaged_table_of_arrivals_blames_no_file(dsn: str) -> None:
    """Without a part of line_runs, lines that arrived look as if they had not."""
    for first in (0, 10, 20):
        lines = [[json.dumps(record(n)), "edge", "/a.jsonl", n * 100, 100] for n in range(first, first + 10)]
        with connect(dsn) as store:
            store.client.insert("incoming", lines, column_names=["line", "host", "file", "position", "line_bytes"])
    assert examine(dsn).missing_lines == 0
    cut(dsn, "line_runs", 1)
    state = examine(dsn)
    assert one(dsn, "SELECT sum(lines) FROM line_gaps") == 10
    assert state.missing_lines is None
    ((what, run),) = advice_of(dsn)
    assert what == "1 part of the table line_runs is put aside (broken-on-start)"
    run_statements(dsn, run)
    assert (examine(dsn).missing_lines, examine(dsn).advice) == (None, [])


def test_a_part_that_cannot_be_read_is_named(dsn: str, tmp_path: Path) -> None:
    """Its file has its length, so the engine does not put it aside by itself."""
    logs = [write_log(tmp_path / f"{k}.jsonl", *(record(100 * k + n) for n in range(100))) for k in range(2)]
    for log in logs:
        load(dsn, log)
    file = Path(ask(dsn, HALF.format("requests"))[0][0]) / "data.bin"
    content = bytearray(file.read_bytes())
    for place in range(len(content) // 8, len(content)):
        content[place] ^= 0x5A
    tell(dsn, "DETACH TABLE requests")
    file.write_bytes(content)
    tell(dsn, "ATTACH TABLE requests", "SYSTEM STOP MERGES requests")
    part = file.parent.name
    with pytest.raises(SojournError, match=rf"its engine cannot read the part {part} of the table requests \(Checksum"):
        split(dsn)
    (finding,) = [each for each in diagnose(dsn).findings if each.severity == "error"]
    assert finding.code == "store-damaged"
    assert f"cannot read the part {part} of the table requests" in finding.what
    run_statements(dsn, finding.fix)
    assert lost(dsn) == {str(logs[0]): 100}


def test_a_store_that_lost_all_requests_is_not_called_an_empty_source(dsn: str, tmp_path: Path) -> None:
    load(dsn, write_log(tmp_path / "a.jsonl", record(1)))
    cut(dsn, "requests", 0)
    done = CliRunner().invoke(app, ["split", dsn])
    assert isinstance(done.exception, SojournError)
    assert str(done.exception).startswith("no request. The store is damaged: its engine has put aside 1 part of requests")
    assert {each.code for each in diagnose(dsn).findings} == {"store-damaged", "listen-missing"}


def test_erasing_as_the_page_on_privacy_says_is_no_loss(dsn: str, tmp_path: Path) -> None:
    load(dsn, write_log(tmp_path / "a.jsonl", record(1), record(2), b"bad\n"))
    page = (Path(__file__).parents[2] / "docs/how-to/privacy.md").read_text(encoding="utf-8")
    statements = page.partition("## Erase one client")[2].partition("\n## ")[0].replace("…", "r1").split("\n    DELETE ")[1:]
    assert len(statements) == 4
    tell(dsn, *(f"DELETE {each.split(';')[0]}" for each in statements))
    assert one(dsn, "SELECT count() FROM requests FINAL") == 1
    assert lost(dsn) == {}


def test_damage_of_an_empty_store(make_store: Callable[[], str]) -> None:
    with connect(make_store()) as store:
        assert damage(store) == []
