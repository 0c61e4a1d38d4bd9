"""A real Prometheus in a folder of its own, filled by promtool; read over HTTP."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dashboards_support import HERE
from prometheus_fixtures import openmetrics
from prometheus_server import DEADLINE, Prometheus, exporting, prometheus_running, scraping

LIVE = "live"  # the service in the log of the real exporter


@dataclass
class FilledPrometheus(Prometheus):
    """A server with data. ``until``: their last instant; ``log``: read by the exporter that it scrapes."""

    until: int
    log: Path

    def instant(self, promql: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series, at the end of the data by default."""
        return super().instant(promql, at or self.until)

    def range(self, promql: str, seconds: int, step: int) -> list[tuple[dict[str, str], list[float]]]:
        """Labels and values of each series over the last seconds of the data."""
        answer = self.api("query_range", query=promql, start=self.until - seconds, end=self.until, step=step)
        return [(one["metric"], [float(value) for _, value in one["values"]]) for one in answer["result"]]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[FilledPrometheus]:
    """Fill and start a server; skip the test where Prometheus is not installed."""
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed (package prometheus): the dashboard for Prometheus is not tested")
    until = int(time.time())
    text = folder / "metrics.txt"
    with text.open("w", encoding="utf-8") as file:
        file.writelines(openmetrics(until))
    data = folder / "data"
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    log = folder / "access.jsonl"
    log.touch()
    rules = (HERE / "prometheus" / "rules" / "sojourn.yaml").read_text()
    # Once a second instead of once a minute: a test does not wait.
    (folder / "rules.yaml").write_text(rules.replace("interval: 1m", "interval: 1s"))
    with exporting(folder, str(log)) as exporter:
        config = {"rule_files": ["rules.yaml"], **scraping(exporter.target, LIVE)}
        with prometheus_running(folder, config, data) as url:
            yield FilledPrometheus(url, until, log)


def eventually(holds: Callable[[], Any], what: str, log: Path | None = None) -> Any:
    """Return what ``holds()`` returns once it is true; fail the test after a minute."""
    end = time.monotonic() + DEADLINE
    while not (result := holds()):
        assert time.monotonic() < end, f"waited {DEADLINE:g} s for {what}\n{log.read_text() if log else ''}"
        time.sleep(0.05)
    return result
