"""Stretches without a line: reported where lines are missing, not where load or backends pause by nature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sojourn
from sojourn.analyses.depth.section import depth_section
from sojourn.model.errors import SojournError
from sojourn.timeline.silences import silences
from worker_log import WorkerSystem, worker_log


def poisson(rate: float, seconds: float, seed: int, took: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrived = np.sort(rng.uniform(0, seconds, int(rate * seconds)))
    return arrived, arrived + rng.exponential(took, len(arrived))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_finds_each_stretch_of_missing_lines(seed: int) -> None:
    arrived, ended = poisson(40, 200, seed)
    kept = ended % 50 > 8
    stretches = silences(arrived[kept], ended[kept])
    assert len(stretches) == 3
    for number, each in enumerate(stretches, 1):
        assert (each.begin, each.end) == pytest.approx((number * 50, number * 50 + 8), abs=0.5)


@pytest.mark.parametrize("rate", [0.5, 5, 40, 2_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_arrivals_have_none(rate: float, seed: int) -> None:
    assert silences(*poisson(rate, 4_000 / rate, seed)) == []


def test_few_requests_have_none() -> None:
    assert silences(np.array([0.0, 100.0]), np.array([1.0, 101.0])) == []
    assert silences(np.array([]), np.array([])) == []


def test_backend_that_pauses_is_no_silence() -> None:
    """Requests arrive meanwhile, and end together."""
    arrived, ended = poisson(40, 200, 4)
    paused = (ended > 100) & (ended < 108)
    ended[paused] = 108 + (ended[paused] - 100) / 100
    assert silences(arrived, ended) == []


def test_night_without_traffic_after_a_quiet_evening_is_none() -> None:
    arrived, ended = poisson(40, 100, 5)
    quiet, quiet_ended = poisson(0.1, 3_000, 6)
    assert silences(np.append(arrived, 100 + quiet), np.append(ended, 100 + quiet_ended)) == []


def _with_lines_missing(folder: Path) -> Path:
    whole = folder / "whole.jsonl"
    worker_log(whole, WorkerSystem(requests=8_000, load=0.7, seed=7))
    records = whole.read_text().splitlines(keepends=True)
    third = len(records) // 3
    log = folder / "missing.jsonl"
    log.write_text("".join(records[:third] + records[third + 1_000 :]))
    return log


def test_depth_laws_and_capacity_say_so(tmp_path: Path) -> None:
    log = _with_lines_missing(tmp_path)
    depth = sojourn.depth(log)
    assert depth.silence is not None
    assert depth.overall["lower_bound"]
    assert any("lines are missing" in failure for failure in depth_section(depth).failures)
    laws = sojourn.laws(log)
    reasons = {each.reason for station in laws.stations for each in station.predictions}
    assert reasons == {depth.silence}
    whole, missing = (sojourn.capacity(each) for each in (tmp_path / "whole.jsonl", log))
    assert any(note.startswith("Not counted: windows of load in which") for note in missing.notes)
    assert missing.quiet == pytest.approx(whole.quiet, rel=0.25)
    assert not any("Not counted" in note for note in whole.notes)


def test_capacity_of_a_log_that_is_mostly_missing_is_an_error(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    worker_log(whole, WorkerSystem(requests=8_000, load=0.7, seed=8))
    records = whole.read_text().splitlines(keepends=True)
    log = tmp_path / "missing.jsonl"
    log.write_text("".join(record for number, record in enumerate(records) if number % 1_000 < 120))
    with pytest.raises(SojournError, match="no window of load is left"):
        sojourn.capacity(log, window=10.0)
