"""Lines of one shape are read the short way, and every figure is what the SQL makes of them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from simulator import Settings, as_lines, simulated_log
from sojourn.model.frame import COLUMNS, Records
from sojourn.readers import log_blocks
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.lines import Block, blocks_of_lines
from sojourn.readers.record import LIST_KEYS, RECORD, keys_needed
from sojourn.readers.shape import Shape, scanned
from sojourn.sources.requests import read
from wide_tables import one_of

LINES = as_lines(simulated_log(Settings(requests=300))[0])
VALUES = (
    "", "-", "0", "-0", "007", "1", "-1", "1.5", "1.", ".5", "1.1234567", "1e3", "NaN", "inf", "+1", " 1", "0x10",
    "12345678901", "999999999.999999", "1000000000", "1e300", "1767225600.123", "1767225600", "9999999999.999999",
    "200", "99", "1000", "0.001, 0.002", "0.1 : 0.2", "10.0.0.1:80, 10.0.0.2:80", "10.0.0.1:80 : 10.0.0.2:80",
    "[::1]:80", "unix:/run/a.sock", "/a/123/b?c=1#d", "/#x?y", "é", "\x1f", '"', "\\", "a\nb", "\x7f", "/Straße/αβγ",
    "123456789012345678", "12345678901234567890", "-, 0.1", "0.1, -", "0.1, ", ", 0.1", "0.1 : -, 0.2", "a, b, c",
    "a,b", "999999999, 999999999", "/long/enough\t\"x\"", "/😀/",
    "\x01", "\x7f\x80", "/\u2028/and/more", "-\n", ", ", " : ",
)  # fmt: skip
KEYS = list(json.loads(LINES[0]))


def both(
    monkeypatch: pytest.MonkeyPatch, log: Path, columns: Sequence[str] = COLUMNS
) -> list[tuple[pl.DataFrame, int, Records]]:
    """Rows, duplicates, reasons and refused lines: read the short way, and by the SQL alone."""
    result: list[tuple[pl.DataFrame, int, Records]] = []
    for worth in (0, 1 << 60):
        monkeypatch.setattr(log_blocks, "BYTES_WORTH", worth)
        got = read(log, columns=columns)
        result.append((got.rows.collect(), got.duplicates, got.records))
    return result


def check(log: Path, columns: Sequence[str] = COLUMNS) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 150_000)
        (rows, twice, records), (by_sql, twice_by_sql, records_by_sql) = both(monkeypatch, log, columns)
    assert_frame_equal(rows, by_sql)
    assert (twice, records) == (twice_by_sql, records_by_sql)


def written(log: Path, records: list[dict[str, str] | bytes]) -> Path:
    lines = (
        r if isinstance(r, bytes) else json.dumps(r, separators=(",", ":"), ensure_ascii=False).encode()
        for r in records
    )
    log.write_bytes(b"\n".join(lines) + b"\n")
    return log


def test_every_value_in_every_key(tmp_path: Path) -> None:
    records: list[dict[str, str] | bytes] = [json.loads(line) for line in LINES]
    for key in KEYS:
        records += [{**json.loads(LINES[number % len(LINES)]), key: value} for number, value in enumerate(VALUES)]
    random.Random(1).shuffle(records)
    check(written(tmp_path / "access.jsonl", records))


@pytest.mark.parametrize("key", ["request_time", "bytes_sent", "upstream_response_time"])
def test_numbers_of_every_length(tmp_path: Path, key: str) -> None:
    """Eight bytes of a number are read at once: each length, with and without a point, and with another byte."""
    digits = "9182736450918273645"
    numbers = [digits[:whole] + "." * (places > 0) + digits[:places] for whole in range(18) for places in range(8)]
    odd = [
        number[:position] + byte + number[position + 1 :]
        for number in ("1", "12345678", "123456789", "1234567890", "1.234", "12.345678", "1234567890.123")
        for position in range(len(number))
        for byte in "/:. é"
    ]
    records: list[dict[str, str] | bytes] = [
        {**json.loads(LINES[number % len(LINES)]), key: value} for number, value in enumerate((*numbers, *odd))
    ]
    check(written(tmp_path / "access.jsonl", records))


@pytest.mark.parametrize("ascii_only", [True, False])
def test_texts_with_an_interruption_at_every_place(tmp_path: Path, ascii_only: bool) -> None:
    texts = [
        "x" * before + byte + "y" * behind
        for byte in ("", '"', "\\", "\x01", "\x1f", " ", "\x7f", "\x80", "é", "z")
        for before in range(10)
        for behind in (0, 1, 7, 9)
    ]
    records = [{**json.loads(LINES[number % len(LINES)]), "uri": text} for number, text in enumerate(texts)]
    lines = [json.dumps(each, separators=(",", ":"), ensure_ascii=ascii_only).encode() for each in records]
    lines += [line.replace(b"\\u0001", b"\x01") for line in lines]
    check(written(tmp_path / "access.jsonl", [*lines]))


@settings(max_examples=5, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 299), st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=40),
    copies=st.lists(st.integers(0, 299), max_size=20),
    other=st.lists(
        st.tuples(
            st.integers(0, 299), st.sampled_from([b"", b"{}", b"[1]", b"null", b'{"time":1}', b"\xff\xfe", b"{" * 9])
        ),
        max_size=10,
    ),
    reverse=st.sets(st.integers(0, 299), max_size=9),
)
def test_lines_of_another_kind_among_them(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str, str]],
    copies: list[int],
    other: list[tuple[int, bytes]],
    reverse: set[int],
) -> None:
    records: list[dict[str, str] | bytes] = [json.loads(line) for line in LINES]
    for number, key, value in changes:
        records[number][key] = value  # type: ignore[index]
    for number in reverse:
        records[number] = dict(reversed(records[number].items()))  # type: ignore[union-attr]
    records += [records[number] for number in copies]
    for number, line in other:
        records.insert(number, line)
    check(written(tmp_path_factory.mktemp("log") / "access.jsonl", records))


@pytest.mark.parametrize("missing", ["upstream_addr", "upstream_response_time", "uri", "route", "request_id", "stamp"])
def test_a_log_without_a_key(tmp_path: Path, missing: str) -> None:
    records = [{k: v for k, v in json.loads(line).items() if k != missing} for line in LINES]
    check(written(tmp_path / "access.jsonl", [*records]))


def test_routes_made_of_paths(tmp_path: Path) -> None:
    paths = [value for value in VALUES if value.startswith("/")] + [
        "/a/b1c",
        "/a/b123",
        "/deadbeef01/x",
        "/" + "y" * 30,
    ]
    records: list[dict[str, str] | bytes] = [
        {**json.loads(LINES[k]), "route": "-", "uri": path} for k, path in enumerate(paths * 20)
    ]
    check(written(tmp_path / "access.jsonl", records))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\t", " :  ")])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_lines_with_blanks_and_escapes(tmp_path: Path, separators: tuple[str, str], ascii_only: bool) -> None:
    records = [json.loads(line) for line in LINES]
    for number, value in enumerate(VALUES):
        records[number] = {**records[number], "uri": value, "route": value}
    lines = [json.dumps(each, separators=separators, ensure_ascii=ascii_only).encode() for each in records]
    check(written(tmp_path / "access.jsonl", [*lines]))
    with opened(tmp_path / "access.jsonl") as block:
        result = scanned(block, (*COLUMNS, RECORD))
    assert result is not None
    assert len(result[1]) < len(VALUES) / 3


@pytest.mark.parametrize(
    "without",
    one_of(4, ["", "upstream_addr", "upstream_response_time", "upstream_header_time"]),
)
def test_requests_with_several_attempts(tmp_path: Path, without: str) -> None:
    """Every number of attempts in every list beside each other, those that do not agree included."""
    lists = {
        "upstream_addr": ("", "-", "10.0.0.1:80", "10.0.0.1:80, 10.0.0.2:80", "a : b, c"),
        "upstream_connect_time": ("", "-", "0.001", "0.001, 0.002", "-, -, 0.003"),
        "upstream_response_time": ("", "-", "0.010", "0.010, 0.020", "0.010 : 0.020, 0.030", "0.010, -"),
    }
    records: list[dict[str, str] | bytes] = []
    for number, values in enumerate(itertools.product(*lists.values())):
        record = {**json.loads(LINES[number % len(LINES)]), **dict(zip(lists, values, strict=True))}
        records.append({key: value for key, value in record.items() if key != without})
    log = written(tmp_path / "access.jsonl", [*LINES[:1], *records])
    check(log)
    usual = [json.loads(LINES[number]) for number in range(50)]
    retried = [{**each, **{key: f"{each[key]}, {each[key]}" for key in LIST_KEYS if key in each}} for each in usual]
    with opened(written(tmp_path / "retried.jsonl", [usual[0], *retried])) as block:
        result = scanned(block, (*COLUMNS, RECORD))
    assert result is not None
    assert not len(result[1])
    assert (result[0]["attempts"].to_list()[1:], set(result[0]["attempts"].to_list()[:1])) == ([2] * 50, {1})


def test_other_lines_of_several_blocks_are_parsed_together(tmp_path: Path) -> None:
    records: list[dict[str, str] | bytes] = [json.loads(line) for line in LINES]
    for number in range(0, 300, 10):
        records[number] = b'{"time":1' if number % 20 else json.dumps({**json.loads(LINES[number]), "more": 1}).encode()
    log = written(tmp_path / "access.jsonl", records)
    for lines in (1, 40, 1_000_000):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 20_000)
            monkeypatch.setattr(log_blocks, "LINES_AT_ONCE", lines)
            (rows, _, counts), (by_sql, _, counts_by_sql) = both(monkeypatch, log)
        assert_frame_equal(rows, by_sql)
        assert counts == counts_by_sql
        assert counts.reasons == {"invalid_json": 15}


def test_a_key_of_ones_own(tmp_path: Path) -> None:
    records = [{**json.loads(line), "tenant": str(k % 7)} for k, line in enumerate(LINES)]
    check(written(tmp_path / "access.jsonl", [*records]), ("time", "tenant"))


def test_the_table_of_lines_is_read_alike(tmp_path: Path) -> None:
    """Every line of the common table once more in a log of its own keys, so that each can go the short way."""
    table = json.loads((Path(__file__).parents[2] / "vectors/log_lines.json").read_text("utf-8"))
    lines = [case["line"].encode() for case in table["cases"] if "line" in case]
    check(written(tmp_path / "access.jsonl", [*lines]))
    objects = [value for line in lines if isinstance(value := loaded(line), dict)]
    texts = [{k: str(v).encode("utf-8", "replace").decode() for k, v in value.items()} for value in objects]
    assert len(texts) > 200
    check(written(tmp_path / "one-shape.jsonl", [{**json.loads(LINES[0]), **record} for record in texts]))


def loaded(line: bytes) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


@contextmanager
def opened(log: Path) -> Iterator[Block]:
    """Yield the only block of a log."""
    inputs = opened_inputs([log])
    (block,) = blocks_of_lines(inputs.logs[0])
    yield block
    inputs.close()


def test_nearly_all_lines_go_the_short_way(tmp_path: Path) -> None:
    with opened(written(tmp_path / "access.jsonl", [json.loads(line) for line in LINES])) as block:
        result = scanned(block, (*COLUMNS, RECORD))
    assert result is not None
    assert len(result[0]) > 0.7 * len(LINES)
    assert len(result[0]) + len(result[1]) == len(LINES)


@pytest.mark.parametrize(
    "line",
    [
        "{}", "[]", "", "{", '{"time":1,"request_time":"1","status":"200"}',
        '{"time":"1","time":"1","request_time":"1","status":"200"}',
        '{"ti\\u006de":"1","request_time":"1","status":"1"}',
        '{"time":"1","Time":"1","request_time":"1","status":"2"}', '{"TIME":"1","request_time":"1","status":"2"}',
        '{"time":"1","request_time":"1","Status":"200"}',
    ],
)  # fmt: skip
def test_lines_that_have_no_shape(line: str) -> None:
    assert Shape.of(line, keys_needed(COLUMNS)) is None


def test_rows_keep_their_order(tmp_path: Path) -> None:
    records: list[dict[str, str] | bytes] = [json.loads(line) for line in LINES]
    for number in range(0, 300, 3):
        records[number]["uri"] = '"'  # type: ignore[index]
    log = written(tmp_path / "access.jsonl", records)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(log_blocks, "BYTES_WORTH", 0)
        monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 1 << 20)
        ids = read(log).rows.select(pl.col("request_id")).collect().to_series().to_list()
    assert ids == [r["request_id"] for r in records if isinstance(r, dict)][: len(ids)]
