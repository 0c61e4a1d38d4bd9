"""Which provider is chosen, and life without OpenTelemetry at all; each case in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from collector_support import APPS
from sojourn_lab.runtime.ports import free_port

# Run in a process of its own, because a global provider can be set only once.
GLOBAL_PROVIDER = """
import sys, time
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn_middleware import WSGIMiddleware

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]

stack = WSGIMiddleware(app)

def request():
    body = stack({"REQUEST_METHOD": "GET", "HTTP_X_REQUEST_START": f"t={time.time() - 1:.3f}"}, lambda *args: None)
    getattr(body, "close", int)()

if "late" in sys.argv:
    request()  # before anything is configured
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([reader]))
request()
print(len(exporter.get_finished_spans()), reader.get_metrics_data() is not None)
"""


@pytest.mark.parametrize(
    ("when", "set_in_env", "to_global", "to_file"),
    [
        ("early", None, 1, 0),
        ("late", None, 1, 0),
        ("early", "SOJOURN_SPANS", 0, 1),
        ("late", "SOJOURN_SPANS", 0, 2),
        ("early", "OTEL_EXPORTER_OTLP_ENDPOINT", 1, 0),
    ],
)
def test_the_file_comes_before_global_providers_and_those_before_an_endpoint(
    tmp_path: Path, when: str, set_in_env: str | None, to_global: int, to_file: int
) -> None:
    file = tmp_path / "spans.jsonl"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SOJOURN_"))}
    if set_in_env is not None:
        env[set_in_env] = str(file) if set_in_env == "SOJOURN_SPANS" else f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-c", GLOBAL_PROVIDER, when]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    spans, measured = done.stdout.split()
    lines = len(file.read_text().splitlines()) if file.exists() else 0
    assert (int(spans), lines) == (to_global, to_file)
    # A file holds spans only; measurements go to the app's provider if it is there when they begin.
    assert (measured == "True") == (when == "early" or set_in_env is None)


# Only the standard library and the middleware's own folder: no site-packages at all.
BARE = """
import asyncio, sys, time
sys.path.insert(0, {source!r})
import sojourn_middleware
from sojourn_middleware import ASGIMiddleware, WSGIMiddleware
assert not any(name.split(".")[0] == "opentelemetry" for name in sys.modules)

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]

started = []
stack = WSGIMiddleware(app)
for _ in range(3):
    environ = {{"REQUEST_METHOD": "GET", "HTTP_X_REQUEST_START": f"t={{time.time() - 2:.3f}}"}}
    assert stack(environ, lambda *args: started.append(dict(args[1]))) == [b"ok"]
assert all(2 < float(headers["X-Queueing-Delay"]) + 0.01 < 5 for headers in started), started

sent = []
stamp = [(b"x-request-start", b"%d" % time.time())]
async def asgi(scope, receive, send):
    await send({{"type": "http.response.start", "status": 200}})
    await send({{"type": "http.response.body"}})
async def send(message):
    sent.append(message)
asyncio.run(ASGIMiddleware(asgi)({{"type": "http", "method": "GET", "headers": stamp}}, None, send))
assert b"x-service-time" in dict(sent[0]["headers"])
assert not any(name.split(".")[0] == "opentelemetry" for name in sys.modules)
"""


@pytest.mark.parametrize(
    ("variable", "extra"),
    [(None, None), ("SOJOURN_SPANS", "otel-file"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "otel-otlp")],
)
def test_without_opentelemetry(tmp_path: Path, variable: str | None, extra: str | None) -> None:
    source = str(APPS.parents[2] / "collector" / "middleware" / "python" / "src")
    env = {variable: str(tmp_path / "spans.jsonl")} if variable else {}
    # -S leaves out site-packages, -E everything in the environment that could bring them back.
    command = [sys.executable, "-S", "-E", "-c", BARE.format(source=source)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    if extra is None:
        assert done.stderr == ""
    else:
        assert done.stderr.count(f'pip install "./collector/middleware/python[{extra}]"') == 1
        assert "Traceback" not in done.stderr
