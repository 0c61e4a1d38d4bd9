"""Clocks that are set, run back or stand apart by an hour: durations hold, and what is off is said."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

# The path comes first.
from clock_logs import REQUESTS, one_worker, written
from commands_run import ended
from sojourn_lab.load.generator.clock import Clock
from sojourn_middleware import WSGIMiddleware

HOUR = 3_600.0
MEAN_WAIT = sum(wait for _, wait, _ in one_worker()) / REQUESTS
MEAN_SERVICE = sum(service for _, _, service in one_worker()) / REQUESTS
MIDDLE = next(arrival + 0.05 for arrival, wait, _ in one_worker() if arrival > 25 and wait > 0.1)
WAIT_P90 = sorted(wait for _, wait, _ in one_worker())[REQUESTS * 9 // 10]


def split_of(log: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(ended("split", str(log), "--json").out)
    return result


def as_measured(result: dict[str, Any], within: float = 0.003) -> None:
    """The figures are those of the truth, and every request counts."""
    assert result["records"]["accepted"] == REQUESTS
    assert result["components"]["queue"]["mean"] == pytest.approx(MEAN_WAIT, abs=within)
    assert result["components"]["service_time"]["mean"] == pytest.approx(MEAN_SERVICE, abs=0.001)
    assert result["audit"]["identity_max_error"] < 1e-6


@pytest.mark.parametrize("step", [pytest.param(HOUR, marks=pytest.mark.thorough), -HOUR, -1.0])
def test_one_clock_for_both_that_is_set_in_the_middle(tmp_path: Path, step: float) -> None:
    """Forward by an hour: delays of requests under way are impossible. Back: their stamps lie after their end."""
    log = written(tmp_path / "a.jsonl", lambda at: step if at >= MIDDLE else 0.0)
    result = split_of(log)
    off = sum(arrival < MIDDLE <= arrival + wait for arrival, wait, _ in one_worker())
    under_way = sum(arrival < MIDDLE <= arrival + wait + service for arrival, wait, service in one_worker())
    assert off > 0
    assert result["records"]["accepted"] == REQUESTS
    assert result["components"]["queue"]["mean"] == pytest.approx(MEAN_WAIT, abs=0.003)
    assert result["components"]["queue"]["p90"] == pytest.approx(WAIT_P90, abs=0.02)
    assert result["components"]["service_time"]["mean"] == pytest.approx(MEAN_SERVICE, abs=0.001)
    assert result["audit"]["negative_queue"] == 0
    assert result["audit"]["known"]["late_stamps"] == (under_way if step < 0 else 0)
    assert result["audit"]["impossible"] == (off if step > 0 else 0)
    assert result["audit"]["identity_max_error"] < 1e-6
    for arguments in (["depth"], ["watch", "--once"]):
        done = ended(arguments[0], str(log), *arguments[1:])
        assert (done.code, "nan" in done.out) == (0, False), done
    svg = tmp_path / "o.svg"
    assert ended("plot", str(log), "over_time", "--out", str(svg)).code == 0
    assert svg.stat().st_size < 300_000  # an hour without requests is no hour of empty bars


@pytest.mark.parametrize("offset", [HOUR, -HOUR])
def test_an_app_an_hour_away_from_nginx(tmp_path: Path, offset: float) -> None:
    log = written(tmp_path / "a.jsonl", app=lambda _: offset)
    result = split_of(log)
    as_measured(result)
    (clock,) = result["clock"]
    assert clock["offset"] == pytest.approx(offset, abs=0.005)
    assert clock["uncertainty"] < 0.01
    assert "Clocks (app less nginx, corrected for)" in ended("split", str(log)).out


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_nginx_s_clock_alone_is_set_in_the_middle(tmp_path: Path, step: float) -> None:
    log = written(tmp_path / "a.jsonl", lambda at: step if at >= MIDDLE else 0.0, lambda _: 0.0)
    as_measured(split_of(log), within=0.005)
    document = json.loads(ended("clock", str(log), "--json").out)
    steps = [step for clock in document["clocks"] for step in clock["steps"]] if "clocks" in document else document
    assert str(round(abs(step))) in json.dumps(steps) or "3600" in json.dumps(steps) or "3599" in json.dumps(steps)


def test_the_middleware_measures_service_on_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time_ns
    headers: dict[str, str] = {}

    def app(_environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        monkeypatch.setattr(time, "time_ns", lambda: real() - int(HOUR * 1e9))  # set back while it is served
        time.sleep(0.02)
        start_response("200 OK", [])
        return [b""]

    def start_response(_status: str, arguments: list[tuple[str, str]], _exc: object = None) -> None:
        headers.update(arguments)

    began = time.time() - 0.5
    stamp = f"t={began:.3f}"
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_X_REQUEST_START": stamp}
    list(WSGIMiddleware(app)(environ, start_response))  # type: ignore[arg-type]
    took = time.time() - began
    assert 0.02 <= float(headers["X-Service-Time"]) < took
    assert 0.5 - 0.001 <= float(headers["X-Queueing-Delay"]) < took  # the stamp has milliseconds


def test_the_generator_s_instants_run_on_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before, began = clock.now(), clock.unix(clock.now())
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + HOUR)
    assert clock.unix(clock.now()) - began == pytest.approx(clock.now() - before, abs=0.1)
