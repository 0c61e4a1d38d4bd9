"""The exporter while records are ahead of its clock, and when this clock is set."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from export_support import samples_of, value_of
from sojourn.export.exporter import Exporter
from sojourn.export.settings import Settings
from sojourn.export.tally import Sample
from sojourn.model.objective import DEFAULT, objective_of
from sojourn.sources.live.log_clock import ClockSteps
from sojourn.sources.live.opening import opened_followers
from watch_support import record

RATE, SERVICE = 20, 0.2  # requests/s, s: 4 workers are busy
SIGNALS = (
    "sojourn_offered_load_workers", "sojourn_saturation", "sojourn_workers_needed", "sojourn_log_lag_seconds",
    "sojourn_requests_total", "sojourn_export_window_requests", "sojourn_log_last_record_timestamp_seconds",
)  # fmt: skip


class Scene:
    """An exporter that has read 70 s of a steady load, on a clock that can be set."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.now = self.elapsed = time.time()
        self._write([self.now - 70.0 + n / RATE for n in range(70 * RATE)])
        followers, tails = opened_followers([str(log)])
        self.exporter = Exporter(followers, tails, settings=Settings(objectives=[objective_of(DEFAULT)]))
        self.exporter._reader._steps = ClockSteps(lambda: self.elapsed)
        self.exporter.start()

    def _write(self, ends: Sequence[float]) -> None:
        with self.log.open("ab") as file:
            file.write(b"".join(record(end, 0.0, SERVICE, worker=str(n % 6)) for n, end in enumerate(ends)))

    def passes(self, seconds: int, *, ahead: Sequence[float] = (), set_by: float = 0.0) -> list[Sample]:
        """Let seconds pass, then set the clock; return the samples. ``ahead``: s of more records."""
        ends = [self.now + n / RATE for n in range(seconds * RATE)]
        self._write([*ends, *(self.now + each for each in ahead)])
        self.now += seconds + set_by
        self.elapsed += seconds
        self.exporter._state.outdated()
        self.exporter.update(datetime.fromtimestamp(self.now, UTC))
        return samples_of(self.exporter)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "access.log")
    yield scene
    scene.exporter.close()


def refused(samples: Sequence[Sample]) -> list[str]:
    return [each.labels[1] for each in samples if each.name == "sojourn_signal_refused" and each.value == 1.0]


def test_one_record_from_the_future_changes_no_signal(scene: Scene) -> None:
    before = scene.passes(1)
    after = scene.passes(1, ahead=[3_600.0])
    assert value_of(after, "sojourn_log_records_ahead_total") == 1
    assert value_of(after, "sojourn_log_lines_total") == value_of(before, "sojourn_log_lines_total") + RATE + 1
    assert refused(after) == []
    assert value_of(after, "sojourn_offered_load_workers") == pytest.approx(RATE * SERVICE, rel=0.02)
    assert value_of(after, "sojourn_workers_needed", method="replay") == 4
    assert value_of(after, "sojourn_requests_total") == 2 * RATE
    assert 0 <= value_of(after, "sojourn_log_lag_seconds") < 1
    assert value_of(after, "sojourn_log_last_record_timestamp_seconds") < scene.now
    rest = {(each.name, each.labels): each.value for each in before if each.name in SIGNALS[:3]}
    assert {(each.name, each.labels): each.value for each in after if each.name in SIGNALS[:3]} == pytest.approx(
        rest, rel=0.02
    )


def test_signals_are_refused_while_clocks_disagree(scene: Scene) -> None:
    """One of two proxies is ahead."""
    assert refused(scene.passes(1)) == []
    samples = scene.passes(2, ahead=[60.0 + n / RATE for n in range(2 * RATE)])
    assert refused(samples) == ["clocks_disagree"]
    assert not {each.name for each in samples} & {*SIGNALS[:3], "sojourn_requests_waiting"}
    assert value_of(samples, "sojourn_log_records_ahead_total") == 2 * RATE
    again = scene.passes(int(scene.exporter.settings.retention) + 1)
    assert refused(again) == []
    assert value_of(again, "sojourn_offered_load_workers") == pytest.approx(RATE * SERVICE, rel=0.02)


@pytest.mark.parametrize("step", [-3_600.0, 3_600.0])
def test_signals_after_a_step_of_the_clock_are_of_the_time_after_it(scene: Scene, step: float) -> None:
    scene.passes(1)
    stepped = scene.passes(1, set_by=step)
    assert not {each.name for each in stepped} & set(SIGNALS[:3])
    samples = scene.passes(10)
    assert refused(samples) == []
    assert value_of(samples, "sojourn_offered_load_workers") == pytest.approx(RATE * SERVICE, rel=0.05)
    assert value_of(samples, "sojourn_workers_needed", method="replay") == 4
    assert value_of(samples, "sojourn_log_lag_seconds") == pytest.approx(1 / RATE, abs=0.01)
    assert value_of(samples, "sojourn_export_window_requests") <= 11 * RATE
