"""The sample of a long log: the requests of its busiest stretch, and what follows for held times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sojourn
from analysis_support import frame
from sojourn.components.split import checked_split
from sojourn.timeline import sample, visits_of
from sojourn.timeline.sample import sample_of, sampled
from sojourn.timeline.visits import visits
from worker_log import EXPORTS, of_route, worker_log


@pytest.fixture
def long_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of more than 2,000 requests are long, of which about 1,000 are looked at."""
    monkeypatch.setattr(sample, "STRETCH", 1_000)
    monkeypatch.setattr(sample, "FEW", 2_000)


def _request(second: float, service: float) -> dict[str, object]:
    return {
        "start": second, "request_start": second, "app_queueing_delay": 0.01, "app_service_time": service,
        "header": service + 0.01, "response": service + 0.01, "request_time": service + 0.01,
    }  # fmt: skip


@pytest.mark.usefixtures("long_from")
def test_busiest_stretch_is_the_sample() -> None:
    seconds = 0.1 * np.arange(5_000)
    requests = [_request(second, 0.2 if 320.0 <= second < 380.0 else 0.05) for second in seconds]
    some = sampled(checked_split(frame(*requests)).lazy())
    assert not some.whole
    assert len(some.visits) == pytest.approx(1_000, abs=2)
    services = some.visits.busy_end - some.visits.busy_start
    assert (services > 0.1).sum() == 600


@pytest.mark.usefixtures("long_from")
def test_all_requests_of_a_short_log_are_the_sample() -> None:
    some = sampled(checked_split(frame(*(_request(0.1 * number, 0.05) for number in range(2_000)))).lazy())
    assert some.whole
    assert len(some.visits) == 2_000


@pytest.mark.usefixtures("long_from")
def test_sample_of_requests_at_one_instant_is_not_larger() -> None:
    some = sampled(checked_split(frame(*(_request(1.0, 0.05) for _ in range(2_500)))).lazy())
    assert len(some.visits) == 2_000


def test_held_times_of_a_long_log_are_those_of_all_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_log(tmp_path / "a.jsonl", replace(EXPORTS, requests=12_000))
    every = sojourn.split(tmp_path / "a.jsonl").held
    monkeypatch.setattr(sample, "STRETCH", 4_000)
    monkeypatch.setattr(sample, "FEW", 8_000)
    result = sojourn.split(tmp_path / "a.jsonl")
    assert not sample_of(result, upgraded=True).whole
    assert every is not None
    assert result.held == every


@pytest.mark.parametrize("few", [1_000, 100_000])
def test_sample_is_placed_in_time_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    worker_log(tmp_path / "a.jsonl", replace(EXPORTS, requests=2_000, body=of_route("/export", 0.0)))
    monkeypatch.setattr(sample, "FEW", few)
    monkeypatch.setattr(sample, "STRETCH", 500)
    placed = []
    for module, name in ((sample, "visits"), (visits_of, "visits_of_rows")):
        monkeypatch.setattr(module, name, lambda rows, **options: placed.append(options) or visits(rows, **options))
    result = sojourn.split(tmp_path / "a.jsonl")
    assert result.held is None
    assert result.culprit is None
    assert len(placed) == 1
