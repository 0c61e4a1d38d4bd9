"""What is said of accept queues: from made samples and rows first, then whole scenarios on real servers."""

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


def test_what_the_kernel_counted_is_what_was_added_and_nginx_is_not_the_app() -> None:
    found = kernel_figures([sample(1.0, 0, 100, 110), sample(2.0, 3, 104, 120), sample(3.0, 1, 110, 130)])
    assert (found["limit"], found["room"], found["deepest"], found["beyond"]) == (2, 3, 3, 0)
    assert found["full"] == pytest.approx(1 / 3)
    # ListenDrops include the overflows.
    assert (found["overflows"], found["drops"], found["other_drops"]) == (10, 20, 10)
    assert (found["cookies_sent"], found["cookies_taken"], found["syn_recv"]) == (0, None, 3)


def test_without_samples_nothing_is_claimed() -> None:
    found = kernel_figures([])
    assert {found[name] for name in ("limit", "deepest", "beyond", "full", "overflows", "drops", "other_drops")} == {
        None
    }


def rows(*told: tuple[float | None, float, int]) -> pl.DataFrame:
    return pl.DataFrame(
        told, schema={"connect": pl.Float64, "request_time": pl.Float64, "status": pl.Int16}, orient="row"
    )


def test_a_connect_belongs_to_the_step_it_follows() -> None:
    found = row_figures(
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
    assert {step for step, share in found["steps"].items() if share} == {"1", "2", "3", "7"}
    assert found["steps"]["1"] == found["steps"]["7"] == eighth
    assert found["by_response"]["1"] == 2 * eighth
    assert (found["stepped"], found["unexplained"], found["valley"]) == (4, 1, eighth)
    assert (found["bad_gateway"], found["answered_share"], found["requests"]) == (2, 5 * eighth, 8)


def test_a_case_is_told_by_the_samples_around_it_and_the_settings_before_it(tmp_path: Path) -> None:
    every = [
        sample(1.0, 0, 5, 5, somaxconn=2),
        sample(2.0, 3, 9, 9),
        sample(3.0, 0, 12, 12),
        sample(4.0, 0, 50, 50, somaxconn=128),
    ]
    (tmp_path / "kernel.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in every))
    recordings = Recordings(tmp_path, [])
    inside = recordings.samples_between(2.2, 2.8)
    assert [each.time for each in inside] == [2.0, 3.0]
    assert kernel_figures(inside)["overflows"] == 3
    found = recordings.kernel(inside)
    assert found is not None
    assert found.settings["somaxconn"] == 2
    assert "cut" in {each.key for each in found.findings}
    assert Recordings(tmp_path / "nowhere", []).kernel() is None


def test_each_set_of_servers_has_its_own_counters(tmp_path: Path) -> None:
    def on(port: int, each: Sample) -> Sample:
        return msgspec.structs.replace(each, sockets=[msgspec.structs.replace(each.sockets[1], port=port)])

    blind = Sample(2.5, unavailable={"sockets": "netlink is not allowed here"})
    every = [on(81, sample(1.0, 0, 5, 5)), on(81, sample(2.0, 3, 9, 9)), blind, on(82, sample(3.0, 0, 0, 0))]
    (tmp_path / "kernel.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in every))
    groups = Recordings(tmp_path, []).by_servers()
    assert [[each.time for each in group] for group in groups] == [[1.0, 2.0], [3.0]]
    assert [kernel_figures(group)["overflows"] for group in groups] == [4, 0]


@pytest.mark.scenario
@needs_namespace
def test_modes_at_the_steps_of_the_kernel_s_timers_with_other_arrivals(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "accept-queue", "--quick", "--seed", "9")
    # How well the two clocks agree at p99 is a matter of what else the machine does.
    assert [each for each in missed(record) if "to 1 ms at p99" not in each["name"]] == []


@pytest.mark.scenario
@needs_namespace
def test_resets_and_502s_come_with_abort_on_overflow_alone(tmp_path: Path) -> None:
    assert missed(sound_run(tmp_path, "abort-on-overflow", "--quick", "--seed", "9")) == []


@pytest.mark.scenario
@needs_namespace
def test_a_backlog_cut_by_somaxconn_is_detected_with_another_limit(tmp_path: Path) -> None:
    record = sound_run(tmp_path, "somaxconn", "--seed", "9")
    assert missed(record) == []
