"""`sojourn export` beside real servers: a real Prometheus agrees with the split of the same log; and the long run."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path

import msgspec
import polars as pl
import pytest
import sojourn
from lab_support import eventually
from prometheus_server import Prometheus, prometheus_running, scraping
from sojourn.export.metrics import BUCKETS
from sojourn_lab.experiments.endurance import of_export
from sojourn_lab.experiments.endurance.of_export import export_run, table_of
from sojourn_lab.load.plan import Plan
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.runtime import ProcessRuntime
from sojourn_lab.scenario.load import PoissonLoad, Route
from sojourn_lab.scenario.topology import Topology

ROUTES = [Route("/cart", 6.0, 0.010), Route("/search", 3.0, 0.040, "exponential"), Route("/export", 1.0, 0.100)]
SECONDS = 12.0
QUANTILES = (0.5, 0.9, 0.99)
COLUMNS = {"response_time": "request_time", "queueing_delay": "queueing_delay", "service_time": "service_time"}


def test_prometheus_agrees_with_the_split(tmp_path: Path) -> None:
    runtime = ProcessRuntime(Topology(backends=2, workers=1), tmp_path, tmp_path / "logs", Interrupts())
    with runtime:
        plan = Plan(
            case="export", url=runtime.url, seed=[1, 0], load=PoissonLoad(55.0), service_time=0.0, warmup=0.0,
            duration=SECONDS, timeout=30.0, client_log=str(tmp_path / "client.jsonl"),
            summary=str(tmp_path / "summary.json"), routes=ROUTES,
        )  # fmt: skip
        (tmp_path / "plan.json").write_bytes(msgspec.json.encode(plan))
        sojourn_export = [sys.executable, "-m", "sojourn", "--no-config", "export", str(runtime.access_log)]
        exporter = runtime.started([*sojourn_export, "--listen", "127.0.0.1:0", "--every", "1"], "export")
        eventually(lambda: "metrics: " in exporter.last_lines(), 60.0, "the exporter")
        target = exporter.last_lines().split("http://")[1].removesuffix("/metrics")
        begun = time.time()
        with prometheus_running(tmp_path, scraping(target)) as url:
            prometheus = Prometheus(url)
            eventually(lambda: bool(prometheus.instant("up == 1")), 60.0, "the first scrape")
            load = [sys.executable, "-m", "sojourn_lab.load.generator", str(tmp_path / "plan.json")]
            generator = runtime.started(load, "generator")
            generator.wait(120.0)
            requests = json.loads((tmp_path / "summary.json").read_bytes())["requests"]
            # nginx logs a request after its answer.
            eventually(
                lambda: runtime.access_log.read_bytes().count(b"\n") >= requests, 60.0, "every request in the log"
            )
            lines = runtime.access_log.read_bytes().count(b"\n")
            eventually(lambda: bool(prometheus.instant(f"sum(sojourn_requests_total) == {lines}")), 60.0, "the count")
            rows = sojourn.split(runtime.access_log).rows.collect()
            for metric, column in COLUMNS.items():
                values = rows[column].drop_nulls()
                assert prometheus.value(f"sum(sojourn_{metric}_seconds_count)") == len(values)
                total = prometheus.value(f"sum(sojourn_{metric}_seconds_sum)")
                assert total == pytest.approx(values.filter(values > 0).sum(), rel=0.01)
                for share in QUANTILES:
                    text = f"histogram_quantile({share}, sum by (le) (sojourn_{metric}_seconds_bucket))"
                    below, above = _around(values, share)
                    # Interpolated within a bucket: that of the exact quantile, or of the value before or after it.
                    low, high = _bucket(below)[0], _bucket(above)[1]
                    assert low <= prometheus.value(text) <= high, (metric, share, below, above)
            by_route = prometheus.instant("sum by (route) (sojourn_response_time_seconds_count)")
            expected = rows.group_by("route").agg(pl.len())
            assert {labels["route"]: count for labels, count in by_route} == dict(expected.iter_rows())
            exemplars = prometheus.exemplars("sojourn_queueing_delay_seconds_bucket", begun, time.time() + 60)
            logged = {json.loads(line)["trace_id"] for line in runtime.access_log.read_bytes().splitlines()}
            assert exemplars
            assert {each["labels"]["trace_id"] for each in exemplars} <= logged
            # On a busy machine the services of the two backends may depend on each other: then there is no number.
            # One query for both: between two, the exporter computes its gauges again.
            ((labels, value),) = prometheus.instant(
                'sojourn_workers_needed{method="replay"} or sojourn_signal_refused == 1'
            )
            assert labels["__name__"] == "sojourn_signal_refused" or value in range(1, 10)
            assert prometheus.value("sum(sojourn_workers)") == 2


def _around(values: pl.Series, share: float) -> tuple[float, float]:
    """Return the values one rank before and one after that of a quantile."""
    ordered, rank = values.sort(), share * len(values)
    return ordered[max(math.floor(rank) - 2, 0)], ordered[min(math.ceil(rank), len(ordered) - 1)]


def _bucket(value: float) -> tuple[float, float]:
    """Return the bounds of the bucket of a value, and those of its neighbours where it lies at a bound."""
    bounds = (0.0, *BUCKETS, math.inf)
    place = next(number for number, bound in enumerate(bounds[1:], 1) if value <= bound + 2e-6)
    return bounds[place - 1] - 1e-9, bounds[place] + 1e-9


def test_long_run_counts_every_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_export, "SCRAPE_EVERY", 3.0)
    run = export_run(tmp_path, 1_000.0, 8.0)
    assert run.counted == run.written > 7_000
    assert 0 < run.cpu_per_request < 0.01
    assert len(run.instants) >= 3
    table = table_of(1_000.0, run)
    assert f"| 1,000 | {run.written:,} | {run.counted:,} |" in table
