"""Synthetic runs with a known truth, in the lab's format: run.json and requests.parquet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from sojourn_lab.results.run_schema import CaseResult, CriterionResult, Rows, Run, WindowTimes, iso_time, run_bytes
from sojourn_lab.scenario.files import raw_from_text, scenario_from_raw
from sojourn_lab.scenario.run_options import with_setting
from sojourn_lab.scenario.scaling import scenario_with_time_scaled

SERVICE = 0.05
LENGTH = 20.0
TEXT = """
name = "known"
title = "What is known"
question = "?"
shows = "."
seed = 1
duration = 20.0
article = "004"
[topology]
backends = 2
workers = 2
[[cases]]
name = "p"
service_time = 0.05
load = {kind = "poisson", rate = 40}
[[criteria]]
name = "short"
metric = "split.response_time.mean"
below = 0.2
"""


def recorded_run(
    folder: Path,
    *,
    queueing: float = 0.1,
    settings: tuple[str, ...] = (),
    scale: float = 1.0,
    rounds: int = 1,
    requests: int = 2_000,
    seed: int = 1,
    started: float = 1_795_000_000.0,
    passed: bool = True,
    **more: Any,
) -> Path:
    """Return a run's folder in which requests waited `queueing` s on average, exponentially, and were served in 50 ms.

    Every round deviates by a few per cent, as on a real machine. `settings` are those of `--set`.
    """
    raw = raw_from_text(TEXT, "TEXT")
    for setting in settings:
        with_setting(raw, setting)
    scenario = msgspec.structs.replace(scenario_from_raw(raw, "TEXT"), repeats=rounds)
    rng = np.random.default_rng(seed)
    frames, cases = [], []
    for turn in range(1, rounds + 1):
        name = "p" if rounds == 1 else f"p.r{turn}"
        since = started + 40.0 * turn
        frame = logged_requests(name, since, queueing * rng.normal(1.0, 0.03 if rounds > 1 else 0.0), requests, rng)
        frames.append(frame)
        cases.append(known_case(name, turn, since, frame, scenario.cases[0].load))
    mean = cases[0].split["response_time"]["mean"]  # type: ignore[index]
    run = Run(
        scenario=scenario_with_time_scaled(scenario, scale),
        scale=scale,
        started=iso_time(started),
        finished=iso_time(started + 100.0),
        spin_up=0.4,
        tear_down=0.5,
        versions={"nginx": "1.22.1"},
        cases=cases,
        criteria=[CriterionResult("short", "p", "split.response_time.mean", "below 0.2", mean, mean < 0.2)],
        rows=Rows(requests, requests, requests),
        learned=[],
        void=False,
        void_reasons=[],
        faults=[],
        passed=passed,
    )
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(run_bytes(msgspec.structs.replace(run, **more)))
    pl.concat(frames).write_parquet(folder / "requests.parquet")
    return folder


def logged_requests(name: str, since: float, queueing: float, count: int, rng: np.random.Generator) -> pl.DataFrame:
    """Return split rows of requests at even instants, with exponential queueing and constant service."""
    waits = rng.exponential(queueing, count)
    start = datetime.fromtimestamp(since, UTC)
    return pl.DataFrame(
        {
            "start": [start + timedelta(seconds=LENGTH * number / count) for number in range(count)],
            "request_time": waits + SERVICE,
            "status": pl.Series([200] * count, dtype=pl.Int16),
            "service": [name] * count,
            "route": ["/a"] * count,
            "queue": waits,
            "service_time": [SERVICE] * count,
            **{
                part: [0.0] * count
                for part in ("upload", "proxy_queue", "retries", "redirected", "connect", "network", "transfer", "send")
            },
            "unattributed": [0.0] * count,
        },
        schema_overrides={"start": pl.Datetime("us", "UTC")},
    )


def known_case(name: str, turn: int, since: float, frame: pl.DataFrame, load: Any) -> CaseResult:
    """Return the result of a case with these requests."""
    response, queue = frame["request_time"], frame["queue"]
    split = {
        "response_time": {
            "mean": response.mean(),
            "p50": response.quantile(0.5, "linear"),
            "p99": response.quantile(0.99, "linear"),
        },
        "components": {"queueing_delay": {"mean": queue.mean()}, "service_time": {"mean": SERVICE}},
    }
    window = WindowTimes(iso_time(since), iso_time(since + LENGTH))
    figures = {"balance": {"busiest": 0.5, "of": [1, 2.5, True]}}
    return CaseResult(
        name, SERVICE, load, 0.0, LENGTH, window, None, [], split=split, base="p", round=turn, figures=figures
    )
