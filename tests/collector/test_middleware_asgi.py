"""The ASGI protocol through the middleware, with clocks set by the tests."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from collector_support import ManualClock, asgi_answer, call_asgi, scope_of, stamp_now
from fastapi import FastAPI
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sojourn_middleware import ASGIMiddleware, Telemetry, mark_started

STAMPED = [["X-Request-Start", "t=1767225599.900"]]  # 0.1 s before the manual clock


def test_service_ends_with_the_response_start(asgi: Any, clock: ManualClock) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        clock.advance(1.5)
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x-kind", b"fine")]})
        clock.advance(5)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    answer = asgi_answer(call_asgi(asgi(app), scope_of(STAMPED)))
    assert (answer.status, answer.body) == (201, b"ab")
    assert answer.queueing_delay == 0.1
    assert answer.service_time == 1.5
    assert answer.headers["x-kind"] == "fine"
    assert answer.headers["x-worker"].isdecimal()


def test_only_the_outer_of_two_measures(asgi: Any, clock: ManualClock, observed: Any, finished: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    inner = ASGIMiddleware(app, telemetry=observed, clock=clock)
    assert asgi_answer(call_asgi(asgi(inner), scope_of(STAMPED))).queueing_delay == 0.1
    finished()


def test_a_second_start_is_the_servers_to_refuse_and_moves_nothing(asgi: Any, clock: ManualClock) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            clock.advance(1)
            await send({"type": "http.response.start", "status": 200})

    sent = call_asgi(asgi(app), scope_of(STAMPED))
    assert [dict(message["headers"])[b"x-service-time"] for message in sent] == [b"1.000000"] * 2


def test_headers_are_optional_lower_case_and_replaced(asgi: Any) -> None:
    message: dict[str, Any] = {"type": "http.response.start", "status": 200}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(message)
        await send({"type": "http.response.body"})

    sent = call_asgi(asgi(app), scope_of(STAMPED))
    assert all(name == name.lower() for name, _ in sent[0]["headers"])
    assert "headers" not in message  # the app's own message is left as it was

    cookies = [(b"set-cookie", b"a"), (b"set-cookie", b"b")]
    message["headers"] = [(b"X-Worker", b"mine"), (b"x-queueing-delay", b"1"), *cookies]
    sent = call_asgi(asgi(app), scope_of(STAMPED))
    assert asgi_answer(sent).queueing_delay == 0.1
    assert [value for name, value in sent[0]["headers"] if name == b"set-cookie"] == [b"a", b"b"]


def test_other_scopes_pass_through_untouched(asgi: Any) -> None:
    calls: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        calls.append((dict(scope), receive, send))

    async def receive() -> Any:
        raise AssertionError("not called")

    async def send(message: Any) -> None:
        raise AssertionError("not called")

    asyncio.run(asgi(app)({"type": "lifespan"}, receive, send))
    assert calls == [({"type": "lifespan"}, receive, send)]


def test_websocket_answers_on_accept(asgi: Any, clock: ManualClock) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        clock.advance(0.5)
        await send({"type": "websocket.accept", "subprotocol": "chat", "headers": [(b"x-kind", b"fine")]})
        await send({"type": "websocket.send", "text": "hello"})
        await send({"type": "websocket.close"})

    sent = call_asgi(asgi(app), scope_of(STAMPED, type="websocket", scheme="ws"))
    headers = dict(sent[0]["headers"])
    assert headers[b"x-queueing-delay"] == b"0.100000"
    assert headers[b"x-service-time"] == b"0.500000"
    assert headers[b"x-kind"] == b"fine"
    assert sent[0]["subprotocol"] == "chat"
    assert sent[1:] == [{"type": "websocket.send", "text": "hello"}, {"type": "websocket.close"}]


def test_mark_started_in_a_thread_the_framework_chose(asgi: Any, clock: ManualClock) -> None:
    """asyncio.to_thread copies the context, as Starlette's thread pool does."""

    def handler() -> None:
        clock.advance(2)
        mark_started()
        clock.advance(1)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.to_thread(handler)
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    answer = asgi_answer(call_asgi(asgi(app), scope_of(STAMPED)))
    assert answer.queueing_delay == pytest.approx(2.1)
    assert answer.service_time == 1


def test_concurrent_requests_do_not_share_their_start(clock: ManualClock) -> None:
    gate: list[asyncio.Event] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/first":
            await gate[0].wait()
        else:
            clock.advance(1)
            mark_started()
            gate[0].set()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    stack = ASGIMiddleware(app, telemetry=False, clock=clock)
    answers: dict[str, list[Any]] = {"/first": [], "/second": []}

    async def serve(path: str) -> None:
        async def send(message: Any) -> None:
            answers[path].append(message)

        await stack(scope_of(STAMPED, path=path), None, send)  # type: ignore[arg-type]

    async def both() -> None:
        gate.append(asyncio.Event())
        await asyncio.gather(serve("/first"), serve("/second"))

    asyncio.run(both())
    assert asgi_answer(answers["/first"]).queueing_delay == 0.1
    assert asgi_answer(answers["/second"]).queueing_delay == pytest.approx(1.1)


def test_error_propagates_and_ends_the_span(asgi: Any, finished: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError):
        call_asgi(asgi(app), scope_of(STAMPED))
    for span in finished():
        assert span.attributes is not None
        assert span.attributes["error.type"] == "LookupError"
        assert span.attributes["queueing.delay"] == 0.1


def test_cancellation_propagates_and_ends_the_span(asgi: Any, finished: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await asyncio.Event().wait()

    async def cancelled() -> None:
        started = asyncio.Event()

        async def send(message: Any) -> None:
            started.set()

        task = asyncio.ensure_future(asgi(app)(scope_of(STAMPED), None, send))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    for span in finished():
        assert span.attributes is not None
        assert span.attributes["error.type"] == "asyncio.exceptions.CancelledError"
        assert span.attributes["http.response.status_code"] == 200
        assert span.attributes["queueing.service_time"] == 0


@pytest.mark.parametrize(
    "ending",
    [
        [{"type": "http.response.body", "body": b"x"}],
        [{"type": "http.response.body", "body": b"x", "more_body": True}, {"type": "http.response.body"}],
        [{"type": "http.response.pathsend", "path": "/tmp/file"}],
        [{"type": "http.response.body"}, {"type": "http.response.trailers", "headers": []}],
    ],
    ids=["one message", "two messages", "pathsend", "trailers"],
)
def test_span_ends_with_the_body_not_with_background_work(
    clock: ManualClock, exporter: InMemorySpanExporter, telemetry: Telemetry, ending: list[dict[str, Any]]
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        trailers = ending[-1]["type"] == "http.response.trailers"
        await send({"type": "http.response.start", "status": 200, "trailers": trailers})
        for message in ending:
            clock.advance(1)
            assert exporter.get_finished_spans() == ()
            await send(message)
        clock.advance(60)  # a background task

    stack = ASGIMiddleware(app, telemetry=telemetry, clock=clock)
    assert call_asgi(stack, scope_of(STAMPED))[1:] == ending
    (span,) = exporter.get_finished_spans()
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == len(ending) * 1_000_000_000


def test_headers_that_asgi_does_not_allow_are_the_servers_business(asgi: Any, finished: Any) -> None:
    message = {"type": "http.response.start", "status": 200, "headers": [("text", "not bytes")]}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(message)
        await send({"type": "http.response.body"})

    assert call_asgi(asgi(app), scope_of(STAMPED))[0] is message
    for span in finished():
        assert span.attributes is not None
        assert span.attributes["http.response.status_code"] == 200


def test_closed_task_is_no_error_of_the_middleware(asgi: Any, finished: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    class Stop:
        def __await__(self) -> Any:
            yield

    async def send(message: Any) -> None:
        await Stop()

    task = asgi(app)(scope_of(STAMPED), None, send)
    copy_context().run(task.send, None)
    task.close()  # outside the context it began in, as the garbage collector does it
    finished()
    assert [record for record in caplog.records if record.name.startswith("sojourn")] == []


def test_failures_of_our_own_never_reach_the_app(asgi: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-kind", b"fine")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def broken(scope: Any) -> str:
        raise RuntimeError("the route callable is broken")

    answer = asgi_answer(call_asgi(asgi(app, route=broken), scope_of(STAMPED)))
    assert (answer.status, answer.body, answer.headers["x-kind"]) == (200, b"ok", "fine")
    assert answer.queueing_delay == 0.1  # only the route is lost
    assert "the route callable is broken" in caplog.text


def test_route_of_a_mount_has_names_for_its_parameters() -> None:
    """A client chooses the values, and must not choose routes with them."""

    def answer(tenant: str = "", item: str = "") -> None:
        """Answer with nothing."""

    inner, outer = FastAPI(), FastAPI()
    inner.get("/items/{item}")(answer)
    outer.mount("/static/{year:int}", inner)
    outer.mount("/shops/{tenant}", inner)
    routes = [
        route_of_call(ASGIMiddleware(outer), path)
        for path in ("/shops/acme/items/7", "/shops/shops/items/8", "/shops/7/items/7", "/static/7/items/1")
    ]
    assert routes == ["/shops/{tenant}/items/{item}"] * 3 + ["/static/{year}/items/{item}"]
    assert route_of_call(ASGIMiddleware(outer), "/static/07/items/1") == "/items/{item}"


def route_of_call(app: Any, path: str) -> str:
    """Return the X-Route of an answer."""
    scope = scope_of([("X-Request-Start", stamp_now())], path=path, raw_path=path.encode())
    return asgi_answer(call_asgi(app, scope)).headers["x-route"]
