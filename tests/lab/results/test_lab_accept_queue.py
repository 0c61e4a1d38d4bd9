"""Figures of accept queues: of synthetic samples and rows first, then of whole scenarios on real servers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest
from lab_support import missed, needs_namespace, sound_run
from sojourn.host.sample import Listener, Sample
from sojourn_lab.results.analyses.accept_queue import kernel_figures, row_figures
from sojourn_lab.results.analyses.recordings import Recordings

pytestmark = pytest.mark.alone


def sample(time: float, depth: int, overflows: int, drops: int, **settings: int) -> Sample:
    nginx = Listener("nginx", "127.0.0.1", 80, 500, 511, 9)
    app = Listener("backend-1", "127.0.0.1", 8000, depth, 2, depth, 64)
    counters = {"ListenOverflows": overflows, "ListenDrops": drops, "SyncookiesSent": 7}
    return Sample(time, [nginx, app], counters, settings)


def test_kernel_counters_are_differences_and_exclude_nginx() -> None:
    figures = kernel_figures([sample(1.0, 0, 100, 110), sample(2.0, 3, 104, 120), sample(3.0, 1, 110, 130)])
    assert (figures["limit"], figures["room"], figures["deepest"], figures["beyond"]) == (2, 3, 3, 0)
    assert figures["full"] == pytest.approx(1 / 3)
    # ListenDrops include the overflows.
    assert (figures["overflows"], figures["drops"], figures["other_drops"]) == (10, 20, 10)
    assert (figures["cookies_sent"], figures["cookies_taken"], figures["syn_recv"]) == (0, None, 3)


def test_without_samples_every_figure_is_none() -> None:
    figures = kernel_figures([])
    assert {figures[name] for name in ("limit", "deepest", "beyond", "full", "overflows", "drops", "other_drops")} == {
        None
    }


def rows(*values: tuple[float | None, float, int]) -> pl.DataFrame:
    return pl.DataFrame(
        values, schema={"connect": pl.Float64, "request_time": pl.Float64, "status": pl.Int16}, orient="row"
    )


def test_connects_are_counted_at_the_step_they_follow() -> None:
    figures = row_figures(
        rows(
            (0.0, 0.1, 200),
            (1.016, 1.3, 200),
            (3.1, 3.2, 200),
            (7.32, 7.4, 200),
            (2.02, 2.1, 504),
            (0.7, 0.72, 200),
            (None, 1.0, 502),
            (None, 0.0, 502),
        )
    )
    eighth = 1 / 8
    assert {step for step, share in figures["steps"].items() if share} == {"1", "2", "3", "7"}
    assert figures["steps"]["1"] == figures["steps"]["7"] == eighth
    assert figures["by_response"]["1"] == 2 * eighth
    assert (figures["stepped"], figures["unexplained"], figures["valley"]) == (4, 1, eighth)
    assert (figures["bad_gateway"], figures["answered_share"], figures["requests"]) == (2, 5 * eighth, 8)


def test_case_uses_the_samples_around_its_window_and_earlier_settings(tmp_path: Path) -> None:
    samples = [
        sample(1.0, 0, 5, 5, somaxconn=2),
        sample(2.0, 3, 9, 9),
        sample(3.0, 0, 12, 12),
        sample(4.0, 0, 50, 50, somaxconn=128),
    ]
    (tmp_path / "kernel.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in samples))
    recordings = Recordings(tmp_path, [])
    inside = recordings.samples_between(2.2, 2.8)
    assert [each.time for each in inside] == [2.0, 3.0]
    assert kernel_figures(inside)["overflows"] == 3
    kernel = recordings.kernel(inside)
    assert kernel is not None
    assert kernel.settings["somaxconn"] == 2
    assert "cut" in {each.key for each in kernel.findings}
    assert Recordings(tmp_path / "nowhere", []).kernel() is None


def test_each_set_of_servers_has_its_own_counters(tmp_path: Path) -> None:
    def on(port: int, each: Sample) -> Sample:
        return msgspec.structs.replace(each, sockets=[msgspec.structs.replace(each.sockets[1], port=port)])

    blind = Sample(2.5, unavailable={"sockets": "netlink is not allowed here"})
    samples = [on(81, sample(1.0, 0, 5, 5)), on(81, sample(2.0, 3, 9, 9)), blind, on(82, sample(3.0, 0, 0, 0))]
    (tmp_path / "kernel.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in samples))
    groups = Recordings(tmp_path, []).by_servers()
    assert [[each.time for each in group] for group in groups] == [[1.0, 2.0], [3.0]]
    assert [kernel_figures(group)["overflows"] for group in groups] == [4, 0]


@pytest.mark.scenario
@needs_namespace
def test_modes_at_the_steps_of_the_kernel_s_timers_with_other_arrivals(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "accept-queue", "--quick", "--seed", "9")
    # The agreement of the two clocks at p99 depends on other programs of the machine.
    assert [each for each in missed(record) if "to 1 ms at p99" not in each["name"]] == []


@pytest.mark.scenario
@needs_namespace
def test_only_abort_on_overflow_gives_resets_and_502s(tmp_path: Path) -> None:
    assert missed(sound_run(tmp_path, "abort-on-overflow", "--quick", "--seed", "9")) == []


@pytest.mark.scenario
@needs_namespace
def test_a_backlog_cut_by_somaxconn_is_detected_with_another_limit(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "somaxconn", "--seed", "9")
    assert missed(record) == []
