"""Spans and the histogram over OTLP/HTTP from real servers to a real receiver."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector_support import eventually, fetch, fetch_parallel, gunicorn, served
from otlp_receiver import Collector
from sojourn_lab.runtime.ports import free_port


@pytest.fixture
def collector() -> Iterator[Collector]:
    receiver = Collector()
    yield receiver
    receiver.close()


def test_otlp_from_two_forked_workers(tmp_path: Path, collector: Collector) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_METRIC_EXPORT_INTERVAL": "100",
    }
    command = gunicorn("bare_app:application", "--workers", "2", "--preload")
    with served(command, tmp_path, env) as (port, _):
        workers: set[str] = set()
        sent = 0
        while len(workers) < 2 and sent < 80:
            workers |= {answer.headers["x-worker"] for answer in fetch_parallel(port, "/sleep", 4)}
            sent += 4
        assert len(workers) == 2
        eventually(lambda: len(collector.spans()) == sent, "the spans")

        def counted() -> int:
            return sum(point.count for points in collector.last_points().values() for point in points)

        eventually(lambda: counted() == sent, "the histogram to have counted every request")
    span = collector.spans()[0]
    names = {entry.key for entry in span.attributes}
    assert {"queueing.delay", "queueing.status", "queueing.worker", "url.path"} <= names
    assert [event.name for event in span.events] == ["http.proxy.request.started"]
    points = collector.last_points()
    assert len(points) == 2  # two processes, two streams that do not overwrite each other
    assert all(points[0].explicit_bounds[:4] == [0.0005, 0.001, 0.0025, 0.005] for points in points.values())


def test_otlp_sends_what_it_holds_when_the_server_stops(tmp_path: Path, collector: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.endpoint + "/v1/traces"}
    env["OTEL_BSP_SCHEDULE_DELAY"] = "600000"
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        fetch(port)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert len(collector.spans()) == 1
    assert collector.metrics == []  # the endpoint was for traces only


def test_otlp_without_a_receiver_does_not_disturb_the_app(tmp_path: Path) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        assert fetch(port).body == b"hello"
        eventually(lambda: "Failed to export spans" in process.last_lines(400), "the exporter to complain")
        assert fetch(port).body == b"hello"


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "no spans are sent: the OTLP endpoint is set to gRPC"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, None),
    ],
    ids=["grpc", "none"],
)
def test_otlp_that_is_not_for_us(
    tmp_path: Path, collector: Collector, env: dict[str, str], complaint: str | None
) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "20", **env}
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        assert fetch(port).body == b"hello"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        log = process.last_lines(400)
    assert collector.traces == []
    assert collector.metrics == []
    assert "Traceback" not in log
    assert log.count(complaint) == 1 if complaint else "sojourn_middleware" not in log
