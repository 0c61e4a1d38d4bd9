"""Clocks that drift, that are set, and whose offset is unknown; and the split with each of them."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import polars as pl
import pytest
import sojourn
from clock_support import EPOCH, Seen, Skew, example_log, lines_of, requests_through
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.analyses.clock.analysis import clock
from sojourn.analyses.clock.charts import band_table, line_table, offsets_over_time
from sojourn.analyses.clock.section import clock_section
from sojourn.cli import app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[4]
NEAR = 0.002  # s, promised


def split_of(folder: Path, *seen: Seen) -> sojourn.SplitResult:
    (folder / "access.jsonl").write_bytes(lines_of(list(seen)))
    return sojourn.split(folder / "access.jsonl", columns=("request_id",))


def misses(result: sojourn.SplitResult, seen: list[Seen]) -> list[float]:
    """Queueing delays as split less the truth, s; largest first."""
    outcome = dict(result.rows.select("request_id", "queueing_delay").collect().iter_rows())
    return sorted((abs(outcome[one.record["request_id"]] - one.queue) for one in seen), reverse=True)


def skewed(skew: Skew, **more: object) -> list[Seen]:
    return list(requests_through(skew, **{"requests": 3000, "rate": 14.0, **more}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [0.08, -0.08, *(pytest.param(each, marks=pytest.mark.thorough) for each in (1.5, -1.5)), 3600.0, -3600.0]
)
@pytest.mark.parametrize("rate", [6.0, 17.0], ids=["idle", "busy"])
def test_a_clock_that_was_set_is_right_on_both_sides(tmp_path: Path, change: float, rate: float) -> None:
    """Also for summer time: an app that goes by local time."""
    at = 100.0
    seen = skewed(lambda t: 0.02 + (change if t > at else 0.0), rate=rate)
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert [s["offset"] for s in row["segments"]] == pytest.approx([0.02, 0.02 + change], abs=NEAR)
    assert all(s["uncertainty"] < 0.003 for s in row["segments"])
    (step,) = row["steps"]
    assert step["change"] == pytest.approx(change, abs=2 * NEAR)
    (edge,) = [e for e in result.clock["segments"][0] if e["from"].timestamp() > EPOCH + 50]
    after = edge["from"].timestamp() - EPOCH
    # No request lies between the instant and its estimate, but for one that began in that very millisecond.
    assert sum(min(at, after) + 0.002 < one.begun < max(at, after) - 0.002 for one in seen) == 0
    worst = misses(result, seen)
    assert worst[1] < NEAR
    steady = split_of(tmp_path, *skewed(lambda _: 0.02, rate=rate))
    assert result.verdict.cause == steady.verdict.cause
    assert result.queueing_share == pytest.approx(steady.queueing_share, abs=1e-3)


@pytest.mark.parametrize("drift", [50e-6, -20e-6, 100e-6])
def test_a_drift_is_tracked_over_four_hours(tmp_path: Path, drift: float) -> None:
    seen = skewed(lambda t: 0.02 + drift * t, requests=6000, rate=6000 / 14_400)
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert row["drift"] == pytest.approx(drift, abs=1e-6)
    (segment,) = row["segments"]
    assert segment["drift_lower"] <= drift <= segment["drift_upper"]
    assert row["steps"] == []
    assert misses(result, seen)[0] < NEAR


def test_a_drift_that_changes_is_two_lines_and_no_step(tmp_path: Path) -> None:
    skew = lambda t: 50e-6 * min(t, 3600) - 30e-6 * max(t - 3600, 0)  # noqa: E731
    seen = skewed(skew, rate=3000 / 7200)
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert [s["drift"] for s in row["segments"]] == pytest.approx([50e-6, -30e-6], abs=2e-6)
    assert row["steps"] == []
    assert misses(result, seen)[0] < 2 * NEAR


def test_drift_and_a_step_together(tmp_path: Path) -> None:
    seen = skewed(lambda t: -100e-6 * t + (0.08 if t > 2000 else 0.0), rate=3000 / 3600)
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert [s["drift"] for s in row["segments"]] == pytest.approx([-100e-6] * 2, abs=3e-6)
    assert [s["change"] for s in row["steps"]] == pytest.approx([0.08], abs=2 * NEAR)
    assert misses(result, seen)[1] < NEAR


@settings(max_examples=20, deadline=None)
@given(
    skew=st.floats(-100, 100),
    rate=st.floats(1, 18),
    requests=st.integers(1, 300),
    tick=st.sampled_from([1e-3, 1e-6]),
    seed=st.integers(0, 1000),
)
def test_a_constant_skew_is_one_segment(skew: float, rate: float, requests: int, tick: float, seed: int) -> None:
    seen = skewed(lambda _: skew, requests=requests, rate=rate, tick=tick, seed=seed)
    rows = [json.loads(line) for line in lines_of(seen).splitlines()]
    frame = pl.DataFrame(
        {
            "time": [round(float(row["time"]) * 1e6) for row in rows],
            "status": [200] * len(rows),
            "request_time": [float(row["request_time"]) for row in rows],
            "request_start": [round(float(row["request_start"]) * 1e6) for row in rows],
            "proxy_start": [round(float(row["request_start"]) * 1e6) for row in rows],
            "upstream": "a",
            "attempts": 1,
            "connect": 0.0,
            **{name: [float(row["request_time"]) for row in rows] for name in ("header", "response")},
            "app_queueing_delay": [float(row["queueing_delay"]) for row in rows],
            "app_service_time": [float(row["service_time"]) for row in rows],
        }
    ).with_columns(
        pl.from_epoch(name, time_unit="us").dt.replace_time_zone("UTC")
        for name in ("time", "request_start", "proxy_start")
    )
    split = sojourn.components.split.checked_split(frame)
    (row,) = clock(split.lazy()).pairs
    assert len(row["segments"]) == 1
    assert row["drift"] == 0 or not row["idle"]
    assert row["lower"] - 1e-5 <= skew <= row["upper"] + 1e-5
    assert abs(row["offset"] - skew) <= row["uncertainty"] + 1e-5


def test_a_queue_never_empty_says_so_and_how_wide_the_interval_is(tmp_path: Path) -> None:
    seen = skewed(lambda _: 0.02, busy=0.4)
    result = split_of(tmp_path, *seen)
    outcome = clock(result.rows)
    (row,) = outcome.pairs
    assert row["idle"] is False
    assert row["uncertainty"] > 0.3
    section = clock_section(outcome)
    assert "1 had too little idle time to tell" in section.sentence
    assert any("Too little idle time" in note and "an interval of 36" in note for note in section.notes)
    assert any("never seen empty" in note for note in result.notes)
    assert misses(result, seen)[0] < NEAR  # the way back has no queue


def test_a_drift_shows_on_the_way_back_though_the_queue_is_never_empty(tmp_path: Path) -> None:
    seen = skewed(lambda t: 20e-6 * t, busy=0.4, rate=3000 / 3600)
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert (row["idle"], row["drift"]) == (False, pytest.approx(20e-6, abs=1e-6))
    assert misses(result, seen)[0] < NEAR


def test_two_proxies_have_two_clocks(tmp_path: Path) -> None:
    """One nginx was set: so its pair says, and the other's does not."""
    seen = [
        *skewed(lambda t: -0.5 if t > 80 else 0.0, proxy="edge-1", requests=2000),
        *skewed(lambda _: 0.1, proxy="edge-2", requests=2000, seed=2),
    ]
    result = split_of(tmp_path, *seen)
    one, other = result.to_dict()["clock"]
    assert (one["proxy"], len(one["steps"])) == ("edge-1", 1)
    assert (other["proxy"], other["steps"], other["offset"]) == ("edge-2", [], pytest.approx(0.1, abs=1e-3))
    section = clock_section(clock(result.rows))
    assert section.tables[0].rows[0][0] == "edge-1 → 10.0.0.1:80"
    assert misses(result, seen)[1] < NEAR


def test_a_late_look_at_the_clock_now_and_then_is_no_step(tmp_path: Path) -> None:
    """nginx, busy with something else, sees some headers 40 ms late and some stamps as much: single requests."""
    seen = skewed(lambda _: 0.02)
    for number in range(100, 3000, 500):
        record = seen[number].record
        record["upstream_header_time"] = f"{max(float(record['upstream_header_time']) - 0.04, 0):.6f}"
    (row,) = split_of(tmp_path, *seen).to_dict()["clock"]
    assert row["steps"] == []
    assert row["offset"] == pytest.approx(0.02, abs=NEAR)


def test_service_times_that_are_no_service_times_are_not_taken_for_steps(tmp_path: Path) -> None:
    """An app that counts the streaming of its answer as service: its end lies after the headers arrived."""
    seen = skewed(lambda _: 0.02)
    for number, one in enumerate(seen):
        one.record["service_time"] = f"{float(one.record['service_time']) + 0.1 * (number % 3):.6f}"
    result = split_of(tmp_path, *seen)
    (row,) = result.to_dict()["clock"]
    assert (len(row["segments"]), row["drift"], row["steps"]) == (1, 0, [])
    assert row["offset"] == pytest.approx(0.02, abs=NEAR)  # the upper bound does not know of service times
    assert any("disagrees" in failure for failure in result.audit.failures())
    assert any("disagrees" in failure for failure in clock_section(clock(result.rows)).failures)


def test_uneven_running_is_followed(tmp_path: Path) -> None:
    seen = skewed(lambda t: 0.05 * math.sin(t / 600), requests=5000, rate=5000 / 7200)
    result = split_of(tmp_path, *seen)
    assert result.to_dict()["clock"][0]["steps"] == []
    assert misses(result, seen)[0] < 2 * NEAR


def test_nothing_to_tell(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"time":"1767225600.1","request_time":"0.1","status":"200","request_start":"-","upstream_addr":"a:1"}\n'
    )
    result = clock(sojourn.split(tmp_path / "a.jsonl").rows)
    assert (result.pairs, result.silent) == ([], [{"proxy": None, "upstream": "a:1", "requests": 1}])
    section = clock_section(result)
    assert "clocks are unknown" in section.sentence
    assert "a:1" in section.notes[0]


def test_the_chart_shows_both_sides_of_a_step(tmp_path: Path) -> None:
    result = clock(split_of(tmp_path, *skewed(lambda t: 0.02 - (0.08 if t > 100 else 0.0))).rows)
    line = line_table(result, 0)
    assert line["offset"].to_list() == pytest.approx([20, 20, -60, -60], abs=2)
    band = band_table(result, 0)
    assert 200 < len(band) <= 301
    assert band["lower"].min() >= -60 - 0.3 * 81  # type: ignore[operator]
    assert len(offsets_over_time(result).to_dict()["vconcat"]) == 1


def test_the_command(tmp_path: Path) -> None:
    log = str(ROOT / "docs" / "examples" / "clocks.jsonl.gz")
    done = CliRunner().invoke(app, ["clock", log, "--json"])
    assert done.exit_code == 0
    shown = json.loads(done.stdout)
    drifting, stepped, busy = shown["clock"]
    assert drifting["drift"] == pytest.approx(40e-6, abs=1e-6)
    assert stepped["steps"][0]["change"] == pytest.approx(-0.08, abs=2 * NEAR)
    assert stepped["steps"][0]["at"].startswith("2026-01-01T00:30:0")
    assert set(stepped["segments"][0]) >= {"from", "to", "offset", "uncertainty", "drift"}
    assert busy["idle"] is False


def test_the_example_log_is_what_makes_it() -> None:
    assert gzip.decompress((ROOT / "docs" / "examples" / "clocks.jsonl.gz").read_bytes()) == example_log()
