"""The metrics that WSGI and ASGI export to Prometheus, by the table of all languages, and with gunicorn's workers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from collector_support import (
    ManualClock,
    call_asgi,
    call_wsgi,
    environ_of,
    fetch,
    gunicorn,
    scope_of,
    served,
    workers_of,
)
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from sojourn.export.metrics import BUCKETS, BY_NAME
from sojourn_middleware import ASGIMiddleware, WSGIMiddleware, prometheus

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "prometheus.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
STAMPED = [["X-Request-Start", "t=1767225599.900"]]  # 0.1 s before the manual clock
DELAYS, NEGATIVE = "sojourn_queueing_delay_seconds", "sojourn_negative_queueing_delays_total"

Sample = tuple[str, frozenset[tuple[str, str]], float]


def expanded(row: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """The row once for each number of its repetition, with the text that stands for ``#``."""
    if "repeat" not in row:
        return [(row, "#")]
    first, last = row["repeat"]
    return [(row, str(number)) for number in range(first, last + 1)]


def sample(name: str, labels: Mapping[str, str], value: float) -> Sample:
    return (name, frozenset(labels.items()), round(value, 9))


def expected_samples(case: Mapping[str, Any]) -> set[Sample]:
    samples = {sample(each["name"], each["labels"], each["value"]) for each in case["counters"] + case["gauges"]}
    bounds = [*map(float, TABLE["bounds"]), float("inf")]
    for histogram in case["histograms"]:
        for row, number in expanded(histogram):
            name, labels = row["name"], {key: text.replace("#", number) for key, text in row["labels"].items()}
            samples.add(sample(f"{name}_count", labels, row["buckets"][-1]))
            samples.add(sample(f"{name}_sum", labels, row["sum"]))
            for bound, count in zip(bounds, row["buckets"], strict=True):
                samples.add(sample(f"{name}_bucket", {**labels, "le": str(bound)}, count))
    return samples


def samples_of(metrics: Iterable[Any]) -> list[Sample]:
    """Every sample of the library's metrics but the times of creation; bounds as numbers."""
    samples = []
    for metric in metrics:
        for each in metric.samples:
            labels = dict(each.labels)
            if "le" in labels:
                labels["le"] = str(float(labels["le"]))
            if not each.name.endswith("_created"):
                samples.append(sample(each.name, labels, each.value))
    return samples


def serve_wsgi(requests: Iterable[Mapping[str, Any]], clock: ManualClock, **options: Any) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        request = environ["test.request"]
        if "route" in request:
            environ["sojourn.route"] = request["route"]
        clock.monotonic_ns += request["service_ns"]
        start_response(f"{request['status']} Status", [])
        return [b"ok"]

    middleware = WSGIMiddleware(app, clock=clock, **options)
    for request in requests:
        headers = [["X-Request-Start", request["stamp"]]] if request["stamp"] else []
        call_wsgi(middleware, environ_of(headers, **{"test.request": request}))


def serve_asgi(requests: Iterable[Mapping[str, Any]], clock: ManualClock, **options: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        request = scope["test.request"]
        if "route" in request:
            scope["sojourn.route"] = request["route"]
        clock.monotonic_ns += request["service_ns"]
        await send({"type": "http.response.start", "status": request["status"], "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    middleware = ASGIMiddleware(app, clock=clock, **options)
    for request in requests:
        headers = [["X-Request-Start", request["stamp"]]] if request["stamp"] else []
        call_asgi(middleware, scope_of(headers, **{"test.request": request}))


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.mark.parametrize("serve", [serve_wsgi, serve_asgi], ids=["wsgi", "asgi"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_metrics_are_exported_by_the_table(
    case: dict[str, Any], serve: Any, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, observed: Any
) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    for name, value in case.get("environment", {}).items():
        monkeypatch.setenv(name, value)
    requests = [
        {**row, **({"route": row["route"].replace("#", number)} if "route" in row else {})}
        for request in case["requests"]
        for row, number in expanded(request)
    ]
    clock = ManualClock(TABLE["now_ns"] // 1000)
    serve(requests, clock, prometheus=registry, telemetry=observed, **case.get("options", {}))
    exported = samples_of(registry.collect())
    assert set(exported) == expected_samples(case)
    assert len(exported) == len(set(exported))


def test_table_has_the_names_bounds_and_help_of_the_export(registry: CollectorRegistry) -> None:
    assert tuple(TABLE["bounds"]) == BUCKETS == prometheus.BUCKETS
    WSGIMiddleware(lambda *_: [], prometheus=registry)
    registered = {metric.name: (metric.type, metric.documentation) for metric in registry.collect()}
    for metric in TABLE["metrics"]:
        exported = BY_NAME[metric["name"]]
        assert (metric["kind"], metric["help"]) == (exported.kind, exported.help)
        assert registered.pop(metric["name"].removesuffix("_total")) == (exported.kind, exported.help)
        assert exported.labels[0] == "service"
    gauge = TABLE["in_progress"]
    assert registered == {gauge["name"]: (gauge["kind"], gauge["help"])}


def ok(environ: Any, start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [b"ok"]


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"service": "", **labels})


def count(registry: CollectorRegistry, status_class: str = "2xx", name: str = DELAYS, route: str = "") -> float | None:
    return value(registry, f"{name}_count", route=route, status_class=status_class)


def test_middlewares_of_one_registry_share_the_metrics(registry: CollectorRegistry, clock: ManualClock) -> None:
    for service in ("", "", "shop"):
        call_wsgi(WSGIMiddleware(ok, prometheus=registry, service=service, clock=clock), environ_of(STAMPED))
    assert count(registry) == 2
    assert value(registry, f"{DELAYS}_count", service="shop", route="", status_class="2xx") == 1
    middleware = WSGIMiddleware(ok, prometheus=registry, prometheus_name="queue_seconds", clock=clock)
    call_wsgi(middleware, environ_of(STAMPED))
    assert (count(registry), count(registry, name="queue_seconds")) == (2, 1)
    assert count(registry, name="sojourn_service_time_seconds") == 3


def test_hundred_routes_are_those_of_all_middlewares(registry: CollectorRegistry, clock: ManualClock) -> None:
    for number in range(101):
        middleware = WSGIMiddleware(ok, route=lambda _, number=number: f"/{number}", prometheus=registry, clock=clock)
        call_wsgi(middleware, environ_of(STAMPED))
    assert [count(registry, route=route) for route in ("/0", "/99", "/100", "other")] == [1, 1, None, 1]


def test_failed_app_has_a_delay_without_a_class_and_no_service_time(
    wsgi: Any, asgi: Any, registry: CollectorRegistry
) -> None:
    def failing(environ: Any, start_response: Any) -> list[bytes]:
        environ["sojourn.route"] = "/failing"
        raise LookupError("on request")

    async def failing_async(scope: Any, receive: Any, send: Any) -> None:
        scope["sojourn.route"] = "/failing"
        raise LookupError("on request")

    with pytest.raises(LookupError):
        call_wsgi(wsgi(failing, prometheus=registry), environ_of(STAMPED))
    assert count(registry, "", route="/failing") == 1
    with pytest.raises(LookupError):
        call_asgi(asgi(failing_async, prometheus=registry), scope_of(STAMPED))
    assert count(registry, "", route="/failing") == 2
    assert count(registry, "", "sojourn_service_time_seconds", "/failing") is None


def test_error_after_the_headers_is_observed_once(wsgi: Any, registry: CollectorRegistry) -> None:
    def late(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        yield b"first"
        raise LookupError("in the body")

    with pytest.raises(LookupError):
        call_wsgi(wsgi(late, prometheus=registry), environ_of(STAMPED))
    assert (count(registry), count(registry, "")) == (1, None)


def test_websocket_handshake_is_a_1xx(asgi: Any, registry: CollectorRegistry) -> None:
    async def accepting(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    call_asgi(asgi(accepting, prometheus=registry), scope_of(STAMPED, type="websocket"))
    assert count(registry, "1xx") == 1


def test_route_header_of_the_app_is_the_label(wsgi: Any, registry: CollectorRegistry) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("x-route", "/of/app")])
        return [b"ok"]

    call_wsgi(wsgi(app, prometheus=registry), environ_of(STAMPED))
    assert count(registry, route="/of/app") == 1


def test_delay_moved_by_mark_started_is_the_one_observed(registry: CollectorRegistry, clock: ManualClock) -> None:
    from sojourn_middleware import mark_started  # noqa: PLC0415

    def app(environ: Any, start_response: Any) -> list[bytes]:
        clock.advance(2)
        mark_started()
        return ok(environ, start_response)

    call_wsgi(WSGIMiddleware(app, prometheus=registry, clock=clock), environ_of(STAMPED))
    assert value(registry, f"{DELAYS}_sum", route="", status_class="2xx") == pytest.approx(2.1)


def test_threads_lose_no_observation(registry: CollectorRegistry, clock: ManualClock) -> None:
    middleware = WSGIMiddleware(ok, prometheus=registry, clock=clock, clock_offset=0.2)
    environs = [[environ_of(STAMPED) for _ in range(500)] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda own=own: [call_wsgi(middleware, each) for each in own]) for own in environs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (count(registry), value(registry, NEGATIVE)) == (2000, 2000)


def test_missing_library_is_one_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        middleware = WSGIMiddleware(ok, prometheus=True)
        assert "x-service-time" in call_wsgi(middleware, environ_of(STAMPED)).headers
    (record,) = caplog.records
    assert "no metrics are exported" in record.getMessage()
    assert "pip install prometheus-client" in record.getMessage()
    assert record.exc_info is None


def test_name_of_another_metric_of_the_app_is_one_warning(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    Counter(DELAYS, "Of the app.", registry=registry)
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        assert call_wsgi(WSGIMiddleware(ok, prometheus=registry), environ_of(STAMPED)).status == 200
    (record,) = caplog.records
    assert DELAYS in record.getMessage()


def test_failure_to_observe_is_one_warning(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full under the files of several processes, for example."""
    from prometheus_client.values import MutexValue  # noqa: PLC0415

    def full(self: Any, amount: float) -> None:
        raise OSError(28, "No space left on device")

    middleware = WSGIMiddleware(ok, prometheus=registry)
    monkeypatch.setattr(MutexValue, "inc", full)
    with caplog.at_level(logging.WARNING, "sojourn_middleware"):
        for _ in range(3):
            assert call_wsgi(middleware, environ_of(STAMPED)).status == 200
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"prometheus": "yes"}, TypeError),
        ({"prometheus": 1}, TypeError),
        ({"service": 7}, TypeError),
        ({"prometheus_name": "queue-time"}, ValueError),
        ({"prometheus_name": ""}, ValueError),
        ({"prometheus_name": "sojourn_service_time_seconds"}, ValueError),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        WSGIMiddleware(ok, **options)


def test_library_is_not_imported_without_the_option() -> None:
    code = "import sys, sojourn_middleware as m; m.WSGIMiddleware(None); print('prometheus_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def scraped(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The metrics of the middleware as one scrape shows them."""
    families = text_string_to_metric_families(fetch(port, "/metrics").body.decode())
    samples = samples_of(family for family in families if family.name.startswith("sojourn_"))
    return {(name, labels): number for name, labels, number in samples}


@pytest.mark.parametrize("preload", [(), ("--preload",)], ids=["", "preload"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_workers_of_gunicorn_are_summed(tmp_path: Path, preload: tuple[str, ...], threads: str) -> None:
    """Every scrape shows the requests of both workers, whichever process answers it."""
    files = tmp_path / "metrics"
    files.mkdir()
    command = gunicorn("metered_app:application", "--workers", "2", "--threads", threads, *preload)
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(files), "OTEL_SERVICE_NAME": "shop"}
    with served(command, tmp_path, environment) as (port, process):
        answers = [fetch(port, "/sleep")]
        workers, more = workers_of(port, lambda names: len({each.partition(".")[0] for each in names}) >= 2)
        answers += more
        pids = {worker.partition(".")[0] for worker in workers}
        assert len(pids) == 2
        assert str(process.pid) not in pids
        labels = {"service": "shop", "route": "/sleep", "status_class": "2xx"}
        # Scrapes by both workers: the answer is the same.
        for _ in range(6):
            samples = scraped(port)
            assert samples[f"{DELAYS}_count", frozenset(labels.items())] == len(answers)
            assert samples[f"{DELAYS}_bucket", frozenset({**labels, "le": "inf"}.items())] == len(answers)
        reported = sum(answer.queueing_delay for answer in answers)
        assert samples[f"{DELAYS}_sum", frozenset(labels.items())] == pytest.approx(reported, abs=1e-6 * len(answers))
        assert samples[NEGATIVE, frozenset({("service", "shop")})] == 0
