"""A real Prometheus that scrapes a target every second, and answers queries."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sojourn_lab.runtime.process import Process, free_port, wait_for_port

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: sojourn
    static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ready(self) -> bool:
        """Return whether it answers queries."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except urllib.error.HTTPError:
            return False

    def query(self, text: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return labels -> value of an instant query."""
        result = self._answer("query", query=text)["result"]
        return {tuple(sorted(each["metric"].items())): float(each["value"][1]) for each in result}

    def value(self, text: str) -> float:
        """Return the only value of an instant query."""
        (value,) = self.query(text).values()
        return value

    def exemplars(self, text: str) -> list[dict[str, Any]]:
        """Return the exemplars of the last hour."""
        now = time.time()
        series: Any = self._answer("query_exemplars", query=text, start=now - 3600, end=now + 60)
        return [exemplar for each in series for exemplar in each["exemplars"]]

    def _answer(self, what: str, **parameters: object) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus_of(target: str, folder: Path) -> Iterator[Prometheus]:
    """Run Prometheus in a folder, for one target (host:port); skip the test where there is none."""
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus")
    config = folder / "prometheus.yaml"
    config.write_text(CONFIG.format(target=target), encoding="utf-8")
    port = free_port()
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage", "--log.level=warn",
    ]  # fmt: skip
    with Process(command, name="prometheus", folder=folder) as process:
        wait_for_port("127.0.0.1", port, 30.0, process)
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        process.wait_until(prometheus.ready, 30.0, "Prometheus to be ready")
        yield prometheus
