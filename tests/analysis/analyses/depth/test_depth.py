"""Depth: Little's law, the exact simulator, queue length on arrival, and spans."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sojourn
from built_visits import NAN, built_visits, drawn_visits
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_simulator import PoolSettings, PoolTruth, Route, as_lines, simulated_pool, span_lines
from sojourn.analyses.depth.analysis import ALL, DepthResult, depth_of
from sojourn.analyses.depth.run import depth
from sojourn.analyses.depth.section import depth_section
from sojourn.timeline import visit_arrays
from sojourn.timeline.classes import OTHER
from sojourn.timeline.visits import Visits
from sojourn.timeline.windows import Windows
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner


def read(folder: Path, setting: PoolSettings, *, spans: bool = False) -> tuple[DepthResult, PoolTruth]:
    records, truth = simulated_pool(setting)
    (folder / "access.jsonl").write_bytes(b"".join(as_lines(records)))
    (folder / "app.jsonl").write_bytes(b"".join(span_lines(truth)))
    span_files = [folder / "app.jsonl"] if spans else []
    return depth(sojourn.split(folder / "access.jsonl", spans=span_files, columns=("request_id",)).rows), truth


def held(truth: PoolTruth) -> float:
    return math.fsum(r.free - r.begun for r in truth.requests)


# --- laws


def test_backends_beyond_the_limit_are_together_and_sums_include_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five backends with 1 to 5 requests, of which two have rows of their own."""
    backends = [code for code in range(5) for _ in range(code + 1)]
    rows = [(code, float(at), at + 0.5, at + 0.5, at + 3.0, "/") for at, code in enumerate(backends)]
    drawn = built_visits(*rows, workers=(1,) * 5)
    every = depth_of(drawn)
    monkeypatch.setattr(visit_arrays, "LARGEST", 2)
    bounded = depth_of(replace(drawn))
    assert [row["upstream"] for row in bounded.backends] == [*drawn.backends[3:], OTHER]
    assert bounded.backends[:2] == every.backends[3:]
    others = bounded.backends[2]
    for key in ("arrivals", "workers", "waiting", "in_service", "in_system"):
        assert others[key] == pytest.approx(sum(row[key] for row in every.backends[:3]))
    assert bounded.overall == pytest.approx(every.overall)
    assert [row["upstream"] for row in bounded.workers] == [*drawn.backends[3:]]
    assert not any(OTHER in note for note in depth_section(bounded).notes)


@settings(max_examples=120, deadline=None)
@given(drawn_visits())
def test_time_averages_obey_little_and_windows_add_up(drawn: Visits) -> None:
    result = depth_of(drawn)
    if not len(drawn):
        assert result.window is None
        return
    known = ~np.isnan(drawn.busy_end)
    assert result.window is not None
    seconds = (result.window[1] - result.window[0]).total_seconds()
    waited = np.maximum(drawn.wait, 0).sum()  # a wait below zero is no time in a queue
    served = drawn.held[known].sum()
    overall = result.overall
    if seconds > 0:
        # L = λW, with λ = n / T.
        assert overall["waiting"] * seconds == pytest.approx(waited, abs=1e-9)
        assert overall["in_service"] * seconds == pytest.approx(served, abs=1e-9)
        assert overall["in_system"] * seconds == pytest.approx(overall["gone"] * seconds + waited + served, abs=1e-9)
    for key in ("waiting", "in_service", "gone"):
        assert sum(row[key] for row in result.backends) == pytest.approx(overall[key], abs=1e-9)
    whole = result.over_time.filter(upstream=ALL)
    assert whole["arrivals"].sum() == len(drawn)
    assert whole["most_waiting"].max() == overall["most_waiting"]
    assert result.seen["requests"].sum() == len(drawn)
    assert depth_section(result).sentence


@settings(max_examples=80, deadline=None)
@given(drawn_visits())
def test_depth_over_time_equals_count_per_second(drawn: Visits) -> None:
    result = depth_of(drawn, width=1.0)
    rows = {(row["begin"], row["upstream"]): row for row in result.over_time.iter_rows(named=True)}
    for (begin, upstream), row in rows.items():
        second = (begin - drawn.base).total_seconds()
        current = np.array([upstream in (ALL, drawn.backends[b]) for b in drawn.backend], bool)
        waiting = int((current & (drawn.arrival <= second) & (second < drawn.wait_end)).sum())
        serving = int((current & (drawn.busy_start <= second) & (second < drawn.busy_end)).sum())
        if result.window and (result.window[1] - drawn.base).total_seconds() > second:
            assert row["waiting"] == pytest.approx(waiting, abs=1e-9)
            assert row["most_waiting"] == waiting
            assert row["in_service"] == pytest.approx(serving, abs=1e-9)


def test_queue_length_on_arrival() -> None:
    # One worker, 2 s each: the second finds one in service, the third one waiting as well, the fourth an empty system.
    rows = [
        (0, 0.0, 0.0, 0.0, 2.0, "/"),
        (0, 0.5, 2.0, 2.0, 4.0, "/"),
        (0, 1.0, 4.0, 4.0, 6.0, "/"),
        (0, 7.0, 7.0, 7.0, 9.0, "/"),
    ]
    result = depth_of(built_visits(*rows))
    assert result.seen.select("low", "high", "requests").rows() == [(0, 0, 3), (1, 1, 1)]
    assert result.backends[0]["seen_in_system"] == (0 + 1 + 2 + 0) / 4
    assert result.peak is not None
    assert (result.peak["waiting"], (result.peak["at"] - built_visits().base).total_seconds()) == (2, 1.0)


def test_simultaneous_arrivals_queue_one_after_another() -> None:
    rows = [(0, 0.0, float(i), float(i), i + 1.0, "/") for i in range(5)]
    seen = {row["low"]: row["requests"] for row in depth_of(built_visits(*rows)).seen.iter_rows(named=True)}
    assert seen == {0: 2, 1: 1, 2: 1, 3: 1}


def test_abandoned_request_remains_in_the_queue() -> None:
    rows = [(0, 0.0, 0.0, 0.0, 10.0, "/"), (0, 1.0, 3.0, 10.0, 12.0, "/"), (0, 5.0, 12.0, 12.0, 13.0, "/")]
    result = depth_of(built_visits(*rows))
    assert result.overall["gone"] * 13 == pytest.approx(7)
    assert result.overall["waiting"] * 13 == pytest.approx(2 + 7)
    assert result.seen.select("low", "requests").rows() == [(0, 2), (1, 1)]


def test_long_queues_are_binned() -> None:
    rows = [(0, i * 0.001, float(i), float(i), i + 1.0, "/") for i in range(730)]
    seen = depth_of(built_visits(*rows)).seen
    assert seen["low"].to_list() == [*range(10), 10, 20, 50, 100, 200, 500]
    assert seen["high"].to_list()[-1] == 728
    assert seen["requests"].sum() == 730


# --- against the truth


def test_time_averages_and_utilisation_equal_the_simulator(tmp_path: Path) -> None:
    result, truth = read(tmp_path, PoolSettings(requests=8_000))
    assert result.window is not None
    seconds = (result.window[1] - result.window[0]).total_seconds()
    assert result.overall["waiting"] == pytest.approx(math.fsum(truth.waits) / seconds, rel=0.01)
    assert result.overall["in_service"] == pytest.approx(held(truth) / seconds, rel=0.01)
    assert result.overall["utilisation"] == pytest.approx(held(truth) / seconds / 4, rel=0.01)
    assert result.overall["workers"] == 4
    rate = result.requests / seconds
    assert result.overall["waiting"] == pytest.approx(rate * result.overall["mean_wait"], rel=1e-6)


def test_random_arrivals_see_time_averages(tmp_path: Path) -> None:
    route = {"/": Route(1.0, 0.1)}
    result, _ = read(tmp_path, PoolSettings(routes=route, backends=1, workers=2, rate=14, skews=(0.0,)))
    assert result.overall["seen_in_system"] == pytest.approx(result.overall["in_system"], rel=0.05)
    assert depth_section(result).notes == ()


def test_regular_arrivals_see_less_than_time_averages(snapshot: SnapshotAssertion) -> None:
    # Constant services and arrivals taking turns find the queue shorter than it is on average.
    rows, free = [], 0.0
    for i in range(400):
        arrival = i // 2 * 2.0 + i % 2 * 1e-3
        begun = max(arrival, free)
        free = begun + 0.9
        rows.append((0, arrival, begun, begun, free, "/"))
    result = depth_of(built_visits(*rows))
    assert depth_section(result).notes == snapshot


def test_spans_show_workers_held_by_streaming(tmp_path: Path) -> None:
    setting = PoolSettings(requests=4_000, rate=12, streams={"/export": 2.0})
    without, truth = read(tmp_path, setting)
    result, _ = read(tmp_path, setting, spans=True)
    streamed = math.fsum(r.stream for r in truth.requests)
    assert streamed > 100
    assert result.held["body"] + result.held["after"] == pytest.approx(streamed, rel=0.001)
    assert without.held["body"] == pytest.approx(streamed, rel=0.001)
    assert result.window is not None
    seconds = (result.window[1] - result.window[0]).total_seconds()
    assert result.overall["in_service"] * seconds == pytest.approx(held(truth), rel=0.001)
    assert without.overall["in_service"] == pytest.approx(result.overall["in_service"], rel=0.001)


def test_without_service_time_service_lasts_until_the_answer() -> None:
    visits = built_visits((0, 0.0, 1.0, NAN, NAN, "/"), (0, 0.0, 1.0, 1.0, 2.0, "/"))
    visits = Visits(**{**visits.__dict__, "rows": visits.frame.with_columns(header=3.0)})
    result = depth_of(visits)
    assert result.overall["in_service"] * 3 == pytest.approx(1 + 2)
    assert result.silent == 1


# --- windows


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from([None, 0.1, 1.0, 60.0]))
def test_windows_cover_every_instant_and_begin_at_whole_multiples(
    first: float, length: float, width: float | None
) -> None:
    last = first + min(length, 1000 * (width or 1e6))
    windows = Windows.over(built_visits().base, first, last, seconds=width)
    assert windows.edges[0] <= first + 1e-6
    assert windows.edges[-1] >= last - 1e-6
    if width is None:
        assert windows.count <= 240
    begin = windows.begins[0].timestamp() / windows.seconds
    assert begin == pytest.approx(round(begin), abs=1e-3)


# --- the command


def test_command(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    from sojourn.cli import app  # noqa: PLC0415

    read(tmp_path, PoolSettings(requests=800))
    done = CliRunner().invoke(app, ["depth", str(tmp_path / "access.jsonl"), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert set(document) >= {"overall", "backends", "peak", "on_arrival", "over_time", "held_seconds", "workers"}
    assert document["visits"] == 800
    shown = CliRunner().invoke(app, ["depth", str(tmp_path / "access.jsonl"), "--workers", "2"], env={"COLUMNS": "100"})
    assert shown.stdout == snapshot


def test_draws_every_chart_and_reference_documents_every_key(tmp_path: Path) -> None:
    result, _ = read(tmp_path, PoolSettings(requests=800))
    pictures = depth_section(result).pictures
    assert [picture.key for picture in pictures] == ["depth-over-time", "depth-on-arrival", "workers"]
    for picture in pictures:
        assert len(json.dumps(picture.chart().to_dict())) < 300_000
    page = (Path(__file__).parents[4] / "docs/reference/depth.md").read_text()
    document = result.to_dict()
    nested = [
        document["overall"],
        document["backends"][0],
        document["peak"],
        document["on_arrival"][0],
        document["over_time"]["windows"][0],
    ]
    for key in {*document, *(key for row in nested for key in row)}:
        assert f"`{key}`" in page, key
