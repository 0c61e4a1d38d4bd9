"""Lines into the canonical frame: nothing lost, everything refused has a reason, memory bounded."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from analysis_support import line, zstandard
from simulator import BAD_LINES, Settings, as_lines, simulated_log
from sojourn import SojournError, read
from sojourn.model.frame import COLUMNS, SCHEMA
from sojourn.readers import log_blocks as log_blocks_module
from sojourn.readers import spool as spool_module
from sojourn.readers.blocks import IDLE_PARSERS, BlockParser, Plan
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.lines import blocks_of_lines


def count(requests) -> int:
    return requests.rows.select(pl.len()).collect().item()


def test_good_lines_and_bad_ones_are_counted_exactly(tmp_path: Path) -> None:
    records, _ = simulated_log(Settings(requests=500))
    lines = as_lines(records)
    rng = random.Random(1)
    for raw, _ in BAD_LINES:
        lines.insert(rng.randrange(len(lines)), raw)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(lines))
    rejects = io.StringIO()
    requests = read(log, rejects_to=rejects)
    assert requests.records.to_dict() == {
        "read": 500 + len(BAD_LINES),
        "accepted": 500,
        "rejected": len(BAD_LINES),
        "reasons": dict(sorted(Counter(reason for _, reason in BAD_LINES).items())),
        "dropped": {},
        "set_apart": None,
    }
    assert count(requests) == 500
    written = [json.loads(text) for text in rejects.getvalue().splitlines()]
    assert len(written) == len(BAD_LINES)
    for reject in written:
        at = lines[reject["line"] - 1]
        assert at.rstrip(b"\r\n") == reject["raw"].encode() or b"\xff" in at
        assert (at, reject["reason"]) in BAD_LINES


@pytest.mark.parametrize(("raw", "reason"), BAD_LINES)
def test_every_bad_line_has_its_reason(tmp_path: Path, raw: bytes, reason: str) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() + raw + line())
    assert read(log).records.reasons == {reason: 1}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"request_time": "99999999999"}, "invalid_request_time"),
        ({"status": "2000"}, "invalid_status"),
        ({"status": "-1"}, "invalid_status"),
        ({"status": "20.5"}, "invalid_status"),
        ({"request_time": "-nan"}, "invalid_request_time"),
        ({"request_time": "1e400"}, "invalid_request_time"),
    ],
)
def test_values_nginx_cannot_have_written(tmp_path: Path, fields: dict[str, str], reason: str) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line(**fields) + line())
    assert read(log).records.reasons == {reason: 1}


@pytest.mark.parametrize(
    ("fields", "reason", "lost"),
    [
        ({"upstream_addr": "a:1", "upstream_response_time": "-0.5"}, "invalid_upstream_time", "response"),
        (
            {"upstream_addr": "a:1, b:1", "upstream_response_time": "-0.5, 0.1"},
            "invalid_upstream_time",
            "response",
        ),
        ({"upstream_addr": "a:1, b:1", "upstream_response_time": "0.5, "}, "invalid_upstream_time", "response"),
        ({"upstream_addr": "a:1", "upstream_response_time": "0.1 : 0.2"}, "upstream_lists_differ", "response"),
        ({"upstream_addr": "a:1", "upstream_header_time": "0.1, 0.2"}, "upstream_lists_differ", "header"),
        ({"upstream_addr": "a:1, b:1", "upstream_connect_time": "0.1"}, "upstream_lists_differ", "connect"),
        ({"proxy_start": "yesterday"}, "invalid_request_start", "proxy_start"),
        ({"request_start": "yesterday"}, "invalid_request_start", "request_start"),
    ],
)
def test_a_line_loses_a_value_that_nginx_cannot_have_written_and_its_request_remains(
    tmp_path: Path, fields: dict[str, str], reason: str, lost: str
) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line(**fields) + line())
    requests = read(log)
    assert (requests.records.reasons, requests.records.dropped) == ({}, {reason: 1})
    row, other = requests.rows.collect().to_dicts()
    assert (row[lost], row["dropped"]) == (None, reason)
    assert (row["request_time"], row["status"], other["dropped"]) == (other["request_time"], other["status"], None)
    if lost == "response":  # of the headers nothing would follow without it
        assert (row["header"], row["retries"]) == (None, 0.0)


def test_types_are_the_schema_and_values_are_exact(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(
        line(
            time="1767225660.123", request_time="2.500", request_start="1767225658.000", status="200",
            upstream_addr="10.0.0.1:80, 10.0.0.2:80 : [::1]:81", upstream_status="502, 504 : 200",
            upstream_connect_time="-, 0.000 : 0.001", upstream_header_time="-, - : 0.301",
            upstream_response_time="0.000, 1.250 : 0.400", queueing_delay="-0.052001", service_time="0.250000",
            worker="77.2", uri="/orders/123456?x=1", bytes_sent="10", connection="5", connection_requests="1",
        )
    )  # fmt: skip
    rows = read(log).rows.collect()
    assert dict(rows.schema) == SCHEMA
    row = rows.row(0, named=True)
    assert row["start"].timestamp() == 1767225657.623
    assert (row["upstream"], row["attempts"]) == ("[::1]:81", 3)
    assert (row["retries"], row["connect"], row["header"], row["response"]) == (1.25, 0.001, 0.301, 0.4)
    assert (row["app_queueing_delay"], row["app_service_time"]) == (-0.052001, 0.25)
    assert row["route"] == "/orders/:id"
    assert row["upstream_status"] == "502, 504 : 200"
    assert row["worker"] == "77.2"


def test_a_socket_path_and_a_bare_address_are_one_attempt(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    fields = {"upstream_connect_time": "0.000", "upstream_header_time": "0.1", "upstream_response_time": "0.1"}
    log.write_bytes(line(upstream_addr="unix:/run/app.sock", **fields) + line(upstream_addr="[fe80::1]:80", **fields))
    assert read(log).rows.select("upstream", "attempts").collect().rows() == [
        ("unix:/run/app.sock", 1),
        ("[fe80::1]:80", 1),
    ]


@pytest.mark.parametrize(
    ("uri", "route"),
    [
        ("/", "/"),
        ("/users/42", "/users/:id"),
        ("/v1/oauth2/token", "/v1/oauth2/token"),
        ("/items/0b5cbe1e-7e7a-4c2e-9a54-3d1f0f1f8f4c/edit", "/items/:id/edit"),
        ("/a/deadbeefdeadbeef", "/a/:id"),
        ("/files/user-12345.png?size=9#x", "/files/:id"),
        ("/s/averyveryverylongslugwithoutdigits", "/s/:id"),
        ("/healthz", "/healthz"),
    ],
)
def test_a_missing_route_becomes_a_template_never_the_uri(tmp_path: Path, uri: str, route: str) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line(uri=uri) + line(uri=uri, route="named"))
    assert read(log).rows.collect()["route"].to_list() == [route, "named"]


def test_numbers_that_are_not_strings_are_taken_too(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b'{"time":1767225660.123,"request_time":0.5,"status":200,"queueing_delay":0.25}\n')
    row = read(log).rows.collect().row(0, named=True)
    assert (row["status"], row["request_time"], row["app_queueing_delay"]) == (200, 0.5, 0.25)


def test_bytes_that_are_not_utf8_lose_nothing(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line(uri="/caf\u00e9") + line(uri="/X").replace(b"/X", b"/\xff\xfe") + line(uri="/last"))
    requests = read(log)
    assert requests.records.rejected == 0
    assert requests.rows.collect()["uri"].to_list() == ["/caf\u00e9", "/\ufffd", "/last"]


def test_app_headers_that_are_not_durations_cost_no_row(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line(queueing_delay="soon") + line(service_time="-1") + line(queueing_delay="-", service_time=""))
    rows = read(log).rows.collect()
    assert rows["app_garbled"].to_list() == [True, True, False]
    assert rows["app_queueing_delay"].null_count() == rows["app_service_time"].null_count() == 3


@pytest.mark.parametrize("packed", [lambda b: b, gzip.compress, zstandard])
def test_compression_goes_by_content_and_members_are_joined(tmp_path: Path, packed) -> None:
    log = tmp_path / "anything.log"
    log.write_bytes(packed(line(uri="/1") * 3) + packed(line(uri="/2") * 4))
    requests = read(log)
    assert requests.records.to_dict() == {
        "read": 7,
        "accepted": 7,
        "rejected": 0,
        "reasons": {},
        "dropped": {},
        "set_apart": None,
    }


@pytest.mark.parametrize("packed", [gzip.compress, zstandard])
def test_a_broken_compressed_log_keeps_what_came_before(tmp_path: Path, packed) -> None:
    rng = random.Random(5)
    whole = b"".join(line(request_id=f"{rng.getrandbits(128):032x}") for _ in range(20_000))
    data = packed(whole)
    log = tmp_path / "cut.log.gz"
    log.write_bytes(data[: len(data) // 2])
    requests = read(log)
    assert requests.records.reasons["damaged_compression"] == 1
    assert requests.records.reasons.get("incomplete_line", 0) <= 1
    assert 5_000 < requests.records.accepted < 20_000
    assert count(requests) == requests.records.accepted


def test_a_last_line_without_its_newline(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() + line().rstrip(b"\n"))
    assert read(log).records.to_dict()["accepted"] == 2
    log.write_bytes(line() + line()[:40])
    assert read(log).records.reasons == {"incomplete_line": 1}


def test_a_line_over_the_limit_is_refused_and_its_neighbours_are_not(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() + b"x" * (3 << 20) + b"\n" + line() + line(uri="/" + "y" * (2 << 20)) + line())
    requests = read(log)
    assert (requests.records.read, requests.records.reasons) == (5, {"line_too_long": 2})
    assert [reject["line"] for reject in requests.records.rejects] == [2, 4]
    assert all(len(str(reject["raw"])) <= 200 for reject in requests.records.rejects)


@pytest.mark.parametrize("block_bytes", [64, 1000, 4096])
def test_line_numbers_hold_across_small_blocks(tmp_path: Path, block_bytes: int) -> None:
    texts = [f"{'a' * (i % 90)}{i}\n".encode() for i in range(500)]
    texts[100] = b"z" * 5000 + b"\n"
    texts[499] = texts[499].rstrip(b"\n")
    log = tmp_path / "lines"
    log.write_bytes(b"".join(texts))
    inputs = opened_inputs([log])
    seen: dict[int, bytes] = {}
    for block in blocks_of_lines(inputs.logs[0], block_bytes=block_bytes, line_limit=2000):
        for number, text in zip(block.numbers.tolist(), block.lines.to_list(), strict=True):
            seen[number] = text.encode()
        for number, reason, _ in block.refused:
            assert reason == "line_too_long"
            seen[number] = texts[100]
    inputs.close()
    assert sorted(seen) == list(range(1, 501))
    assert [seen[n].rstrip(b"\n") for n in sorted(seen)] == [text.rstrip(b"\n") for text in texts]


def test_a_log_rotated_while_it_is_read(tmp_path: Path) -> None:
    """All files are opened first: renames in the middle lose nothing and count nothing twice."""
    for name, number in (("access.jsonl", 1), ("access.jsonl.1", 2)):
        (tmp_path / name).write_bytes(line(connection=str(number)) * 50)
    inputs = opened_inputs([str(tmp_path / "access.jsonl*")])
    (tmp_path / "access.jsonl.1").rename(tmp_path / "access.jsonl.2")
    (tmp_path / "access.jsonl").rename(tmp_path / "access.jsonl.1")
    (tmp_path / "access.jsonl").write_bytes(line(connection="3") * 7)
    texts = [text for log in inputs.logs for block in blocks_of_lines(log) for text in block.lines.to_list()]
    inputs.close()
    assert Counter(json.loads(text)["connection"] for text in texts) == {"1": 50, "2": 50}


def test_a_log_that_grows_while_it_is_read_ends_with_a_whole_line(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() * 3 + line()[:30])
    inputs = opened_inputs([log])
    with log.open("ab") as file:
        file.write(line()[30:] + line() * 100)
    blocks = list(blocks_of_lines(inputs.logs[0]))
    inputs.close()
    assert sum(len(block.lines) for block in blocks) == 4
    assert not any(block.open_end for block in blocks)


def test_a_log_cut_short_while_it_is_read_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() * 100)
    inputs = opened_inputs([log])
    os.truncate(log, 0)
    assert sum(block.count for block in blocks_of_lines(inputs.logs[0])) <= 100
    inputs.close()


def test_the_same_file_twice_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() * 5)
    (tmp_path / "link").symlink_to(log)
    assert read([log, str(tmp_path / "*"), tmp_path / "link"]).records.read == 5


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(line() * 2000))
    writer.start()
    try:
        assert read(pipe).records.accepted == 2000
    finally:
        writer.join()


def test_many_rows_go_to_disk_and_come_back_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records, _ = simulated_log(Settings(requests=3000))
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    held = read(log).rows.collect()
    monkeypatch.setattr(spool_module, "rows_in_memory", lambda _: 500)
    monkeypatch.setattr(spool_module, "ROWS_PER_FILE", 300)
    monkeypatch.setattr(log_blocks_module, "BLOCK_BYTES", 50_000)
    spooled = read(log)
    assert spooled.spool is not None
    assert len(list(Path(spooled.spool.name).iterdir())) > 3
    order = ["time", "request_id"]
    assert spooled.rows.collect().sort(order).equals(held.sort(order))
    folder = spooled.spool.name
    del spooled
    assert not os.path.exists(folder)


def test_a_run_folder_brings_its_log_and_its_spans(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "access.jsonl").write_bytes(line() * 2)
    (run / "spans.jsonl").write_bytes(b"")
    requests = read(run)
    assert requests.records.read == 2
    assert requests.spans is not None


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.jsonl", "no such file"),
        ("nothing*.jsonl", "no file matches"),
        (".", "not the folder of a run"),
        ("s3://bucket/a.jsonl", "neither a file nor a store"),
    ],
)
def test_a_source_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SojournError, match=words):
        read(source)


def test_no_source_at_all() -> None:
    with pytest.raises(SojournError, match="no source"):
        read([])


def test_parquet_goes_round(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line() * 4 + b"bad\n")
    first = read(log)
    first.rows.collect().write_parquet(tmp_path / "all.parquet")
    again = read(tmp_path / "all.parquet")
    assert again.rows.collect().equals(first.rows.collect())
    assert again.records.to_dict() == {
        "read": 4,
        "accepted": 4,
        "rejected": 0,
        "reasons": {},
        "dropped": {},
        "set_apart": None,
    }


def test_parquet_of_something_else_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(SojournError, match=r"with the columns a\. No column has the instant of a request"):
        read(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(SojournError, match="not a readable Parquet"):
        read(tmp_path / "b.parquet")
    strange = {"time": ["x"], "status": [200], "request_time": [0.1]}
    pl.DataFrame(strange).write_parquet(tmp_path / "c.parquet")
    with pytest.raises(SojournError, match="column 'time' is String"):
        read(tmp_path / "c.parquet")


def test_reads_only_the_selected_columns(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(line())
    assert read(log, columns=("time", "uri")).rows.collect_schema().names() == ["time", "uri"]
    assert set(COLUMNS) == set(SCHEMA)


def test_the_reader_writes_no_progress_of_its_engine_to_stdout() -> None:
    code = (
        "from sojourn.readers.blocks import reading_engine; "
        "print(reading_engine().execute(\"SELECT current_setting('enable_progress_bar')\").fetchone()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_next_log_gets_the_parser_that_was_planned_for_its_query() -> None:
    plans = [
        Plan(f"SELECT number + {added} AS n, number, NULL AS reason, line AS raw FROM block") for added in range(8)
    ]
    parsers = [BlockParser.take(plan) for plan in plans]
    for parser in parsers:
        parser.keep()
    again = [BlockParser.take(plan) for plan in plans]
    assert [parser is first for parser, first in zip(again, parsers, strict=True)] == [
        number >= len(plans) - IDLE_PARSERS for number in range(len(plans))
    ]
    lines = pl.DataFrame({"line": ["x"], "number": [1]})
    assert [parser.rows(lines)[0]["n"].item() for parser in again] == [1 + added for added in range(8)]
    for parser in again:
        parser.close()
    with pytest.raises(Exception, match=r"(?i)closed"):
        again[0].rows(lines)
