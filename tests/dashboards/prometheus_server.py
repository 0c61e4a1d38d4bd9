"""A real Prometheus in a folder of its own, filled by promtool; asked over HTTP."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import signal
import subprocess
import threading
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
from prometheus_fixtures import EXPORTER, openmetrics
from sojourn_lab.runtime.process import free_port

DEADLINE = 60.0
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
# As an exporter answers a scrape: a histogram of one request, with an exemplar.
PAGE = "".join(
    f"# TYPE {name} histogram\n"
    f'{name}_bucket{{{{service="exemplars",route="/",upstream="a",status_class="2xx",le="0.5"}}}} 1.0'
    f' # {{{{trace_id="{TRACE_ID}"}}}} 0.4 {{now}}\n'
    f'{name}_bucket{{{{service="exemplars",route="/",upstream="a",status_class="2xx",le="+Inf"}}}} 1.0\n'
    f'{name}_count{{{{service="exemplars",route="/",upstream="a",status_class="2xx"}}}} 1.0\n'
    f'{name}_sum{{{{service="exemplars",route="/",upstream="a",status_class="2xx"}}}} 0.4\n'
    for name in (f"sojourn_{part}_seconds" for part in ("response_time", "queueing_delay", "service_time"))
)


@dataclass
class Prometheus:
    """A running server. ``until``: the last instant of its data, unix time."""

    url: str
    until: int

    def api(self, path: str, **parameters: str | float) -> Any:
        query = urllib.parse.urlencode(parameters).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", query if parameters else None)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series at the end of the data."""
        answer = self.api("query", query=promql, time=self.until)
        assert answer["resultType"] == "vector", answer
        return [(one["metric"], float(one["value"][1])) for one in answer["result"]]

    def range(self, promql: str, seconds: int, step: int) -> list[tuple[dict[str, str], list[float]]]:
        """Labels and values of each series over the last seconds of the data."""
        answer = self.api(
            "query_range", query=promql, start=self.until - seconds, end=self.until, step=step
        )
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
    with _exporter() as target:
        (folder / "rules.yaml").write_text(
            # Once a second instead of once a minute: a test does not wait.
            (HERE / "prometheus" / "rules" / "sojourn.yaml").read_text().replace("interval: 1m", "interval: 1s")
        )
        scrape = {
            "job_name": EXPORTER["job"],
            "scrape_interval": "1s",
            "static_configs": [{"targets": [target]}],
        }
        config = {"rule_files": ["rules.yaml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        with _started(folder, data) as url:
            yield Prometheus(url, until)


@contextlib.contextmanager
def _exporter() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (PAGE.format(now=f"{time.time():.3f}") + "# EOF\n").encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def _started(folder: Path, data: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    log = folder / "prometheus.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address={address}",
                "--enable-feature=exemplar-storage",
                "--log.level=warn",
            ],
            stdout=output,
            stderr=output,
        )
        try:
            url = f"http://{address}"
            eventually(lambda: process.poll() is not None or _ready(url), "Prometheus to be ready", log)
            assert process.poll() is None, log.read_text()
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
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
