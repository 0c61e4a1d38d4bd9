"""What a WSGI answer says about its request, with clocks set by the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from collector_support import ManualClock, call_wsgi, environ_of
from sojourn_middleware import WSGIMiddleware, mark_started

STAMPED = [["X-Request-Start", "t=1767225599.900"]]  # 0.1 s before the manual clock


def test_complete_body_is_measured_and_remains_a_list(wsgi: Any, clock: ManualClock) -> None:
    body = [b"a", b"b"]

    def app(environ: Any, start_response: Any) -> list[bytes]:
        clock.advance(0.25)
        start_response("200 OK", [("Content-Type", "text/plain")])
        clock.advance(0.25)
        return body

    returned = wsgi(app)(environ_of(STAMPED), lambda *args: None)
    assert isinstance(returned, list)
    assert returned == body
    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.queueing_delay == pytest.approx(0.6)  # the first call moved the clock by half a second
    assert answer.service_time == 0.5
    assert answer.headers["content-type"] == "text/plain"
    assert answer.body == b"ab"


def test_body_object_is_untouched_without_telemetry(clock: ManualClock) -> None:
    body = (b"a",)

    def app(environ: Any, start_response: Any) -> tuple[bytes]:
        start_response("200 OK", [])
        return body

    assert WSGIMiddleware(app, telemetry=False)(environ_of([]), lambda *args: None) is body


def test_generator_service_ends_with_the_first_chunk(wsgi: Any, clock: ManualClock) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        clock.advance(1)
        start_response("200 OK", [])
        clock.advance(1)
        yield b""
        clock.advance(1)
        yield b"first"
        clock.advance(10)
        yield b""
        yield b"second"

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.service_time == 3
    assert answer.queueing_delay == 0.1
    assert answer.body == b"firstsecond"


def test_own_headers_are_replaced_not_doubled(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        names = ("X-Queueing-Delay", "x-service-time", "X-WORKER", "X-Route")
        start_response("200 OK", [(name, "the app's") for name in names])
        return []

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.queueing_delay == 0.1
    assert answer.service_time == 0
    assert answer.headers["x-worker"].isdecimal()
    assert answer.headers["x-route"] == "the app's"  # nothing better is known
    answer = call_wsgi(wsgi(app, route=lambda environ: "/reported"), environ_of(STAMPED))
    assert answer.headers["x-route"] == "/reported"


def test_a_refused_stamp_leaves_no_delay_not_even_the_apps(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("X-Queueing-Delay", "1")])
        return []

    environ = environ_of([["X-Request-Start", "junk"]])
    assert "x-queueing-delay" not in call_wsgi(wsgi(app), environ).headers


def test_the_apps_header_list_is_not_changed(wsgi: Any) -> None:
    shared = [("X-Worker", "mine")]

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", shared)
        return []

    call_wsgi(wsgi(app), environ_of(STAMPED))
    assert shared == [("X-Worker", "mine")]


def test_negative_delay_is_sent_as_it_is(wsgi: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return []

    environ = environ_of([["X-Request-Start", "t=1767225600.250"]])
    assert call_wsgi(wsgi(app), environ).headers["x-queueing-delay"] == "-0.250000"


def test_mark_started_turns_service_into_queueing(wsgi: Any, clock: ManualClock) -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        clock.advance(2)
        mark_started()
        clock.advance(1)
        start_response("200 OK", [])
        yield b"x"
        mark_started()  # too late: the headers have left

    answer = call_wsgi(wsgi(app), environ_of(STAMPED))
    assert answer.queueing_delay == pytest.approx(2.1)
    assert answer.service_time == 1
    mark_started()  # outside a request it does nothing


def test_mark_started_in_a_generator_body(wsgi: Any, clock: ManualClock) -> None:
    def body() -> Iterator[bytes]:
        clock.advance(2)
        mark_started()
        yield b"x"

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        return body()

    assert call_wsgi(wsgi(app), environ_of(STAMPED)).queueing_delay == pytest.approx(2.1)


def test_only_the_outer_of_two_measures(wsgi: Any, clock: ManualClock, observed: Any, finished: Any) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        clock.advance(1)
        start_response("200 OK", [])
        return []

    def slow_middle(environ: Any, start_response: Any) -> Any:
        clock.advance(1)
        return WSGIMiddleware(app, telemetry=observed, clock=clock)(environ, start_response)

    assert call_wsgi(wsgi(slow_middle), environ_of(STAMPED)).service_time == 2
    finished()


@pytest.mark.parametrize(
    ("route", "sent"),
    [("/users/<int:id>", "/users/<int:id>"), ("/a\r\nSet-Cookie: x", "/a%0D%0ASet-Cookie: x"), ("/é", "/%C3%A9")],
)
def test_route_is_made_safe_for_a_header(wsgi: Any, route: str, sent: str) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        environ["sojourn.route"] = route
        start_response("200 OK", [])
        return []

    assert call_wsgi(wsgi(app), environ_of(STAMPED)).headers["x-route"] == sent
