"""A ramp of users: the analysis of synthetic answers first, then a small ramp behind a real nginx."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab_support import sound_run
from sojourn_lab.errors import LabError
from sojourn_lab.results.analyses.capacity import instances, plateau_of, rise_of, users_at
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.load import ClosedLoad

RAMP = ClosedLoad(concurrency=60, from_concurrency=1)
PACED = ClosedLoad(concurrency=60, from_concurrency=1, think_time=0.225)


def answers(total: np.ndarray) -> np.ndarray:
    """Return instants of answers, `total` of which are before the instants 0, 0.01, 0.02 … s."""
    return np.interp(np.arange(1.0, total[-1]), total, np.arange(len(total)) * 0.01)


def test_users_join_evenly_over_the_measured_time() -> None:
    assert users_at(RAMP, np.array([0.0, 15.0, 30.0, 40.0]), 30.0).tolist() == [1.0, 30.5, 60.0, 60.0]


def test_a_constant_stream_is_a_plateau_however_many_users_there_are() -> None:
    result = plateau_of(answers(np.arange(3001) * 1.0), RAMP, 5, 30.0)
    assert result["early"]["throughput"] == pytest.approx(100.0, rel=0.01)
    assert result["ratio"] == pytest.approx(1.0, abs=0.01)
    assert result["more_users"] == pytest.approx(54.1 / 15.0)


def test_throughput_that_grows_with_the_users_is_no_plateau() -> None:
    at = np.arange(3001) * 0.01
    result = plateau_of(answers(at**2), RAMP, 5, 30.0)
    assert result["ratio"] > 3.0


def test_too_few_users_for_a_plateau_are_refused() -> None:
    with pytest.raises(LabError, match="above 10"):
        plateau_of(np.empty(0), ClosedLoad(concurrency=8, from_concurrency=1), 5, 30.0)


def test_users_without_queueing_give_one_answer_per_pause_and_service() -> None:
    at = np.arange(3001) * 0.01
    # N(t) / (Z + S), summed over time: N grows from 1 by 59 in 30 s.
    result = rise_of(answers((at + 59.0 / 60.0 * at**2) / 0.275), PACED, 5, 0.05, 30.0)
    assert result["ratio"] == pytest.approx(1.0, abs=0.02)
    assert result["r2"] > 0.99
    flat = rise_of(answers(np.arange(3001) * 0.5), PACED, 5, 0.05, 30.0)
    assert flat["r2"] is None or flat["r2"] < 0.0


def test_sizing_of_the_article_is_35_instances() -> None:
    assert instances(900.0) == 35
    assert instances(1250.0) == 25


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_throughput_is_flat_without_a_pause(tmp_path: Path) -> None:
    run = sound_run(tmp_path, "pacing", "--duration", "8", "--seed", "31")
    unpaced, paced = (case["figures"]["capacity"] for case in run["cases"])
    assert unpaced["plateau"]["more_users"] > 3.0
    assert unpaced["plateau"]["ratio"] == pytest.approx(1.0, abs=0.15)
    assert unpaced["saturation"] == pytest.approx(unpaced["law"], rel=0.15)
    assert paced["rise"]["r2"] > 0.7
    assert paced["sizing"]["article"] == 35
