"""Records whose instants jump: set apart where a clock was set, and nothing else is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from sojourn.cli import app
from sojourn.model.frame import INSTANT, Selection
from sojourn.readers import spool
from sojourn.sources.jumps import Extent, Jumps
from typer.testing import CliRunner
from watch_support import EPOCH, at, record

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
HOUR, DAY, YEAR = 3_600.0, 86_400.0, 365 * 86_400.0
TRIAL = [n * 0.6 for n in range(1_000)]  # ten minutes
DAYS = [n * 120.0 for n in range(5_000)]  # a week


def extent_of(*sources: Sequence[float], lasting: Mapping[float, float] | None = None) -> Extent | None:
    """Return the extent of sources; ``lasting``: end of a request -> s for which it lasted."""
    jumps = Jumps(Selection())
    for number, ends in enumerate(sources):
        for part in (ends[: len(ends) // 2], ends[len(ends) // 2 :]):
            time = [datetime.fromtimestamp(EPOCH + end, UTC) for end in part]
            start = [datetime.fromtimestamp(EPOCH + end - (lasting or {}).get(end, 0.0), UTC) for end in part]
            rows = pl.DataFrame({"time": time, "start": start}, schema={"time": INSTANT, "start": INSTANT})
            jumps.add(str(number), rows)
    return jumps.extent()


@pytest.mark.parametrize(
    ("ends", "far"),
    [
        (TRIAL, [HOUR]),
        (TRIAL, [-HOUR]),
        (TRIAL, [HOUR * n for n in (2, 3, 50)]),
        (TRIAL, [-YEAR, HOUR, 8 * YEAR]),
        (DAYS, [8 * YEAR]),
        (DAYS, [-9 * DAY - n for n in range(50)]),
        (TRIAL[:100], [HOUR]),
    ],
)  # fmt: skip
def test_sets_few_records_apart_that_are_far(ends: list[float], far: list[float]) -> None:
    extent = extent_of([*ends[:50], *far, *ends[50:]])
    assert extent is not None
    assert (extent.first, extent.last) == (at(ends[0]), at(ends[-1]))
    assert extent.set_apart.requests == len(far)
    assert (extent.set_apart.first, extent.set_apart.last) == (at(min(far)), at(max(far)))
    assert extent.set_apart.seconds == ends[-1] - ends[0]


HONEST = {
    "no request": [],
    "one request": [0.0],
    "three requests": [0.0, 1.0, YEAR],
    "a few requests": [*TRIAL[:98], 30 * DAY],
    "two trials with a night between": [*TRIAL, *(DAY + end for end in TRIAL)],
    "a long trial and a short one": [*TRIAL, *(DAY + end for end in TRIAL[:11])],
    "a sparse weekend": [*(n * 900.0 for n in range(96)), 40 * HOUR, 55 * HOUR, 56 * HOUR, 59 * HOUR, 66 * HOUR],
    "a week, and a request two days later": [*DAYS, DAYS[-1] + 2 * DAY],
    "a request soon after a trial": [*TRIAL, TRIAL[-1] + 590.0],
    "a burst and one request ten minutes later": [*(n / 1_000 for n in range(1_000)), 599.0],
}  # fmt: skip


@pytest.mark.parametrize("ends", HONEST.values(), ids=HONEST)
def test_sets_nothing_apart_that_a_log_can_have(ends: list[float]) -> None:
    assert extent_of(ends) is None


def test_long_request_bridges_the_gap() -> None:
    """A WebSocket, or a download, that began during the trial."""
    assert extent_of([*TRIAL, DAY], lasting={DAY: DAY - 300.0}) is None
    assert extent_of([*TRIAL, DAY], lasting={DAY: 300.0}) is not None


def test_log_of_another_day_beside_a_long_one_is_not_set_apart() -> None:
    other = [30 * DAY + n for n in range(5)]
    assert extent_of(TRIAL, other) is None
    # Of a log with some lines since its rotation, one is far.
    extent = extent_of(TRIAL, [*(TRIAL[-1] + n for n in range(20)), YEAR])
    assert extent is not None
    assert extent.set_apart.requests == 1


def log_of(path: Path, ends: Sequence[float]) -> Path:
    """Write requests of two durations: the significance of a trend in equal ones would be that of rounding."""
    lines = (record(EPOCH + end, service=0.01 + end // 1 % 2 / 1000, request_id=f"r{n}") for n, end in enumerate(ends))
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trial of ten minutes, of which one line is stamped an hour ahead, and one in the year 2095."""
    return log_of(tmp_path_factory.mktemp("jumps") / "access.jsonl", [*TRIAL[:500], HOUR, 2.2e9, *TRIAL[500:]])


SET_APART = {"requests": 2, "from": "2026-01-01T00:59:59.989Z", "to": "2095-09-18T23:06:40.000Z"}


def answer_of(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_split_has_the_figures_of_the_others_and_a_note(log: Path, tmp_path: Path) -> None:
    answer = answer_of("split", str(log))
    alone = answer_of("split", str(log_of(tmp_path / "access.jsonl", TRIAL)))
    assert answer["records"] == {**alone["records"], "read": 1_002, "accepted": 1_002, "set_apart": SET_APART}
    assert "set apart" in answer["notes"][0]
    same = ("requests", "window", "response_time", "components", "audit")
    assert {key: answer[key] for key in same} == {key: alone[key] for key in same}


def test_every_result_carries_the_sentence(log: Path) -> None:
    answer = answer_of("depth", str(log))
    assert answer["doubts"][0].startswith("2 records are set apart")
    assert answer["over_time"]["seconds"] < 60
    result = CliRunner().invoke(app, ["compare", str(log), str(log)])
    assert " ".join(result.output.split()).count("2 records are set apart") == 2


def with_far_line(path: Path, example: str) -> Path:
    """Write an example's log with its last line once more, 1e9 s later."""
    lines = gzip.decompress((EXAMPLES / example).read_bytes()).splitlines(keepends=True)
    last = json.loads(lines[-1])
    far = last | {name: f"{float(last[name]) + 1e9:.3f}" for name in ("time", "request_start")}
    path.write_bytes(b"".join(lines) + json.dumps(far | {"request_id": "far"}).encode() + b"\n")
    return path


def test_drawings_and_joined_logs_carry_the_sentence(log: Path, tmp_path: Path) -> None:
    sentence = sojourn.read(log).records.apart[0]
    page = tmp_path / "movie.html"
    assert sentence in answer_of("movie", str(log), "--out", str(page))["notes"]
    assert "2 records are set apart" in page.read_text(encoding="utf-8")
    assert answer_of("plot", str(log), "ccdf")["notes"] == [sentence]
    both = answer_of("plot", str(log), "ccdf", "--against", str(log), "--label", "a", "--label", "b")["notes"]
    assert both == [f"a: {sentence}", f"b: {sentence}"]
    printed = CliRunner().invoke(app, ["plot", str(log), "ccdf", "--out", str(tmp_path / "ccdf.json")]).output
    assert sentence in " ".join(printed.split())
    shop = with_far_line(tmp_path / "shop.jsonl", "shop.jsonl.gz")
    notes = answer_of("tiers", str(EXAMPLES / "shop-spans.jsonl.gz"), "--log", str(shop))["notes"]
    assert notes[0].startswith("1 record is set apart")
    wire = with_far_line(tmp_path / "wire.jsonl", "wire.jsonl.gz")
    result = answer_of("pcap", str(EXAMPLES / "wire.pcap.gz"), "--log", str(wire))
    assert sum(note.startswith("1 record is set apart") for note in result["notes"]) == 1


def test_since_selects_what_was_set_apart(log: Path) -> None:
    answer = answer_of("split", str(log), "--since", "2026-01-01T00:30:00Z", "--until", "2026-01-01T12:00:00Z")
    assert (answer["requests"], answer["records"]["set_apart"]) == (1, None)


def test_rows_on_disk_and_parquet_are_treated_alike(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sojourn.read(log)
    every = pl.concat([rows.rows.collect(), rows.rows.head(2).collect().with_columns(
        pl.col("time", "start") + pl.duration(days=400), request_id=pl.lit("far")
    )])  # fmt: skip
    every.write_parquet(tmp_path / "rows.parquet")
    parquet = sojourn.read(tmp_path / "rows.parquet")
    assert parquet.records.set_apart is not None
    assert parquet.records.set_apart.requests == 2
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY", 100)
    monkeypatch.setattr(spool, "ROWS_IN_MEMORY_AT_MOST", 100)
    many = sojourn.read(log)
    assert many.spool is not None
    assert not many.stored
    assert many.records.set_apart == rows.records.set_apart
    assert sojourn.split(many).requests == sojourn.split(log).requests == len(TRIAL)
