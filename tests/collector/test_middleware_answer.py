"""The headers that WSGI and ASGI answer with, by the table of all languages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from collector_support import ManualClock, asgi_answer, call_asgi, environ_of, scope_of
from sojourn_middleware import ASGIMiddleware, WSGIMiddleware

TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "answer_headers.json").read_text("utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
OWN_TIMING = "db;dur=53"


def options_of(case: dict[str, Any]) -> dict[str, Any]:
    """The options that a case of the table sets."""
    return {"always_answer": True} if case.get("always_answer") else {}


def wsgi_headers(case: dict[str, Any], own: list[tuple[str, str]], **options: Any) -> list[tuple[str, str]]:
    """The headers that reach the server; the app answers with `own`."""
    clock = ManualClock(TABLE["now_ns"] // 1000)
    sent: list[list[tuple[str, str]]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if "route" in case:
            environ["sojourn.route"] = case["route"]
        clock.monotonic_ns += case["service_ns"]
        start_response("200 OK", own)
        return [b"ok"]

    environ = environ_of([["X-Request-Start", case["stamp"]]] if case["stamp"] else [])
    middleware = WSGIMiddleware(app, clock=clock, telemetry=False, **options_of(case), **options)

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        sent.append(headers)

    assert list(middleware(environ, start_response)) == [b"ok"]
    return [(name.lower(), value) for name, value in sent[0]]


def asgi_headers(case: dict[str, Any], own: list[tuple[str, str]], **options: Any) -> list[tuple[str, str]]:
    """As `wsgi_headers`."""
    clock = ManualClock(TABLE["now_ns"] // 1000)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if "route" in case:
            scope["sojourn.route"] = case["route"]
        clock.monotonic_ns += case["service_ns"]
        headers = [(name.lower().encode(), value.encode()) for name, value in own]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    scope = scope_of([["X-Request-Start", case["stamp"]]] if case["stamp"] else [])
    sent = call_asgi(ASGIMiddleware(app, clock=clock, telemetry=False, **options_of(case), **options), scope)
    assert asgi_answer(sent).body == b"ok"
    return [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]


INTERFACES = {"wsgi": wsgi_headers, "asgi": asgi_headers}


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_headers_by_the_table(interface: str, case: dict[str, Any]) -> None:
    expected = {name.lower(): value for name, value in case["headers"].items()}
    if "x-worker" in expected:
        expected["x-worker"] = str(os.getpid())
    answer = INTERFACES[interface]
    assert sorted(answer(case, [])) == sorted(expected.items())
    timed = answer(case, [], server_timing=True)
    assert sorted(timed) == sorted([*expected.items(), ("server-timing", case["server_timing"])])


@pytest.mark.parametrize("interface", INTERFACES)
def test_server_timing_of_the_app_is_kept(interface: str) -> None:
    own = [("Server-Timing", OWN_TIMING)]
    answer = INTERFACES[interface]
    timings = [value for name, value in answer(CASES[0], own, server_timing=True) if name == "server-timing"]
    assert timings == [OWN_TIMING, CASES[0]["server_timing"]]
    assert [value for name, value in answer(CASES[0], own) if name == "server-timing"] == [OWN_TIMING]


def test_server_timing_does_not_depend_on_the_headers_that_are_replaced() -> None:
    app_headers = [("X-Worker", "the app's"), ("X-Service-Time", "9")]
    headers = wsgi_headers(CASES[0], app_headers, server_timing=True)
    assert len(headers) == len({name for name, _ in headers}) == 4


@pytest.mark.parametrize("interface", INTERFACES)
def test_headers_of_the_app_remain_without_a_stamp(interface: str) -> None:
    own = [("x-worker", "the app's"), ("x-service-time", "9"), ("x-queueing-delay", "1"), ("x-route", "/of/the/app")]
    unstamped = {"stamp": None, "service_ns": 1, "route": "/users/{id}"}
    assert INTERFACES[interface](unstamped, own) == own
    answered = dict(INTERFACES[interface](unstamped, own, always_answer=True))
    assert answered["x-route"] == "/users/{id}"
    assert answered["x-worker"] == str(os.getpid())
