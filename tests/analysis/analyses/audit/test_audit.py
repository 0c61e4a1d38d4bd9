"""The audit fails when it should, and only then."""

from __future__ import annotations

import random

import pytest
from analysis_support import frame, span, spans
from sojourn.analyses.audit.analysis import audit
from sojourn.components.split import split_rows


def audited(rows: list[dict[str, object]]):
    return audit(split_rows(frame(*rows)).rows, upgraded=0)


def steady(count: int, rng: random.Random, response=lambda _: 0.5, gap: float = 0.05) -> list[dict[str, object]]:
    now, rows = 0.0, []
    for _ in range(count):
        now = round(now + rng.expovariate(1 / gap), 3)
        used = round(response(now), 3)
        rows.append({
            "start": now, "request_start": now, "request_time": used, "header": used, "response": used,
            "app_queueing_delay": 0.0, "app_service_time": used, "worker": str(rng.randrange(20)),
        })  # fmt: skip
    return rows


def test_a_steady_log_passes() -> None:
    rng = random.Random(1)
    result = audited(steady(3000, rng, lambda _: rng.uniform(0.2, 0.8)))
    assert result.failures() == []
    assert result.stationary is True
    assert result.little_ratio == pytest.approx(1, abs=0.03)
    assert result.mean_in_system == pytest.approx(20 * 0.5, rel=0.1)
    assert result.identity_max_error < 1e-9


def test_a_growing_response_time_is_not_stationary_and_says_so_first() -> None:
    rng = random.Random(2)
    result = audited(steady(3000, rng, lambda now: 0.2 + now / 50))
    assert result.stationary is False
    assert any("not stationary" in failure and "response time rose" in failure for failure in result.failures())


def test_arrivals_that_dwindle_are_not_stationary() -> None:
    rng = random.Random(3)
    rows, now = [], 0.0
    for i in range(3000):
        now = round(now + rng.expovariate(1 / (0.01 + i / 30_000)), 3)
        rows.append({"start": now, "request_start": now})
    result = audited(rows)
    assert result.stationary is False
    assert "arrivals fell" in result.trend


def test_requests_that_never_finish_in_the_window_break_littles_law() -> None:
    """A burst that takes as long as the rest of the log: what arrives and what is present do not belong together."""
    rng = random.Random(4)
    rows = steady(200, rng, lambda now: 0.01 if now < 9 else 60.0)
    result = audited(rows)
    assert result.little_ratio is not None
    assert abs(result.little_ratio - 1) > 0.05
    assert any("Little" in failure for failure in result.failures())


def test_more_work_than_workers_have_time_for_is_a_failure() -> None:
    """Without stamps nothing tells that one worker served several requests at a time."""
    rng = random.Random(5)
    rows = [{**row, "worker": "1", "app_queueing_delay": None} for row in steady(500, rng)]
    result = audited(rows)
    assert result.utilisation[0]["utilisation"] > 5
    assert any("worked longer than their workers" in failure for failure in result.failures())


def test_a_worker_that_goes_on_for_a_client_already_gone_has_had_that_time() -> None:
    """One worker, 45 s of work each, the second request given up on after 60 s: 90 s of work in 90 s, not in 65."""
    first = {
        "request_start": 0.0, "request_time": 45.0, "header": 45.0, "response": 45.0, "request_id": "a",
        "app_queueing_delay": 0.0, "app_service_time": 45.0,
    }  # fmt: skip
    second = {
        "start": 5.0, "request_start": 5.0, "status": 504, "request_time": 60.0, "header": None, "response": 60.0,
        "request_id": "b", "worker": None,
    }  # fmt: skip
    reported = spans(span("a", 0.0, 45.0), span("b", 45.0, 45.0))
    result = audit(split_rows(frame(first, second), reported).rows, upgraded=0)
    assert result.utilisation == [
        {"upstream": "10.0.0.1:80", "workers": 1, "busy": 90.0, "utilisation": 1.0, "in_one_worker": 1}
    ]


def test_negative_components_are_counted_not_clamped() -> None:
    rows = [
        {"request_start": 0.0, "attempts": 2, "app_queueing_delay": -0.3, "app_service_time": 0.1},
        {"request_start": 0.0, "attempts": 2, "app_queueing_delay": 0.3, "app_service_time": 0.1, "request_time": 0.2},
    ]
    result = audited(rows)
    assert result.negative["queue"] == 1
    assert result.to_dict()["negative_queue"] == 1
    assert result.negative["send"] == 1


def test_too_little_to_tell() -> None:
    result = audited(steady(5, random.Random(6)))
    assert result.stationary is None
    assert result.failures() == []
