"""Gauges: the state of the backends against the truth of a simulation, and the signals."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from export_support import exported, samples_of, value_of
from pool_simulator import EPOCH, PoolSettings, as_lines, simulated_pool
from sojourn.components.split import clock_of, split_rows
from sojourn.export.memory import Memory
from sojourn.export.state import STATE_WINDOW, ServiceState, drain
from sojourn.model.objective import objective_of
from sojourn.queueing.staffing import erlang_c_workers, square_root_workers
from sojourn.sources.live.recent import EMPTY
from watch_support import given_up, record

SETTINGS = PoolSettings(requests=4_000, rate=30.0, skews=(0.0, 0.0))


def overlap(begin: np.ndarray, end: np.ndarray, low: float, high: float) -> float:
    """Mean number of intervals that hold between two instants."""
    return float(np.clip(np.minimum(end, high) - np.maximum(begin, low), 0, None).sum()) / (high - low)


def test_state_agrees_with_the_simulation(tmp_path: Path) -> None:
    records, truth = simulated_pool(SETTINGS)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    as_of = value_of(samples, "sojourn_state_timestamp_seconds") - EPOCH
    last = max(float(each["time"]) for each in records) - EPOCH
    longest = max(float(each["request_time"]) for each in records if float(each["time"]) - EPOCH > last - 60)
    assert as_of == pytest.approx(last - longest, abs=0.01)
    for backend in range(2):
        own = [each for each in truth.requests if each.backend == backend]
        arrived, begun, free = (np.array([getattr(each, name) for each in own]) for name in ("stamp", "begun", "free"))
        upstream = f"10.0.0.{backend + 1}:8080"
        low = as_of - STATE_WINDOW
        waiting = value_of(samples, "sojourn_requests_waiting", upstream=upstream)
        serving = value_of(samples, "sojourn_requests_in_service", upstream=upstream)
        assert waiting == pytest.approx(overlap(arrived, begun, low, as_of), abs=0.03)
        assert serving == pytest.approx(overlap(begun, free, low, as_of), abs=0.03)
        assert value_of(samples, "sojourn_requests_in_system", upstream=upstream) == pytest.approx(waiting + serving)
        assert value_of(samples, "sojourn_workers", upstream=upstream) == 2
        assert value_of(samples, "sojourn_utilisation_ratio", upstream=upstream) == pytest.approx(serving / 2)


def test_signals_agree_with_the_simulation(tmp_path: Path) -> None:
    records, truth = simulated_pool(SETTINGS)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(as_lines(records)))
    with exported([log], window=60.0) as exporter:
        samples = samples_of(exporter)
    as_of = value_of(samples, "sojourn_state_timestamp_seconds") - EPOCH
    recent = [each for each in truth.requests if as_of - 60 < each.stamp <= as_of]
    services = np.array([each.free - each.begun for each in recent])
    load = float(services.sum()) / 60
    assert value_of(samples, "sojourn_offered_load_workers") == pytest.approx(load, rel=0.01)
    assert value_of(samples, "sojourn_saturation") == pytest.approx(load / 4, rel=0.01)
    formulas = {"erlang_c": erlang_c_workers, "square_root": square_root_workers}
    for method, formula in formulas.items():
        expected = formula(len(recent) / 60, float(services.mean()), 0.1, 0.95)
        assert value_of(samples, "sojourn_workers_needed", method=method) == expected
    assert value_of(samples, "sojourn_workers_needed", method="replay") % 2 == 0  # whole backends of two workers


def test_service_without_requests_needs_no_worker(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    early = b"".join(record(EPOCH + n / 10) for n in range(300))
    day = [record(EPOCH + 80 + n / 10).replace(b'"shop"', b'"day"') for n in range(600)]
    log.write_bytes(early + b"".join(day))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_workers_needed", service="shop") == 0
    assert value_of(samples, "sojourn_saturation", service="shop") == 0
    assert value_of(samples, "sojourn_workers_needed", service="day", method="replay") == 1


def test_overload_in_which_every_request_times_out_still_has_signals(tmp_path: Path) -> None:
    """The app answers nothing: service times and workers are those that were last known."""
    log = tmp_path / "access.jsonl"
    calm = b"".join(record(EPOCH + n / 10, 0.0, 0.2, worker=str(n % 3)) for n in range(600))
    log.write_bytes(calm)
    with exported([log]) as exporter:
        before = samples_of(exporter)
        assert value_of(before, "sojourn_workers_needed", method="replay") >= 2
        with log.open("ab") as file:
            file.write(b"".join(given_up(EPOCH + 60 + n / 50, 1.0) for n in range(1, 5_000)))
        exporter.read_all()
        exporter._state.outdated()
        exporter.update(datetime.now(UTC))
        samples = samples_of(exporter)
    # 50 a second of 0.2 s.
    assert value_of(samples, "sojourn_offered_load_workers") == pytest.approx(10, rel=0.02)
    assert value_of(samples, "sojourn_workers_needed", method="replay") >= 10
    assert value_of(samples, "sojourn_requests_waiting") == pytest.approx(50, rel=0.03)
    assert value_of(samples, "sojourn_workers") >= 1
    assert value_of(samples, "sojourn_seconds_to_drain") == math.inf


def test_app_without_times_has_no_signals(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    unknown = {"queueing_delay": "", "service_time": "", "worker": ""}
    log.write_bytes(b"".join(record(EPOCH + n / 10, **unknown) for n in range(200)))
    with exported([log]) as exporter:
        names = {sample.name for sample in samples_of(exporter)}
    assert not names & {"sojourn_workers_needed", "sojourn_saturation", "sojourn_workers", "sojourn_utilisation_ratio"}
    assert "sojourn_requests_waiting" in names


def test_workers_can_be_set(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(record(EPOCH + n / 10, 0.0, 0.05) for n in range(300)))
    with exported([log], workers=8) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_workers") == 8
    load = value_of(samples, "sojourn_offered_load_workers")
    assert value_of(samples, "sojourn_saturation") == pytest.approx(load / 8)


def test_backends_beyond_the_limit_are_added_up(tmp_path: Path) -> None:
    log = tmp_path / "access.jsonl"
    lines = [
        record(EPOCH + n / 10, 0.0, 0.05, upstream_addr=f"10.0.0.{n % 4}:80", worker=str(n % 4)) for n in range(400)
    ]
    log.write_bytes(b"".join(lines))
    with exported([log], limits={"upstream": 2}) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_workers", upstream="other") == 2
    assert value_of(samples, "sojourn_workers") == 4


def test_causes_of_waiting(tmp_path: Path) -> None:
    """One backend is given all the requests, the other one is free."""
    records, _ = simulated_pool(PoolSettings(requests=2_000, rate=20.0, backends=1, workers=2, skews=(0.0,)))
    end = max(float(each["time"]) for each in records)
    log = tmp_path / "access.jsonl"
    seldom = [record(end - n, route="/product", upstream_addr="10.0.0.9:80", worker="x") for n in range(70, 0, -1)]
    log.write_bytes(b"".join(as_lines(records) + seldom))
    with exported([log]) as exporter:
        samples = samples_of(exporter)
    assert value_of(samples, "sojourn_waiting_ratio", account="imbalance") > 0.8


@pytest.mark.parametrize(
    ("waiting", "load", "workers", "seconds"), [(0.0, 5.0, 4.0, 0.0), (6.0, 2.0, 4.0, 3.0), (1.0, 4.0, 4.0, math.inf)]
)
def test_drain(waiting: float, load: float, workers: float, seconds: float) -> None:
    assert drain(waiting, load, workers) == seconds


def test_a_moment_of_a_log_has_no_state() -> None:
    now = datetime.fromtimestamp(EPOCH, UTC)
    rows = split_rows(EMPTY.lazy(), clock=clock_of(EMPTY.lazy()), infer=False).rows
    known = ServiceState("shop", rows, now, now - timedelta(seconds=0.5), 60.0, Memory())
    assert not known.is_long_enough
    later = ServiceState("shop", rows, now, now - timedelta(seconds=90), 60.0, Memory())
    assert later.is_long_enough
    assert {sample.value for sample in later.signals([objective_of("p95=0.1")])} == {0.0}
