"""Spans of real servers in a file: several processes, one file, whole lines, whatever happens."""

from __future__ import annotations

import json
import re
import socket
import threading
import uuid
from contextlib import suppress
from http.client import HTTPException
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from collector_support import Answer, eventually, fetch, gunicorn, served, stamp_now, uvicorn
from sojourn_middleware.spanfile import AppendingStream

OURS = "http.request.header.x-request-id"
SCOPE = "sojourn_middleware"


def value_of(value: dict[str, Any]) -> Any:
    """A Python value from OTLP/JSON, where an integer is a string."""
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [value_of(item) for item in content["values"]]
    return int(content) if kind == "intValue" else content


def attributes_of(holder: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {entry["key"]: value_of(entry["value"]) for entry in holder["attributes"]}


def spans_in(path: Path, scope: str = SCOPE) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every span of a file with its resource's attributes; every line must be whole and hold one request."""
    text = path.read_text("utf-8") if path.exists() else ""
    assert text == "" or text.endswith("\n")
    return spans_of(text, scope)


def spans_so_far(path: Path, scope: str = SCOPE) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The same of a file that is being written: who reads in the middle of a write sees part of the last line."""
    text = path.read_text("utf-8") if path.exists() else ""
    return spans_of(text[: text.rfind("\n") + 1], scope)


def spans_of(text: str, scope: str = SCOPE) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every span of whole lines with its resource's attributes."""
    matches = []
    for line in text.splitlines():
        request = json.loads(line)
        assert set(request) == {"resourceSpans"}
        for resource in request["resourceSpans"]:
            for spans in resource["scopeSpans"]:
                assert spans["scope"]["name"] == scope
                matches += [(span, attributes_of(resource["resource"])) for span in spans["spans"]]
    return matches


def by_request_id(path: Path) -> dict[str, dict[str, Any]]:
    """The spans of a file by request id; an id that comes twice fails the test."""
    spans = [span for span, _ in spans_in(path)]
    ids = [attributes_of(span)[OURS][0] for span in spans]
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, spans, strict=True))


def test_file_field_by_field(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    headers = {
        "X-Request-ID": "request-1",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",  # the caller does not sample
    }
    env = {"SOJOURN_SPANS": str(file), "OTEL_SERVICE_NAME": "shop"}
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, _):
        answer = fetch(port, "/generator?secret=1", headers)
        eventually(lambda: spans_so_far(file), "the span")
    ((span, resource),) = spans_in(file)
    attributes = attributes_of(span)
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    (event,) = span["events"]
    assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
    assert (span["traceId"], span["parentSpanId"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert (span["name"], span["kind"], span["status"]) == ("GET", 2, {})
    assert event["name"] == "http.proxy.request.started"
    assert resource["service.name"] == "shop"
    assert str(resource["process.pid"]) == answer.headers["x-worker"]

    assert attributes.pop("queueing.delay") == attributes["queueing.delay.raw"]
    delay, service = attributes.pop("queueing.delay.raw"), attributes.pop("queueing.service_time")
    assert f"{delay:.6f}" == answer.headers["x-queueing-delay"]
    assert f"{service:.6f}" == answer.headers["x-service-time"]
    assert delay == (start - int(event["timeUnixNano"])) / 1e9
    # The body went on for another second after the headers, and the span with it.
    assert (end - start) / 1e9 >= service + 1.0
    assert attributes == {
        "http.request.method": "GET",
        "url.path": "/generator",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": port,
        OURS: ["request-1"],
        "http.response.status_code": 200,
        "queueing.status": "ok",
        "queueing.clock_offset": 0.0,
        "queueing.worker": answer.headers["x-worker"],
    }


@pytest.mark.parametrize(
    "command",
    [
        gunicorn("bare_app:application", "--workers", "3", "--preload"),
        gunicorn("bare_app:application", "--worker-class", "gthread", "--threads", "4"),
        uvicorn("fastapi_app:wrapped", "--workers", "2"),
    ],
    ids=["three preloaded processes", "four threads", "two event loops"],
)
def test_several_workers_share_one_file(tmp_path: Path, command: list[str]) -> None:
    """Lines longer than any buffer of Python's, so that a torn write would show."""
    file = tmp_path / "spans.jsonl"
    answers: dict[str, Answer] = {}
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):

        def client() -> None:
            for _ in range(15):
                request_id = uuid.uuid4().hex + "x" * 6000
                answers[request_id] = fetch(port, "/users/1", {"X-Request-ID": request_id})

        threads = [threading.Thread(target=client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == 60
        eventually(lambda: len(spans_so_far(file)) >= 60, "all spans")
    spans = by_request_id(file)
    assert set(spans) == set(answers)
    for request_id, answer in answers.items():
        attributes = attributes_of(spans[request_id])
        assert attributes["queueing.worker"] == answer.headers["x-worker"]
        assert f"{attributes['queueing.delay.raw']:.6f}" == answer.headers["x-queueing-delay"]


def test_provider_created_before_the_fork_remains_in_the_parent(tmp_path: Path) -> None:
    """The app serves itself a request at import; each worker's spans must name the worker, not the master."""
    file = tmp_path / "spans.jsonl"
    command = gunicorn("warmed_app:application", "--preload")
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, master):
        answer = fetch(port, "/", {"X-Request-ID": "first"})
        spans = eventually(lambda: len(both := spans_so_far(file)) == 2 and both, "both spans")
        resources = {attributes_of(span)[OURS][0]: resource for span, resource in spans}
        assert resources["warm-up"]["process.pid"] == master.pid
    assert str(resources["first"]["process.pid"]) == answer.headers["x-worker"]
    assert resources["first"]["service.instance.id"] != resources["warm-up"]["service.instance.id"]


def append_lines(path: str, letter: str) -> None:
    stream = AppendingStream(path)
    for _ in range(200):
        stream.write(letter * 30_000 + "\n")


def test_long_lines_of_several_processes_do_not_mingle(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    context = get_context("spawn")
    processes = [context.Process(target=append_lines, args=(str(file), letter)) for letter in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    lines = file.read_text().splitlines()
    assert sorted({(line[0], len(set(line)), len(line)) for line in lines}) == [(letter, 1, 30_000) for letter in "abc"]
    assert len(lines) == 600


def test_a_span_survives_the_death_of_its_worker(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    with served(gunicorn("bare_app:application"), tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        first = fetch(port, "/", {"X-Request-ID": "before"})
        assert fetch(port, "/die", {"X-Request-ID": "killed"}).body == b"last"
        second = eventually(lambda: fetch(port, "/", {"X-Request-ID": str(uuid.uuid4())}), "a new worker")
        assert second.headers["x-worker"] != first.headers["x-worker"]
    spans = by_request_id(file)
    assert "before" in spans
    assert "killed" not in spans  # it never ended


@pytest.mark.parametrize(
    ("command", "path"),
    [(gunicorn("bare_app:application"), "/generator"), (uvicorn("fastapi_app:wrapped"), "/stream")],
    ids=["gunicorn", "uvicorn"],
)
def test_a_client_that_went_away_has_a_span_all_the_same(tmp_path: Path, command: list[str], path: str) -> None:
    """Work for a disconnected client is recorded as well."""
    file = tmp_path / "spans.jsonl"
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Request-ID: gone\r\n"
            client.sendall(f"{head}X-Request-Start: {stamp_now()}\r\n\r\n".encode())
            assert client.recv(15) == b"HTTP/1.1 200 OK"
        eventually(lambda: spans_so_far(file), "the span")
    attributes = attributes_of(by_request_id(file)["gone"])
    assert attributes["http.response.status_code"] == 200
    assert attributes["queueing.status"] == "ok"


def test_a_worker_that_the_server_gave_up_on_has_a_span(tmp_path: Path) -> None:
    """gunicorn aborts a worker that is too slow with an exception, which must reach gunicorn again."""
    file = tmp_path / "spans.jsonl"
    # In seconds; a worker that takes longer to load the app is aborted as well.
    command = gunicorn("bare_app:application", "--timeout", "3")
    with served(command, tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        first = fetch(port, "/", {"X-Request-ID": "before"})
        with suppress(OSError, HTTPException):
            assert fetch(port, "/stuck", {"X-Request-ID": "stuck"}).status == 500
        after = eventually(lambda: fetch(port, "/", {"X-Request-ID": uuid.uuid4().hex}), "a new worker")
        assert after.headers["x-worker"] != first.headers["x-worker"]
    span = by_request_id(file)["stuck"]
    attributes = attributes_of(span)
    assert attributes["error.type"] == "SystemExit"
    assert attributes["queueing.worker"] == first.headers["x-worker"]
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) >= 1_000_000_000


def test_a_rotated_file_is_followed(tmp_path: Path) -> None:
    file, old = tmp_path / "spans.jsonl", tmp_path / "spans.jsonl.1"
    with served(gunicorn("bare_app:application"), tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        fetch(port, "/", {"X-Request-ID": "old"})
        eventually(lambda: spans_so_far(file), "the first span")
        file.rename(old)
        fetch(port, "/", {"X-Request-ID": "new"})
        eventually(lambda: spans_so_far(file), "the second span")
    assert set(by_request_id(old)) == {"old"}
    assert set(by_request_id(file)) == {"new"}


def test_errors_of_the_app_are_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    with served(gunicorn("bare_app:application"), tmp_path, {"SOJOURN_SPANS": str(file)}) as (port, _):
        for path in ("/error", "/late-error"):
            assert fetch(port, path, {"X-Request-ID": path}).status == 500
        eventually(lambda: len(spans_so_far(file)) == 2, "both spans")
    for span in by_request_id(file).values():
        attributes = attributes_of(span)
        assert attributes["error.type"] == "LookupError"
        assert attributes["queueing.delay"] > -0.01
        assert "http.response.status_code" not in attributes
        assert span["status"]["code"] == 2
        assert {event["name"] for event in span["events"]} == {"http.proxy.request.started", "exception"}


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("{folder}/missing/spans.jsonl", "No such file or directory"), ("/dev/full", "No space left on device")],
)
def test_an_unwritable_file_is_one_warning(tmp_path: Path, path: str, complaint: str) -> None:
    env = {"SOJOURN_SPANS": path.format(folder=tmp_path)}
    with served(gunicorn("bare_app:application"), tmp_path, env) as (port, process):
        for _ in range(5):
            answer = fetch(port)
            assert answer.body == b"hello"
            assert "x-queueing-delay" in answer.headers
        eventually(lambda: complaint in process.last_lines(100), "the warning")
        log = process.last_lines(1000)
        assert log.count(complaint) == 1
        assert env["SOJOURN_SPANS"] in log
        assert "Traceback" not in log


@pytest.mark.parametrize("traced", [True, False])
def test_the_file_has_a_span_beside_the_one_of_an_instrumentation(tmp_path: Path, traced: bool) -> None:
    """The instrumentation's span gets the attributes, and remains the parent of the app's spans."""
    file, other = tmp_path / "spans.jsonl", tmp_path / "instrumented.jsonl"
    env = {"SOJOURN_SPANS": str(file), "INSTRUMENTED_SPANS": str(other)}
    headers = {"X-Request-ID": "request-1"}
    if traced:
        headers["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"  # not sampled
    with served(gunicorn("instrumented_app:application"), tmp_path, env) as (port, _):
        answer = fetch(port, "/", headers)
        eventually(lambda: spans_so_far(file), "the span in the file")
        # What the caller does not sample is in the file alone.
        eventually(
            lambda: traced or len(spans_so_far(other, "instrumentation")) == 2, "the spans of the instrumentation"
        )
    ((span, _),) = spans_in(file)
    attributes = attributes_of(span)
    assert (span["name"], span["kind"], attributes["http.response.status_code"]) == ("GET", 2, 200)
    assert f"{attributes['queueing.delay.raw']:.6f}" == answer.headers["x-queueing-delay"]
    if traced:
        assert (span["traceId"], span["parentSpanId"]) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        assert not spans_in(other, "instrumentation")
        return
    by_name = {each["name"]: each for each, _ in spans_in(other, "instrumentation")}
    around = by_name["around"]
    assert by_name["inside"]["parentSpanId"] == around["spanId"]
    assert (span["traceId"], span["parentSpanId"]) == (around["traceId"], around["spanId"])
    own = attributes_of(around)
    assert own == {name: value for name, value in attributes.items() if name in own}
    assert set(own) >= {"queueing.delay", "queueing.service_time", OURS}
    assert [event["name"] for event in around["events"]] == ["http.proxy.request.started"]
