"""Loading: what is loaded is there, exactly, once, whatever it holds."""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sojourn.model.errors import SojournError
from sojourn.readers.lines import Block
from sojourn.sources.requests import read
from sojourn.store import connect, load
from sojourn.store.senders import LineSender
from store_support import BASE, ask, one, record, tell, write_log

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from simulator import BAD_LINES, Settings, as_lines, simulated_log

FIGURES = """
    SELECT count(), sum(request_time), sum(app_service_time), uniqExact(request_id), sum(length(attempt_addr))
    FROM requests FINAL"""
ROLLED = "SELECT sum(requests), round(sum(response_seconds), 6), max(minute) FROM rollup_minute FINAL"


def test_loading_again_or_overlapping_changes_no_figure(store_dsn: str, tmp_path: Path) -> None:
    first = write_log(tmp_path / "a.jsonl", *(record(n) for n in range(300)))
    second = write_log(tmp_path / "b.jsonl", *(record(n) for n in range(200, 400)))
    load(store_dsn, first)
    once = ask(store_dsn, FIGURES), ask(store_dsn, ROLLED)
    assert once[0][0][:2] == (300, Decimal(150))
    assert load(store_dsn, first).requests == 300
    assert (ask(store_dsn, FIGURES), ask(store_dsn, ROLLED)) == once
    load(store_dsn, [second])
    load(store_dsn, [first, second])
    assert ask(store_dsn, FIGURES)[0][:2] == (400, Decimal(200))
    assert ask(store_dsn, ROLLED)[0][:2] == (400, 200.0)


def test_records_that_differ_are_not_one(store_dsn: str, tmp_path: Path) -> None:
    """Two proxies log one request id; without an id, anything that differs tells two records apart."""
    log = write_log(
        tmp_path / "a.jsonl",
        record(), record(proxy="inner"), record(request_time="0.499"), record(status="404"), record(connection="4"),
        record(upstream_addr="a:1, b:1", upstream_status="502, 200", upstream_connect_time="-, 0.0",
               upstream_header_time="-, 0.3", upstream_response_time="0.1, 0.3"),
        record(request_id=""), record(request_id="", uri="/x"), record(request_id="", remote_addr="10.0.0.9"),
        record(request_id="", service_time="0.2001"), record(request_id="", service_time="0.2001"),
    )  # fmt: skip
    load(store_dsn, log)
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 10


def test_every_value_as_the_reader_reads_it(store_dsn: str, tmp_path: Path) -> None:
    """The simulator's log (retries, uploads, ids) row by row against the canonical frame, exactly."""
    records, _ = simulated_log(Settings(requests=3000, retry_share=0.2))
    log = tmp_path / "a.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    load(store_dsn, log)
    rows = read(log).rows.with_columns(pl.col("uri").str.replace(r"\?.*", "")).collect().sort("request_id")
    columns = [
        "request_time", "status", "attempts", "retries", "connect", "header", "response", "app_queueing_delay",
        "app_service_time", "route", "uri", "worker", "upstream", "proxy", "service",
    ]  # fmt: skip
    result = ask(
        store_dsn,
        f"SELECT {', '.join(columns)}, toUnixTimestamp64Micro(time), toUnixTimestamp64Micro(start), "
        "toUnixTimestamp64Micro(request_start), toUnixTimestamp64Micro(proxy_start) "
        "FROM requests FINAL ORDER BY request_id",
    )
    instants = (pl.col(name).dt.epoch("us") for name in ("time", "start", "request_start", "proxy_start"))
    expected = rows.select(*columns, *instants).rows()
    assert len(result) == 3000
    for row, wanted in zip(result, expected, strict=True):
        for name, value, want in zip([*columns, *"tsrp"], row, wanted, strict=True):
            same = math.isclose(value, want, abs_tol=1e-9) if isinstance(want, float) else value == (want or "")
            assert same or value == want, (name, value, want)


# Few loads of many numbers.
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1 - 10**15, 10**15 - 1), min_size=100, max_size=200))
def test_decimals_are_exact(make_store_once: str, tmp_path: Path, micros: list[int]) -> None:
    values = {f"d{n}": Decimal(m).scaleb(-6) for n, m in enumerate(micros)}
    log = write_log(tmp_path / "a.jsonl", *(record(request_id=k, queueing_delay=str(v)) for k, v in values.items()))
    tell(make_store_once, "TRUNCATE TABLE requests")
    load(make_store_once, log)
    result = dict(ask(make_store_once, "SELECT request_id, app_queueing_delay FROM requests FINAL"))
    # What an IEEE double can hold of it, which is how every reader reads a number: to the microsecond below 2^33 s.
    for key, value in values.items():
        assert abs(result[key] - value) <= (0 if abs(value) < 2**32 else Decimal("0.000001"))


@pytest.fixture(scope="module")
def make_store_once(make_store) -> str:
    return make_store()


ODD_VALUES: list[tuple[dict[str, str], str, object]] = [
        ({"route": "'; DROP TABLE requests; --"}, "route", "'; DROP TABLE requests; --"),
        ({"uri": "/\x00\x1b[31m\u202e\\'\"`"}, "uri", "/\x00\x1b[31m\u202e\\'\"`"),
        ({"worker": "{x:String}"}, "worker", "{x:String}"),
        ({"service": "\N{SNOWMAN}" * 500}, "service", "\N{SNOWMAN}" * 500),
        ({"service_time": "1e300"}, "app_service_time", None),
        ({"service_time": "-1"}, "app_garbled", True),
        ({"bytes_sent": "99999999999999999999"}, "bytes_sent", None),
        ({"upstream_addr": "-", "upstream_response_time": "-"}, "attempt_addr", []),
        ({"upstream_header_time": "-"}, "attempt_header", [None]),
        ({"upstream_status": "-"}, "attempt_status", [0]),
        ({"upstream_status": "2e2"}, "attempt_status", [0]),
        ({"proxy_start": ""}, "proxy_start = request_start", True),
        ({"proxy_start": f"{BASE}.000"}, "proxy_start = request_start", False),
]  # fmt: skip


@pytest.fixture(scope="module")
def odd(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a record for each odd value, in their order."""
    dsn = make_store()
    records = (record(number, **changes) for number, (changes, _, _) in enumerate(ODD_VALUES))
    load(dsn, write_log(tmp_path_factory.mktemp("odd") / "a.jsonl", *records))
    return dsn


@pytest.mark.parametrize("number", range(len(ODD_VALUES)), ids=[f"{changes}" for changes, _, _ in ODD_VALUES])
def test_odd_values(odd: str, number: int) -> None:
    _, column, expected = ODD_VALUES[number]
    assert one(odd, f"SELECT {column} FROM requests FINAL WHERE request_id = 'r{number}'") == expected


def test_attempts_as_arrays(store_dsn: str, tmp_path: Path) -> None:
    lists = {
        "upstream_addr": "a:1, b:1 : c:1", "upstream_status": "502, 504 : 200",
        "upstream_connect_time": "-, 0.001 : 0.0", "upstream_header_time": "-, - : 0.3",
        "upstream_response_time": "0.01, 0.02 : 0.31",
    }  # fmt: skip
    without = {key: value for key, value in record(9).items() if not key.startswith("upstream_")}
    log = write_log(
        tmp_path / "a.jsonl",
        record(1, **lists),
        {**without, "upstream_response_time": "0.1, 0.2"},
        without | {"time": f"{BASE + 20}.000"},
    )
    load(store_dsn, log)
    d = Decimal
    assert ask(
        store_dsn,
        "SELECT attempt_addr, attempt_status, attempt_connect, attempt_header, attempt_response, attempts, upstream, "
        "retries FROM requests FINAL ORDER BY time",
    ) == [
        (["a:1", "b:1", "c:1"], [502, 504, 200], [None, d("0.001"), d(0)], [None, None, d("0.3")],
         [d("0.01"), d("0.02"), d("0.31")], 3, "c:1", 0.03),
        (["", ""], [0, 0], [None, None], [None, None], [d("0.1"), d("0.2")], 2, "", 0.1),
        ([], [], [], [], [], 0, "", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_bad_lines_are_dead_letters_and_stop_nothing(store_dsn: str, tmp_path: Path, packed: bool) -> None:
    """Each with its reason and the byte it begins at in the text, as often as it is loaded: once."""
    lines = [line for line, _ in BAD_LINES]
    text = b"".join([json.dumps(record(1)).encode() + b"\n", *lines, json.dumps(record(2)).encode() + b"\n", b'{"ti'])
    log = tmp_path / "a.jsonl"
    log.write_bytes(gzip.compress(text) if packed else text)
    for _ in range(2):
        loaded = load(store_dsn, log)
    assert (loaded.requests, loaded.dead_letters, loaded.records.rejected) == (2, len(lines) + 1, len(lines) + 1)
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 2
    result = ask(
        store_dsn, "SELECT position, reason, raw FROM dead_letters FINAL WHERE kind = 'requests' ORDER BY position"
    )
    reasons = [reason for _, reason in BAD_LINES] + ["incomplete_line"]
    assert [reason for _, reason, _ in result] == reasons
    for (position, _, raw), line in zip(result, [*lines, b'{"ti'], strict=True):
        assert text[position : position + len(line)] == line
        assert raw == re.sub("\ufffd+", "\ufffd", line.decode("utf-8", "replace")).rstrip("\r\n")


def test_lines_of_a_container_are_stored_as_bare_ones(store_dsn: str, tmp_path: Path) -> None:
    """In parts, too; a dead letter has its place in the file, and the line within."""
    lines = [json.dumps(record(1)), "bad", json.dumps(record(2)), json.dumps(record(3))]
    logged = [f"{line}\n" for line in lines[:3]] + [lines[3][:90], f"{lines[3][90:]}\n"]
    around = [json.dumps({"log": part, "stream": "stdout", "time": "2026-01-31T12:00:00Z"}) for part in logged]
    log = tmp_path / "container-json.log"
    log.write_text("".join(f"{line}\n" for line in around))
    for _ in range(2):
        loaded = load(store_dsn, log)
    assert (loaded.requests, loaded.dead_letters, loaded.records.read) == (3, 1, 4)
    letters = ask(store_dsn, "SELECT position, reason, raw FROM dead_letters FINAL")
    assert letters == [(len(around[0]) + 1, "invalid_json", "bad")]
    stored = ask(store_dsn, FIGURES)
    bare = write_log(tmp_path / "bare.jsonl", *(record(n) for n in (1, 2, 3)))
    load(store_dsn, bare)
    assert ask(store_dsn, FIGURES) == stored


def test_many_small_logs_in_one_insert_keep_their_names(store_dsn: str, tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"{n}.jsonl", record(n), b"bad\n") for n in range(300)]
    loaded = load(store_dsn, logs)
    assert (loaded.requests, loaded.dead_letters) == (300, 300)
    for table in ("requests", "dead_letters"):
        assert ask(store_dsn, f"SELECT source FROM {table} FINAL ORDER BY source") == sorted(
            (str(log),) for log in logs
        )


def test_a_line_without_end_of_any_size(store_dsn: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", record(1), b"x" * (3 << 20) + b"\n", record(2))
    assert load(store_dsn, log).requests == 2
    start = len(json.dumps(record(1))) + 1
    assert ask(store_dsn, "SELECT position, reason, length(raw) FROM dead_letters FINAL") == [
        (start, "line_too_long", 200)
    ]


def test_a_log_of_many_years(store_dsn: str, tmp_path: Path) -> None:
    """More days than an INSERT may have partitions by default."""
    log = write_log(tmp_path / "a.jsonl", *(record(n, time=f"{BASE - 86400 * n}.500") for n in range(150)))
    loaded = load(store_dsn, log)
    assert (loaded.requests, loaded.minutes) == (150, 150)
    assert one(store_dsn, "SELECT count() FROM rollup_minute FINAL") == 150


def test_a_load_that_breaks_off_is_completed_by_loading_again(
    store_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "a.jsonl", *(record(n) for n in range(1000)))
    load(store_dsn, write_log(tmp_path / "b.jsonl", record(0)))
    monkeypatch.setattr("sojourn.readers.lines.BLOCK_BYTES", 20_000)
    monkeypatch.setattr("sojourn.readers.lines.blocks_of_lines.__defaults__", (20_000, 1 << 20, None))
    monkeypatch.setattr("sojourn.store.senders.LineSender.__init__.__defaults__", (20_000,))
    insert, calls = LineSender._insert, []

    def broken(sender: LineSender, batch: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise SojournError("the network is down")
        return insert(sender, batch)

    with monkeypatch.context() as patch:
        patch.setattr(LineSender, "_insert", broken)
        with pytest.raises(SojournError, match="network"):
            load(store_dsn, log)
    there = one(store_dsn, "SELECT count() FROM requests FINAL")
    assert 1 < there < 1000
    load(store_dsn, log)
    assert one(store_dsn, "SELECT count() FROM requests FINAL") == 1000
    assert one(store_dsn, "SELECT sum(requests) FROM rollup_minute FINAL") == 1000


def test_a_store_that_fails_is_one_sentence(store_dsn: str, tmp_path: Path) -> None:
    tell(store_dsn, "DROP TABLE dead_letters SYNC")
    with pytest.raises(SojournError, match=r"into incoming .*loading again is safe.*tables are not those of this"):
        load(store_dsn, write_log(tmp_path / "a.jsonl", b"bad\n"))


@pytest.mark.parametrize("source", ["nowhere.jsonl", "chdb:///other"])
def test_rejects_sources_that_cannot_be_loaded(store_dsn: str, tmp_path: Path, source: str) -> None:
    with pytest.raises(SojournError, match=source.rsplit("/", maxsplit=1)[-1]):
        load(store_dsn, source)


def test_progress_is_reported(store_dsn: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.jsonl", *(record(n) for n in range(10)))
    sizes: list[int | None] = []
    positions: list[int] = []
    load(store_dsn, log, on_size=sizes.append, on_progress=positions.append)
    assert sizes == [log.stat().st_size]
    assert positions[-1] == log.stat().st_size


def test_the_store_is_left_open_for_others(store_dsn: str) -> None:
    """Two connections of one process to the same folder."""
    with connect(store_dsn) as one_of_them, connect(store_dsn) as other:
        assert one_of_them.client.query("SELECT 1").result_rows == other.client.query("SELECT 1").result_rows


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_an_insert_that_fails_beside_others_ends_the_load(
    store_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Two inserts run at the same time; whichever fails, the load ends and says so."""
    monkeypatch.setattr("sojourn.readers.lines.blocks_of_lines.__defaults__", (20_000, 1 << 20, None))
    monkeypatch.setattr("sojourn.store.senders.LineSender.__init__.__defaults__", (None, 1))  # an insert per block
    calls = iter(range(1, 1000))

    def table(source: str, block: Block) -> pa.Table:
        lines = {"line": block.lines}
        return pa.table({"unknown": block.lines} if next(calls) == failing else lines)

    monkeypatch.setattr("sojourn.store.senders._table", table)
    with pytest.raises(SojournError, match="loading into incoming"):
        load(store_dsn, write_log(tmp_path / "a.jsonl", *(record(n) for n in range(600))))
