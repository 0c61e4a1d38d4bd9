"""Long logs: windows of time that are inferred one after the other, and joined."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import sojourn
from plain_example import EXAMPLES, WORKERS, plain_log
from sojourn.components.inferred import visits as backend_visits
from sojourn.estimation.checks import Check
from sojourn.estimation.engine import infer
from sojourn.estimation.inferred import INFERRED, LOWER_BOUND, REFUSED, Inference, Window
from sojourn.estimation.stretches import Stretch, joined
from studies.inference import simulators as simulate

EXAMPLE = EXAMPLES / "plain.log.gz"


def stretch(
    number: int, verdict: str = INFERRED, workers: int = 4, ends: tuple[int, int | None] = (4, 4), mean: float = 0.1
) -> Stretch:
    none = np.zeros(0)
    result = Inference(
        np.zeros(0, np.int64), none, none, none, verdict, f"Reason {number}.", workers=workers, lowest=ends[0],
        highest=ends[1], mean_range=(mean, mean + 0.01), p99_range=(1.0, 1.0), excess=(mean, 0.003),
        checks=(Check("service_drift", number / 100, failed=False),), contradictions=number,
    )  # fmt: skip
    return Stretch(
        result, 1_000, math.nan if verdict == REFUSED else mean, 1.0, 100.0 * number, 100.0 * number + 99, 2.0
    )


def test_stretches_with_one_number_of_workers_are_one_queue() -> None:
    whole = joined([stretch(0), stretch(1, ends=(4, 5), mean=0.3), stretch(2, workers=5, ends=(4, None))], 2.0)
    assert (whole.verdict, whole.workers, whole.lowest, whole.highest, whole.windows) == (INFERRED, 4, 4, 4, ())
    assert whole.mean_range == pytest.approx((0.5 / 3, 0.5 / 3 + 0.01))
    assert whole.p99_range == pytest.approx((2.0, 2.0))
    assert whole.excess == pytest.approx((0.5 / 3, 0.003 / math.sqrt(3)))
    assert whole.contradictions == 3


def test_disjoint_numbers_of_workers_are_windows() -> None:
    numbers = [(2, (2, 2)), (2, (2, 3)), (5, (4, None))]
    whole = joined([stretch(k, workers=each, ends=ends) for k, (each, ends) in enumerate(numbers)], 1.0)
    assert whole.windows == (Window(0.0, 199.0, 2, 2, 2), Window(200.0, 299.0, 5, 4, None))
    assert (whole.lowest, whole.highest) == (2, None)
    assert "changed (2, 5)" in whole.reason


def test_few_refused_stretches_are_left_out_and_many_refuse_the_log() -> None:
    few = joined([stretch(0, REFUSED), *(stretch(k) for k in range(1, 12))], 1.0)
    assert (few.verdict, few.contradictions) == (INFERRED, sum(range(1, 12)))
    assert "1 of 12 parts of the log: reason 0." in few.reason
    many = joined([stretch(0), stretch(1, REFUSED), stretch(2, REFUSED)], 1.0)
    assert many.verdict == REFUSED
    assert many.reason == "Reason 1. That is so in 2 of 3 parts of the log."


def test_a_lower_bound_of_one_stretch_is_one_of_the_log() -> None:
    assert joined([stretch(0), stretch(1, LOWER_BOUND)], 1.0).verdict == LOWER_BOUND


@pytest.fixture
def windowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 3,000 requests, and requests on disk."""
    monkeypatch.setattr(backend_visits, "WINDOW", 3_000)
    monkeypatch.setattr(backend_visits, "ROWS_IN_MEMORY", 1_000)


def test_windows_give_every_request_the_wait_of_the_whole_log(
    windowed: None,
    request: pytest.FixtureRequest,
) -> None:
    """The requests that a window begins with are part of it: nothing is lost at its edge."""
    (parts,) = sojourn.infer(EXAMPLE, workers=WORKERS).backends
    request.getfixturevalue("monkeypatch").undo()
    (whole,) = sojourn.infer(EXAMPLE, workers=WORKERS).backends
    assert len(parts.rows) == len(whole.rows) == 10_500
    waits = [backend.waits[np.argsort(backend.rows)] for backend in (parts, whole)]
    assert np.abs(waits[0] - waits[1]).max() < 1e-6
    assert parts.result.verdict == whole.result.verdict == INFERRED


def test_a_long_log_is_inferred_window_by_window(windowed: None) -> None:
    result = sojourn.split(EXAMPLE)
    (backend,) = result.inferred
    assert (backend.result.verdict, backend.result.workers, backend.result.windows) == (INFERRED, WORKERS, ())
    assert result.sources == {"inferred": 10_500}
    assert result.means["queue"] == pytest.approx(0.0707, rel=0.01)
    assert sojourn.infer(result).service["requests"].sum() > 2_000  # the picture is that of the busiest window


def test_a_window_that_is_refused_has_no_queue(
    windowed: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = plain_log(33_000)[0].decode().splitlines(keepends=True)
    lines[7_000:7_600] = [line.replace('" 200 ', '" 504 ') for line in lines[7_000:7_600]]
    log = tmp_path / "access.log"
    log.write_text("".join(lines))
    result = sojourn.split(log)
    (backend,) = result.inferred
    assert backend.result.verdict == INFERRED
    assert backend.unserved == 600
    unknown = len(lines) - 600 - backend.inferred
    assert 2_000 < unknown < 3_000
    assert result.sources == {"inferred": len(lines) - 600 - unknown, "none": 600 + unknown}
    assert "1 of 11 parts of the log" in backend.result.reason


def test_the_number_of_workers_moves_between_windows(
    windowed: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(backend_visits, "WINDOW", 6_000)
    rng = np.random.default_rng(3)
    parts = []
    for workers in (2, 4):
        service, routes = simulate.services(rng, 6_000, "exponential")
        arrival = simulate.poisson(rng, service, workers, 0.9)
        parts.append(simulate.logged(rng, arrival, simulate.first_come(arrival, service, workers), routes))
    shift = float(parts[0].departure.max()) + 10
    lines = []
    for log, later in zip(parts, (0.0, shift), strict=True):
        for number in np.argsort(log.departure, kind="stable"):
            took = log.departure[number] - log.arrival[number]
            lines.append(f"{1_767_225_600 + later + log.departure[number]:.3f} 200 {took:.3f} {took:.3f}\n")
    path = tmp_path / "access.log"
    path.write_text("".join(lines))
    format = "$msec $status $request_time $upstream_response_time"  # noqa: A001
    (backend,) = sojourn.infer(sojourn.log_file(path, format)).backends
    assert [window.workers for window in backend.result.windows] == [2, 4]
    rows = sojourn.split(sojourn.log_file(path, format)).rows.select("inferred_workers").collect().to_series()
    assert sorted(rows.value_counts().rows()) == [(2, 6_000), (4, 6_000)]
    truth = np.concatenate([log.wait for log in parts]).mean()
    assert backend.wait["mean"] == pytest.approx(truth, rel=0.02)


def test_the_engine_and_a_window_agree_on_the_statistics() -> None:
    """A stretch that is the whole log is judged as one."""
    rng = np.random.default_rng(5)
    service, routes = simulate.services(rng, 4_000, "exponential")
    arrival = simulate.poisson(rng, service, 2, 0.85)
    log = simulate.logged(rng, arrival, simulate.first_come(arrival, service, 2), routes)
    result = infer(log.arrival, log.departure, log.routes)
    p99 = float(np.quantile(result.wait, 0.99))
    one = Stretch(result, 4_000, float(result.wait.mean()), p99, 0.0, 1.0, 1.0)
    both = joined([one, one], p99)
    assert (both.workers, both.mean_range, both.p99_range) == (
        result.workers, pytest.approx(result.mean_range), pytest.approx(result.p99_range),
    )  # fmt: skip
