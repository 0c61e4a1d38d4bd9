"""A real Prometheus, and a real exporter for it, as processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sojourn_lab.runtime.ports import free_port
from sojourn_lab.runtime.process import Process
from watch_support import until

SOJOURN = [sys.executable, "-m", "sojourn", "--no-config"]
DEADLINE = 60.0  # s


@dataclass
class Prometheus:
    """A running server."""

    url: str

    def api(self, path: str, **parameters: str | float) -> Any:
        """Return the data of an answer."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, promql: str, at: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Return labels and value of each series, now by default."""
        answer = self.api("query", query=promql, **({} if at is None else {"time": at}))
        assert answer["resultType"] == "vector", answer
        return [(one["metric"], float(one["value"][1])) for one in answer["result"]]

    def value(self, promql: str) -> float:
        """Return the value of the only series."""
        ((_, value),) = self.instant(promql)
        return value

    def exemplars(self, promql: str, begin: float, end: float) -> list[dict[str, Any]]:
        """Return the exemplars between two instants, unix s."""
        series = self.api("query_exemplars", query=promql, start=begin, end=end)
        return [exemplar for each in series for exemplar in each["exemplars"]]


def scraping(target: str, job: str = "sojourn") -> dict[str, Any]:
    """Return a configuration that scrapes one target (host:port) every second."""
    job_of = {"job_name": job, "scrape_interval": "1s", "scrape_timeout": "1s"}
    return {"scrape_configs": [job_of | {"static_configs": [{"targets": [target]}]}]}


@contextmanager
def prometheus_running(folder: Path, config: Mapping[str, Any], data: Path | None = None) -> Iterator[str]:
    """Yield the address of a Prometheus with a configuration; skip the test where there is none.

    ``data``: a folder of blocks that it has at the start.
    """
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (package prometheus)")
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus", f"--config.file={file}", f"--storage.tsdb.path={data or folder / 'data'}",
        f"--web.listen-address={address}", "--enable-feature=exemplar-storage", "--log.level=warn",
    ]  # fmt: skip
    with Process(command, name="prometheus", folder=folder) as process:
        process.wait_until(lambda: _answers(f"http://{address}/-/ready"), DEADLINE, "Prometheus to be ready")
        yield f"http://{address}"


class Served:
    """A running exporter, and what it serves."""

    def __init__(self, process: subprocess.Popen[bytes], err: Path) -> None:
        self.process = process
        self._err = err
        until(lambda: self.errors.startswith("metrics: ") and self.errors.endswith("\n"))
        self.url = self.errors.splitlines()[0].removeprefix("metrics: ")
        self.target = self.url.removeprefix("http://").removesuffix("/metrics")

    @property
    def errors(self) -> str:
        """What it wrote to standard error."""
        assert self.process.poll() is None, self._err.read_text()
        return self._err.read_text()

    def scrape(self) -> bytes:
        """Return the metrics as text."""
        with urllib.request.urlopen(self.url, timeout=20) as answer:
            return bytes(answer.read())

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a metric with these label values."""
        families = list(text_string_to_metric_families(self.scrape().decode()))
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


@contextmanager
def exporting(folder: Path, *arguments: str, **environment: str) -> Iterator[Served]:
    """Yield a running ``sojourn export`` on a free port, whose gauges are computed every second."""
    err = folder / "err"
    with err.open("wb") as sink:
        command = [*SOJOURN, "export", *arguments, "--listen", "127.0.0.1:0", "--every", "1"]
        process = subprocess.Popen(command, stderr=sink, stdin=subprocess.PIPE, env=os.environ | environment)
    try:
        yield Served(process, err)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
