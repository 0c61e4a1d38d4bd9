"""A real Prometheus in a folder of its own, filled by promtool; read over HTTP."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboards_support import HERE
from prometheus_fixtures import openmetrics
from sojourn_lab.runtime.process import free_port

DEADLINE = 60.0
LIVE = "live"  # the service in the log of the real exporter


@dataclass
class Prometheus:
    """A running server. ``until``: the last instant of the data; ``log``: what the exporter reads that it scrapes."""

    url: str
    until: int
    log: Path | None = None

    def api(self, path: str, **parameters: str | float) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, promql: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series, at the end of the data by default."""
        answer = self.api("query", query=promql, time=at or self.until)
        assert answer["resultType"] == "vector", answer
        return [(one["metric"], float(one["value"][1])) for one in answer["result"]]

    def range(self, promql: str, seconds: int, step: int) -> list[tuple[dict[str, str], list[float]]]:
        """Labels and values of each series over the last seconds of the data."""
        answer = self.api("query_range", query=promql, start=self.until - seconds, end=self.until, step=step)
        return [(one["metric"], [float(value) for _, value in one["values"]]) for one in answer["result"]]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Prometheus]:
    """Fill and start a server; skip the test where Prometheus is not installed."""
    for program in ("promtool", "prometheus"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed (package prometheus): the dashboard for Prometheus is not tested")
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
    with _exporter(log) as target:
        (folder / "rules.yaml").write_text(
            # Once a second instead of once a minute: a test does not wait.
            (HERE / "prometheus" / "rules" / "sojourn.yaml").read_text().replace("interval: 1m", "interval: 1s")
        )
        scrape = {"job_name": LIVE, "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        config = {"rule_files": ["rules.yaml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with _started(folder, data) as url:
            yield Prometheus(url, until, log)


@contextlib.contextmanager
def _exporter(log: Path) -> Iterator[str]:
    """Start ``sojourn export`` on a log."""
    address, output = f"127.0.0.1:{free_port()}", log.with_name("export.log")
    command = [sys.executable, "-m", "sojourn", "--no-config", "export", str(log), "--listen", address, "--every", "1"]
    with output.open("w") as sink, _ended(subprocess.Popen(command, stdout=sink, stderr=sink)) as process:
        url = f"http://{address}/metrics"
        eventually(lambda: process.poll() is not None or _answers(url), "the exporter to answer", output)
        assert process.poll() is None, output.read_text()
        yield address


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process at the end."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _started(folder: Path, data: Path) -> Iterator[str]:
    address, output = f"127.0.0.1:{free_port()}", folder / "prometheus.log"
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with output.open("w") as sink, _ended(subprocess.Popen(command, stdout=sink, stderr=sink)) as process:
        url = f"http://{address}"
        ready = f"{url}/-/ready"
        eventually(lambda: process.poll() is not None or _answers(ready), "Prometheus to be ready", output)
        assert process.poll() is None, output.read_text()
        yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def eventually(holds: Callable[[], Any], what: str, log: Path | None = None) -> Any:
    """Return what ``holds()`` returns once it is true; fail the test after a minute."""
    end = time.monotonic() + DEADLINE
    while not (result := holds()):
        assert time.monotonic() < end, f"waited {DEADLINE:g} s for {what}\n{log.read_text() if log else ''}"
        time.sleep(0.05)
    return result
