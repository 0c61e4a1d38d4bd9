"""What is delivered twice counts once, in whatever order it comes."""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import BASE, line
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator import Settings, as_lines, simulated_log
from sojourn.readers import duplicates, spool
from sojourn.readers.duplicates import each_once
from sojourn.readers.record import RECORD

LINES = as_lines(simulated_log(Settings(requests=400))[0])


def shown(*logs: list[bytes]) -> dict[str, object]:
    """The JSON of a split but for what counts lines."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, lines in enumerate(logs):
            paths.append(Path(folder) / f"{number}.jsonl")
            paths[-1].write_bytes(b"".join(lines))
        result = sojourn.split(paths).to_dict()
    del result["records"]
    return result


@functools.cache
def shown_once() -> dict[str, object]:
    """The JSON of a split of the lines, each once."""
    return shown(LINES)


@settings(max_examples=6, deadline=None)
@given(
    copies=st.lists(st.integers(0, len(LINES) - 1), max_size=600), seed=st.integers(0, 10_000), cut=st.integers(0, 400)
)
def test_the_split_of_lines_repeated_and_shuffled(copies: list[int], seed: int, cut: int) -> None:
    lines = LINES + [LINES[number] for number in copies]
    random.Random(seed).shuffle(lines)
    result = shown(lines[:cut], lines[cut:])
    audit = result["audit"]
    assert isinstance(audit, dict)
    assert audit.pop("duplicates") == len(copies)
    assert audit["checks"].pop()["value"] == len(copies)
    once = shown_once()
    wanted = dict(once, audit={k: v for k, v in once["audit"].items() if k != "duplicates"})  # type: ignore[attr-defined]
    wanted["audit"] = dict(wanted["audit"], checks=wanted["audit"]["checks"][:-1])  # type: ignore[index,call-overload]
    assert result == wanted_to_nine_digits(wanted, result)


def wanted_to_nine_digits(wanted: object, result: object) -> object:
    """``wanted``, with floats of ``result`` where they differ in the last digit kept: sums in another order."""
    if isinstance(wanted, dict) and isinstance(result, dict):
        return {key: wanted_to_nine_digits(value, result.get(key)) for key, value in wanted.items()}
    if isinstance(wanted, list) and isinstance(result, list) and len(wanted) == len(result):
        return [wanted_to_nine_digits(*pair) for pair in zip(wanted, result, strict=True)]
    if isinstance(wanted, float) and isinstance(result, float) and abs(wanted - result) < 2e-9:
        return result
    return wanted


def test_copies_are_counted_and_reported(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES + LINES[:7]))
    result = sojourn.split(tmp_path / "a.jsonl")
    assert (result.records.accepted, result.requests, result.audit.duplicates) == (407, 400, 7)
    (check,) = [c for c in result.audit.checks if c.name == "duplicates"]
    assert (check.verdict, check.value) == ("pass", 7)
    assert "7 records were copies" in check.sentence


def test_two_requests_with_one_id_are_two(tmp_path: Path) -> None:
    """A trusted client tries again with its id; and an id passes through two proxies."""
    alike = {"request_id": "a", "upstream_addr": "x:1", "connection": "1", "connection_requests": "1"}
    rows = [
        alike, {**alike, "connection_requests": "2"}, {**alike, "time": f"{BASE + 1}.000"},
        {**alike, "proxy": "edge-2"}, {**alike, "upstream_addr": "y:1"}, {**alike, "status": "504"},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_bytes(b"".join(line(**row) for row in rows) * 2)
    result = sojourn.split(tmp_path / "a.jsonl")
    assert (result.requests, result.audit.duplicates) == (6, 6)


def test_without_an_id_whole_lines_are_compared_as_far_as_a_connection_tells_them_apart(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        line(connection="1") + line(connection="1", uri="/other") + line(connection="1")[:-1] + b"\r\n" + line() * 3
    )
    result = sojourn.split(tmp_path / "a.jsonl")
    assert (result.requests, result.audit.duplicates) == (5, 1)


def test_duplicates_with_selection_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES * 2))
    whole = sojourn.split(tmp_path / "a.jsonl", all_columns=True)
    assert RECORD not in whole.rows.collect_schema()
    whole.write_parquet(tmp_path / "a.parquet")
    part = sojourn.split(tmp_path / "a.jsonl", where={"upstream": "10.0.0.1:8080"})
    assert part.audit.duplicates == whole.audit.duplicates == 400
    assert part.requests == whole.rows.filter(upstream="10.0.0.1:8080").collect().height
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes())
    again = sojourn.split([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert (again.requests, again.audit.duplicates) == (400, 400)


def test_rows_that_lie_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows: in files of a temporary folder, and looked through a part at a time."""
    monkeypatch.setattr(spool, "rows_in_memory", lambda _: 100)
    monkeypatch.setattr(spool, "ROWS_PER_FILE", 100)
    monkeypatch.setattr(duplicates, "RECORDS_AT_ONCE", 100)
    (tmp_path / "a.jsonl").write_bytes(b"".join(LINES))
    (tmp_path / "b.jsonl").write_bytes(b"".join(LINES[100:] + LINES[:100]))
    (tmp_path / "c.jsonl").write_bytes(b"".join(LINES[:5]))
    result = sojourn.split([tmp_path / f"{name}.jsonl" for name in "abc"])
    assert (result.requests, result.audit.duplicates) == (400, 405)
    assert result.response_time == pytest.approx(shown_once()["response_time"])


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 20), max_size=60), st.integers(1, 30))
def test_the_first_of_each_is_kept_in_order(records: list[int | None], at_once: int) -> None:
    rows = pl.LazyFrame({RECORD: records, "n": range(len(records))}, {RECORD: pl.UInt64(), "n": pl.Int64()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "RECORDS_AT_ONCE", at_once)
        kept, left_out = each_once(rows, len(records))
    wanted = [n for n, record in enumerate(records) if record is None or records.index(record) == n]
    assert kept.collect()["n"].to_list() == wanted
    assert left_out == len(records) - len(wanted)
