"""Rows of a store: all of them, once, in bounded pieces, or a refusal that says what to do."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import sojourn
from sojourn.model.frame import COLUMNS, SCHEMA
from sojourn.readers import spool as spool_module
from sojourn.sources import store_rows as rows_module
from sojourn.sources.store_rows import MINUTE, read_store
from sojourn.store import load
from split_support import (
    BAD_LINES,
    BASE,
    EPOCH,
    Settings,
    as_lines,
    differences,
    export,
    line,
    simulated_log,
    without_duplicates,
)


@pytest.fixture(scope="module")
def loaded(make_store: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    records, _ = simulated_log(Settings(requests=3000))
    folder = tmp_path_factory.mktemp("rows")
    log, reported = folder / "access.jsonl", folder / "spans.jsonl"
    log.write_bytes(b"".join(as_lines(records)) + b"".join(raw for raw, _ in BAD_LINES))
    reported.write_bytes(export(records[0]["request_id"], 1.0, 0.25, service_time=0.125, route="/reported", worker="w"))
    dsn = make_store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_REDACT", "off")  # what is stored is what the log holds
        load(dsn, log, spans=[reported])
    return log, dsn


ORDER = ["time", "request_id"]


def test_the_frame_is_the_logs(loaded: tuple[Path, str]) -> None:
    wanted, result = sojourn.read(loaded[0]), read_store(loaded[1])
    assert dict(result.rows.collect_schema()) == SCHEMA
    one, other = (requests.rows.collect().sort(ORDER).to_dicts() for requests in (wanted, result))
    assert list(differences(one, other)) == []
    assert result.records.to_dict() == wanted.records.to_dict()
    assert result.records.rejected == len(BAD_LINES)
    assert {r["raw"] for r in result.records.rejects} == {r["raw"] for r in wanted.records.rejects}
    assert result.spans is not None
    (span,) = result.spans.to_dicts()
    assert (span["span_seconds"], span["span_service_time"], span["span_route"], span["span_worker"]) == (
        0.25, 0.125, "/reported", "w",
    )  # fmt: skip
    assert (span["span_end"] - span["span_start"]).total_seconds() == 0.25


def test_chosen_columns_of_chosen_rows(loaded: tuple[Path, str]) -> None:
    arguments = {"columns": ("status", "upstream"), "since": EPOCH + 10, "where": {"upstream": "10.0.0.1:8080"}}
    wanted, result = (sojourn.read(source, **arguments).rows.collect() for source in loaded)  # type: ignore[arg-type]
    assert result.columns == ["status", "upstream"]
    assert len(result) == len(wanted) > 100


def test_rows_are_in_the_order_of_their_ends_whatever_columns_are_read(
    loaded: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "ROWS_PER_QUESTION", 500)
    ends = read_store(loaded[1], ("time", "request_id")).rows.collect()
    assert ends["time"].is_sorted()
    ids = read_store(loaded[1], ("request_id",)).rows.collect()
    assert ids.columns == ["request_id"]
    lone = ends.filter(pl.col("time").is_unique())["request_id"]
    assert ids["request_id"].filter(ids["request_id"].is_in(lone.implode())).to_list() == lone.to_list()
    assert sorted(ids["request_id"]) == sorted(ends["request_id"])


def test_pieces_hold_every_row_once_and_go_to_disk(loaded: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_store(loaded[1]).rows.collect().sort(ORDER)
    monkeypatch.setattr(rows_module, "ROWS_PER_QUESTION", 100)
    monkeypatch.setattr(spool_module, "rows_in_memory", lambda _: 500)
    monkeypatch.setattr(spool_module, "ROWS_PER_FILE", 300)
    outcome = read_store(loaded[1])
    assert outcome.spool is not None
    assert len(list(Path(outcome.spool.name).iterdir())) > 3
    assert outcome.rows.collect().sort(ORDER).equals(whole)
    result = sojourn.split(loaded[1])
    assert len(result.rows.collect()) == 3000  # the folder is there as long as the result


@pytest.mark.parametrize("limit", [1, 10, 1000])
@pytest.mark.parametrize(
    "minutes", [[], [(7, 1)], [(0, 3), (1, 9), (5, 10), (9, 11), (10, 1)], [(3, 35)], [(3, 35), (4, 2), (8, 1)]]
)
def test_slices_cover_every_minute_once(
    minutes: list[tuple[int, int]], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "ROWS_PER_QUESTION", limit)
    slices = list(rows_module._slices(minutes))
    assert all(begin < end for begin, end in slices)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(slices))
    for minute, count in minutes:
        covered = sum(max(0, min(end, (minute + 1) * MINUTE) - max(begin, minute * MINUTE)) for begin, end in slices)
        assert covered == MINUTE
        touching = [s for s in slices if s[0] < (minute + 1) * MINUTE and s[1] > minute * MINUTE]
        assert len(touching) >= count / limit
    for begin, end in slices:
        within = [count for minute, count in minutes if begin <= minute * MINUTE and (minute + 1) * MINUTE <= end]
        assert sum(within) <= limit or len(within) == 1


def test_too_many_rows_are_refused_with_the_way_out(
    loaded: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(sojourn.SojournError, match=r"3,000 requests .* 2,999 .*--since, --until or --where"):
        read_store(loaded[1], limit=2999)
    assert len(read_store(loaded[1], limit=3000).rows.collect()) == 3000
    monkeypatch.setattr(rows_module, "ROW_LIMIT", 100)
    with pytest.raises(sojourn.SojournError, match="more than the 100"):
        sojourn.read(loaded[1])
    with pytest.raises(sojourn.SojournError, match="more than the 100"):
        sojourn.split(loaded[1], all_columns=True)
    result = sojourn.split(loaded[1])
    assert result.requests == 3000
    with pytest.raises(sojourn.SojournError, match="more than the 100"):
        result.write_parquet(tmp_path / "r.parquet")
    assert not list(tmp_path.iterdir())
    assert sojourn.split(loaded[1], all_columns=True, until=EPOCH + 2).requests < 100
    monkeypatch.setattr(rows_module, "SPAN_LIMIT", 0)
    with pytest.raises(sojourn.SojournError, match="1 spans are more"):
        sojourn.read(loaded[1], until=EPOCH + 2)


def test_refused_lines_count_by_when_they_were_refused(store_dsn: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line() + b"bad\n{}\n")
    load(store_dsn, tmp_path / "a.jsonl")
    assert sojourn.split(store_dsn).records.to_dict() == sojourn.split(tmp_path / "a.jsonl").records.to_dict()
    past, now = sojourn.split(store_dsn, until=BASE + 60).records, sojourn.split(store_dsn, since=BASE + 60).records
    assert (past.accepted, past.rejected) == (1, 0)
    assert (now.accepted, now.reasons) == (0, {"invalid_json": 1, "missing_time": 1})


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sojourn", *map(str, arguments)],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "160"}, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.thorough
def test_the_command(tmp_path: Path) -> None:
    """In processes of their own: the embedded engine of this one holds its folder."""
    dsn, log = f"chdb://{tmp_path}/store", tmp_path / "a.jsonl"
    records, _ = simulated_log(Settings(requests=300))
    log.write_bytes(b"".join(as_lines(records)) + b"bad\n")
    script = "import sys; from sojourn.store import init, load; init(sys.argv[1]); load(sys.argv[1], sys.argv[2])"
    subprocess.run([sys.executable, "-c", script, dsn, str(log)], check=True, timeout=120)
    shown = (sojourn.split(log).to_dict(), json.loads(command("split", dsn, "--json").stdout))
    wanted, result = map(without_duplicates, shown)
    assert list(differences(wanted, result)) == []
    files = [tmp_path / name for name in ("r.html", "r.parquet", "bad.jsonl")]
    done = command("split", dsn, "--html", files[0], "--parquet", files[1], "--rejects", files[2])
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 301 lines refused: invalid_json 1" in done.stdout
    assert "(chdb:///" in done.stdout
    assert "<svg" in files[0].read_text()
    assert sojourn.split(files[1]).requests == 300
    assert json.loads(files[2].read_text()) == {
        "source": str(log), "position": os.path.getsize(log) - 4, "reason": "invalid_json", "raw": "bad",
    }  # fmt: skip
    nothing = command("split", dsn, "--where", "service=it's not")
    assert nothing.returncode == 1
    assert "no request is left" in nothing.stderr
    unknown = command("split", f"{dsn}?database=x")
    assert unknown.returncode == 1
    assert "sojourn store init" in unknown.stderr
    assert "Traceback" not in unknown.stderr


def test_every_column_can_be_fetched(loaded: tuple[Path, str]) -> None:
    assert read_store(loaded[1], columns=COLUMNS, until=EPOCH + 1).rows.collect().columns == list(COLUMNS)
