"""``sojourn export`` as a process: following, serving, sending, and its errors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from otlp_receiver import Collector
from prometheus_client.parser import text_string_to_metric_families
from prometheus_server import SOJOURN, exporting
from sojourn.cli import app
from sojourn.export.metrics import BY_NAME
from sojourn_lab.runtime.ports import free_port
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner
from watch_support import EPOCH, given_up, record, until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_counts_what_is_written_from_now_on(tmp_path: Path) -> None:
    """No record is lost when the log is rotated, garbled or truncated; older ones are not counted."""
    log = tmp_path / "access.log"
    now = time.time()
    log.write_bytes(b"".join(record(now - 20 + n / 10, 0.0, 0.05) for n in range(200)))
    with exporting(tmp_path, str(log)) as served:
        # The gauges know the last minutes.
        until(lambda: served.value("sojourn_workers_needed", method="replay") >= 1)
        assert served.value("sojourn_requests_total") == 0
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()) + b"garbage\n" + record(time.time())[:40])
            until(lambda: served.value("sojourn_requests_total") == 1)
            log.rename(tmp_path / "access.log.1")
            writer.write(record(time.time())[40:] + record(time.time()))
        with log.open("ab", buffering=0) as writer:
            writer.write(record(time.time()))
            until(lambda: served.value("sojourn_requests_total") == 4)
            os.truncate(log, 0)
            writer.write(record(time.time()))
            until(lambda: served.value("sojourn_requests_total") == 5)
        assert served.value("sojourn_log_refused_lines_total", reason="invalid_json") == 1
        until(lambda: served.value("sojourn_log_rotations_total") == 2)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0


def test_log_that_does_not_exist_yet(tmp_path: Path) -> None:
    log = tmp_path / "later.log"
    with exporting(tmp_path, str(log)) as served:
        until(lambda: served.value("sojourn_log_missing") == 1)
        log.write_bytes(record(time.time()))
        until(lambda: served.value("sojourn_requests_total") == 1)
        until(lambda: served.value("sojourn_log_missing") == 0)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(60) == 0


def test_standard_input(tmp_path: Path) -> None:
    with exporting(tmp_path, "-", "--from-beginning") as served:
        assert served.process.stdin is not None
        served.process.stdin.write(b"".join(record(EPOCH + n) for n in range(30)))
        served.process.stdin.flush()
        until(lambda: served.value("sojourn_requests_total") == 30)
        served.process.stdin.close()
        until(lambda: served.value("sojourn_log_last_record_timestamp_seconds") == EPOCH + 29)


def test_alias_has_the_same_figures(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(record(EPOCH, 0.03))
    alias = "http_request_queue_duration_seconds"
    with exporting(tmp_path, str(log), "--from-beginning", "--alias", alias) as served:
        until(lambda: served.value(f"{alias}_count") == 1)
        assert served.value(f"{alias}_sum") == served.value("sojourn_queueing_delay_seconds_sum")
        assert served.value(f"{alias}_bucket", le="0.05") == 1
        assert served.value(f"{alias}_bucket", le="0.025") == 0


def test_wasted_work_of_a_span_that_comes_later(tmp_path: Path) -> None:
    log, spans = tmp_path / "access.log", tmp_path / "spans.jsonl"
    spans.touch()
    log.write_bytes(given_up(EPOCH + 1, 1.0, request_id="r1") + record(EPOCH + 2, request_id="r2"))
    with exporting(tmp_path, str(log), "--from-beginning", "--spans", str(spans)) as served:
        until(lambda: served.value("sojourn_abandoned_requests_total") == 1)
        assert served.value("sojourn_wasted_seconds_total") == 0
        spans.write_bytes(span("r2", EPOCH + 1.9, 0.01) + b"no span\n" + span("r1", EPOCH + 0.5, 2.5))
        until(lambda: served.value("sojourn_wasted_seconds_total", route="/") == pytest.approx(2.5))


def span(request_id: str, begin: float, seconds: float) -> bytes:
    name = {"values": [{"stringValue": request_id}]}
    values = {
        "traceId": TRACE, "spanId": "00f067aa0ba902b7", "kind": 2, "startTimeUnixNano": str(round(begin * 1e9)),
        "endTimeUnixNano": str(round((begin + seconds) * 1e9)),
        "attributes": [{"key": "http.request.header.x-request-id", "value": {"arrayValue": name}}],
    }  # fmt: skip
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [values]}]}]}).encode() + b"\n"


@pytest.mark.parametrize("aggregation", ["", "base2_exponential_bucket_histogram"])
def test_otlp_sends_the_same_metrics(tmp_path: Path, aggregation: str) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"".join(record(EPOCH + n, 0.01 * n, 0.05, route=f"/{n % 2}") for n in range(40)))
    receiver = Collector()
    environment = {"OTEL_METRIC_EXPORT_INTERVAL": "200", "OTEL_RESOURCE_ATTRIBUTES": "host.name=edge"}
    if aggregation:
        environment["OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"] = aggregation
    try:
        arguments = (str(log), "--from-beginning", "--otlp", receiver.endpoint)
        with exporting(tmp_path, *arguments, **environment) as served:
            until(lambda: receiver.metrics and "sojourn_saturation" in _latest(receiver))
            prometheus = {
                name: served.value(name) for name in BY_NAME if BY_NAME[name].kind == "counter"
            }  # an exporter of a finished log: nothing changes
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(60) == 0
        latest = _latest(receiver)
        resource = receiver.metrics[-1].resource_metrics[0].resource
    finally:
        receiver.close()
    attributes = {entry.key: entry.value.string_value for entry in resource.attributes}
    assert attributes["host.name"] == "edge"
    assert attributes["service.name"] == "sojourn"
    for name, metric in latest.items():
        assert metric.unit == BY_NAME[name].unit
        if BY_NAME[name].kind == "counter":
            assert metric.sum.is_monotonic
            assert sum(point.as_double for point in metric.sum.data_points) == prometheus[name]
    delay = latest["sojourn_queueing_delay_seconds"]
    points = (delay.exponential_histogram if aggregation else delay.histogram).data_points
    assert sum(point.count for point in points) == 40
    assert {(a.key, a.value.string_value) for p in points for a in p.attributes if a.key == "route"} == {
        ("route", "/0"), ("route", "/1")
    }  # fmt: skip
    if aggregation:
        for point in points:
            assert sum(point.positive.bucket_counts) + point.zero_count + sum(point.negative.bucket_counts) == 20
            base = 2 ** (2**-point.scale)
            upper = base ** (point.positive.offset + len(point.positive.bucket_counts))
            assert upper / base <= 0.4 <= upper * base
    else:
        assert all(len(point.bucket_counts) == len(point.explicit_bounds) + 1 for point in points)


def _latest(receiver: Collector) -> dict[str, object]:
    scopes = receiver.metrics[-1].resource_metrics[0].scope_metrics
    return {metric.name: metric for scope in scopes for metric in scope.metrics}


def test_otlp_without_a_receiver_is_reported_once(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(record(EPOCH))
    port = free_port()
    arguments = (str(log), "--from-beginning", "--otlp", f"http://127.0.0.1:{port}")
    environment = {"OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with exporting(tmp_path, *arguments, **environment) as served:
        until(lambda: "does not accept metrics" in served.errors)
        until(lambda: served.value("sojourn_requests_total") == 1)
        assert served.errors.count("otlp:") == 1
        assert "Traceback" not in served.errors


def test_once_prints_and_exits(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(record(EPOCH) + record(EPOCH + 1))
    result = CliRunner().invoke(app, ["export", str(log), "--once"])
    assert result.exit_code == 0, result.output
    families = {family.name: family for family in text_string_to_metric_families(result.stdout)}
    assert sum(sample.value for sample in families["sojourn_requests"].samples) == 2


ERRORS = {
    "listen": ["{log}", "--listen", "nowhere"],
    "port": ["{log}", "--listen", "127.0.0.1:99999"],
    "objective": ["{log}", "--objective", "p95"],
    "labels": ["{log}", "--labels", "route,colour"],
    "buckets": ["{log}", "--buckets", "0.1,fast"],
    "bucket": ["{log}", "--buckets", "0,1"],
    "alias": ["{log}", "--alias", "a b"],
    "workers": ["{log}", "--workers", "0"],
    "otlp": ["{log}", "--otlp", "localhost:4317"],
    "store": ["chdb:///x"],
    "glob": ["{log}*.nothing"],
    "folder": ["{folder}/none/x.log", "--once"],
    "empty": ["{log}.empty", "--once"],
    "pipe": ["{log}.pipe", "--once"],
    "format": ["{log}", "--log-format", "no such"],
}


def test_errors_are_sentences(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(record(EPOCH))
    (tmp_path / "access.log.empty").touch()
    os.mkfifo(tmp_path / "access.log.pipe")
    messages = {}
    for name, arguments in ERRORS.items():
        texts = [text.format(log=log, folder=tmp_path) for text in arguments]
        result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["export", *texts])
        assert result.exit_code in {1, 2}, (name, result.output)
        message = str(result.exception) if result.exit_code == 1 else result.output
        messages[name] = " ".join(message.replace(str(tmp_path), "…").split())
    assert messages == snapshot


def test_occupied_port_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [*SOJOURN, "export", str(log), "--listen", f"127.0.0.1:{port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"--listen 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
