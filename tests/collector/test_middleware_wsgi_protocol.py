"""The WSGI protocol through the middleware: what PEP 3333 requires of middleware."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any
from wsgiref.handlers import SimpleHandler
from wsgiref.util import FileWrapper
from wsgiref.validate import validator

import pytest
from collector_support import ManualClock, call_wsgi, environ_of
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

STAMPED = [["X-Request-Start", "t=1767225599.900"]]  # 0.1 s before the manual clock


def test_generator_without_a_chunk_answers_at_its_end(wsgi: Any, clock: ManualClock) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        clock.advance(2)
        yield b""

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.service_time == 2
    assert answer.body == b""


def test_no_chunk_is_read_ahead(wsgi: Any) -> None:
    produced: list[bytes] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        for chunk in (b"1", b"2", b"3"):
            produced.append(chunk)
            yield chunk

    body = iter(wsgi(app)(environ_of([]), lambda *args: None))
    assert produced == []
    assert next(body) == b"1"
    assert produced == [b"1"]


def test_write_sends_the_headers(wsgi: Any, clock: ManualClock) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        write = start_response("200 OK", [])
        clock.advance(1)
        write(b"written ")
        clock.advance(5)
        return [b"returned"]

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.service_time == 1
    assert answer.body == b"written returned"


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
def test_answers_without_a_body_start_at_once(wsgi: Any, status: str) -> None:
    """A server may never ask for the body of a HEAD request, so the headers cannot wait for it."""
    started: list[Any] = []

    def app(environ: Any, start_response: Any) -> Any:
        start_response(status, [])
        return (chunk for chunk in [b"x"])

    method = "HEAD" if status == "200 OK" else "GET"
    body = wsgi(app)(environ_of(STAMPED, REQUEST_METHOD=method), lambda *args: started.append(args))
    assert started[0][0] == status
    assert ("X-Queueing-Delay", "0.100000") in started[0][1]
    body.close()


@pytest.mark.parametrize("kind", ["list", "generator", "object"])
def test_close_is_called_once(wsgi: Any, kind: str) -> None:
    closed: list[str] = []

    class Body:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"x"])

        def close(self) -> None:
            closed.append("object")

    class ClosableList(list[bytes]):
        def close(self) -> None:
            closed.append("list")

    def generator() -> Iterator[bytes]:
        try:
            yield b"x"
            yield b"never read"
        finally:
            closed.append("generator")

    bodies = {"list": ClosableList([b"x"]), "generator": generator(), "object": Body()}

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return bodies[kind]

    body = wsgi(app)(environ_of([]), lambda *args: None)
    assert next(iter(body)) == b"x"
    assert closed == []
    body.close()
    assert closed == [kind]


def test_error_before_the_headers_propagates(wsgi: Any, finished: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        wsgi(app)(environ_of(STAMPED), lambda *args: None)
    for span in finished():
        assert span.attributes is not None
        assert span.attributes["error.type"] == "LookupError"
        assert span.attributes["queueing.delay"] == 0.1
        assert "http.response.status_code" not in span.attributes
        assert not span.status.is_ok


def test_error_before_the_first_chunk_lets_the_server_answer_500(wsgi: Any) -> None:
    started: list[Any] = []

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        raise LookupError("late")
        yield b""

    body = wsgi(app)(environ_of(STAMPED), lambda *args: started.append(args))
    with pytest.raises(LookupError):
        next(iter(body))
    body.close()
    assert started == []  # nothing was promised to the client yet


def test_exc_info_replaces_headers_that_have_not_left(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("X-Kind", "fine")])
        try:
            raise LookupError("oops")
        except LookupError:
            start_response("500 Oops", [("X-Kind", "error")], sys.exc_info())
        return [b"sorry"]

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.status == 500
    assert answer.headers["x-kind"] == "error"
    assert answer.queueing_delay == 0.1


def test_exc_info_after_the_headers_left_is_raised_by_the_server(wsgi: Any) -> None:
    """With wsgiref's real server object: it re-raises the app's error, as PEP 3333 demands."""
    output = io.BytesIO()
    errors = io.StringIO()

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"first"
        try:
            raise LookupError("too late")
        except LookupError:
            start_response("500 Oops", [], sys.exc_info())
        yield b"not reached"

    handler = SimpleHandler(io.BytesIO(), output, errors, environ_of(STAMPED))
    handler.run(wsgi(app))
    assert b"first" in output.getvalue()
    assert b"not reached" not in output.getvalue()
    assert "too late" in errors.getvalue()


def test_start_response_twice_is_refused(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        start_response("201 Created", [])
        return []

    with pytest.raises(AssertionError, match="twice"):
        wsgi(app)(environ_of([]), lambda *args: None)


def test_error_of_the_servers_start_response_closes_the_body(wsgi: Any) -> None:
    closed: list[bool] = []

    class Body(list[bytes]):
        def close(self) -> None:
            closed.append(True)

    def app(environ: Any, start_response: Any) -> Body:
        start_response("200 OK", [("Bad\nName", "x")])
        return Body()

    def refuse(*args: Any) -> Any:
        raise ValueError("bad header")

    with pytest.raises(ValueError, match="bad header"):
        wsgi(app)(environ_of([]), refuse)
    assert closed == [True]


def test_a_files_class_and_its_close_survive(wsgi: Any, finished: Any, exporter: InMemorySpanExporter) -> None:
    file = io.BytesIO(b"content")

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](file)

    started: list[Any] = []
    environ = environ_of(STAMPED, **{"wsgi.file_wrapper": FileWrapper})
    body = wsgi(app)(environ, lambda *args: started.append(args))
    assert isinstance(body, FileWrapper)
    assert len(started) == 1  # sendfile never asks for a chunk
    assert exporter.get_finished_spans() == ()
    body.close()
    assert file.closed
    finished()


def test_a_wrapper_that_is_a_function_gets_its_own_object_back(wsgi: Any) -> None:
    """As uWSGI has it: it recognises the very object it made."""
    produced: list[Any] = []

    def file_wrapper(file: Any, size: int = 8192) -> Any:
        produced.append(iter(lambda: file.read(size), b""))
        return produced[-1]

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](io.BytesIO(b"content"), 3)

    environ = environ_of(STAMPED, **{"wsgi.file_wrapper": file_wrapper})
    assert wsgi(app)(environ, lambda *args: None) is produced[0]


def test_both_sides_pass_the_standards_validator(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return iter([b"", b"hello"])

    for inner in (app, lambda environ, start_response: list(app(environ, start_response))):
        output, errors = io.BytesIO(), io.StringIO()
        handler = SimpleHandler(io.BytesIO(), output, errors, environ_of(STAMPED))
        handler.run(validator(wsgi(validator(inner))))
        assert errors.getvalue() == ""
        assert b"X-Queueing-Delay: 0.100000" in output.getvalue()
        assert output.getvalue().endswith(b"hello")


def test_failures_of_our_own_never_reach_the_app(wsgi: Any, caplog: pytest.LogCaptureFixture) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("X-Kind", "fine")])
        return [b"ok"]

    def broken(environ: Any) -> str:
        raise RuntimeError("the route callable is broken")

    answer = call_wsgi(wsgi(app, route=broken), environ_of(STAMPED))
    assert (answer.status, answer.body, answer.headers["x-kind"]) == (200, b"ok", "fine")
    assert answer.queueing_delay == 0.1  # only the route is lost
    assert "the route callable is broken" in caplog.text

    not_a_string = environ_of([], HTTP_X_REQUEST_START=12345)  # as a bug of a server would have it
    answer = call_wsgi(wsgi(app), not_a_string)
    assert (answer.status, answer.body) == (200, b"ok")
    assert "unmeasured" in caplog.text
