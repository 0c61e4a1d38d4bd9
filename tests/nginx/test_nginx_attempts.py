"""Attempts, internal redirects and failures upstream: what the lists hold, and that one stamp serves them all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest
from nginx_support import LOCATION, PROXY, app_upstream, connect, get, logged, received, request_bytes, seconds_list
from nginx_upstream import Request, Upstream, answer_with
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.ports import free_port

Serve = Callable[..., Nginx]
Start = Callable[..., Upstream]

MEASURED = [
    ("X-Queueing-Delay", "0.123456"),
    ("X-Service-Time", "0.100123"),
    ("X-Worker", "4711.2"),
    ("X-Route", "/users/{id}"),
]


def refusing_address() -> str:
    return f"127.0.0.1:{free_port()}"


def hanging(upstream: Upstream) -> Upstream:
    """Never answers, until the test is over."""

    def answer(connection: socket.socket, request: Request) -> None:
        upstream.released.wait(60)

    upstream.answer = answer
    return upstream


def test_retry_after_a_refused_attempt(serve: Serve, app: Upstream) -> None:
    refusing = refusing_address()
    app.answer = answer_with(MEASURED)
    nginx = serve(http=app_upstream(refusing, app.address))
    assert get(nginx).status == 200
    (row,) = logged(nginx)
    assert row["upstream_addr"] == f"{refusing}, {app.address}"
    assert row["upstream_status"] == "502, 200"
    assert seconds_list(row["upstream_header_time"])[0] is None
    assert seconds_list(row["upstream_connect_time"])[0] is None
    assert len(seconds_list(row["upstream_response_time"])) == 2
    assert (row["queueing_delay"], row["service_time"], row["worker"]) == ("0.123456", "0.100123", "4711.2")
    assert app.requests[0].value("x-request-start") == f"t={row['request_start']}"


def test_retry_after_a_slow_attempt_is_not_stamped_again(serve: Serve, upstream: Start) -> None:
    slow, quick = hanging(upstream()), upstream()
    location = f"location / {{ proxy_read_timeout 300ms; proxy_next_upstream timeout; {PROXY} }}"
    nginx = serve(location, http=app_upstream(slow.address, quick.address))
    assert get(nginx).status == 200
    (row,) = logged(nginx)
    assert row["upstream_status"] == "504, 200"
    first, second = (one.requests[0].value("x-request-start") for one in (slow, quick))
    assert first == second == f"t={row['request_start']}"
    spent = seconds_list(row["upstream_response_time"])[0]
    assert spent is not None
    assert spent >= 0.29
    assert float(row["time"]) - float(row["request_start"]) >= 0.29
    header_times = seconds_list(row["upstream_header_time"])
    assert header_times[0] is None
    assert header_times[1] is not None


def test_error_page_to_a_second_upstream_makes_a_colon_list(serve: Serve, upstream: Start) -> None:
    failing, fallback = upstream(answer_with(status="503 Busy")), upstream(answer_with(MEASURED))
    server = (
        f"location / {{ proxy_intercept_errors on; error_page 503 = @fallback; {PROXY} }}"
        f"location @fallback {{ proxy_pass http://{fallback.address}; include sojourn/sojourn_proxy.conf; }}"
    )
    nginx = serve(server, http=app_upstream(failing.address))
    assert get(nginx).status == 200
    (row,) = logged(nginx)
    assert row["upstream_addr"] == f"{failing.address} : {fallback.address}"
    assert row["upstream_status"] == "503 : 200"
    first, second = (one.requests[0] for one in (failing, fallback))
    assert first.value("x-request-start") == second.value("x-request-start") == f"t={row['request_start']}"
    assert first.value("x-request-id") == second.value("x-request-id") == row["request_id"]
    assert row["queueing_delay"] == "0.123456"


def test_only_the_second_upstream_is_sent_a_stamp(serve: Serve, upstream: Start) -> None:
    """The first location is without sojourn_proxy.conf; the log must not take its silence for the second one's."""
    first, second = upstream(answer_with(status="503 Busy")), upstream()
    nginx = serve(
        "location / { proxy_intercept_errors on; error_page 503 = @fallback; proxy_pass http://app; }"
        f"location @fallback {{ proxy_pass http://{second.address}; include sojourn/sojourn_proxy.conf; }}",
        http=app_upstream(first.address),
    )
    get(nginx)
    (row,) = logged(nginx)
    assert first.requests[0].values("x-request-start") == []
    assert second.requests[0].values("x-request-start") == [f"t={row['request_start']}"]
    assert row["stamp"] == "own"


def test_x_accel_redirect_to_a_second_upstream(serve: Serve, upstream: Start) -> None:
    first = upstream(answer_with([("X-Accel-Redirect", "/inner"), *MEASURED]))
    second = upstream(answer_with([("X-Queueing-Delay", "0.000002")], b"inner"))
    inner = f"location /inner {{ internal; proxy_pass http://{second.address}; include sojourn/sojourn_proxy.conf; }}"
    nginx = serve(LOCATION + inner, http=app_upstream(first.address))
    response = get(nginx)
    assert (response.status, response.body) == (200, b"inner")
    (row,) = logged(nginx)
    assert row["upstream_addr"] == f"{first.address} : {second.address}"
    assert row["queueing_delay"] == "0.000002"
    assert row["uri"] == "/"
    assert second.requests[0].value("x-request-start") == f"t={row['request_start']}"


def test_502_when_everything_refuses(serve: Serve) -> None:
    nginx = serve(http=app_upstream(refusing_address()))
    assert get(nginx).status == 502
    (row,) = logged(nginx)
    assert (row["status"], row["upstream_status"], row["upstream_header_time"]) == ("502", "502", "-")
    assert (row["queueing_delay"], row["service_time"], row["worker"]) == ("", "", "")
    assert row["stamp"] == "own"


def test_502_when_the_app_closes_early(serve: Serve, upstream: Start) -> None:
    rude = upstream(lambda connection, request: None)
    nginx = serve(http=app_upstream(rude.address))
    assert get(nginx).status == 502
    (row,) = logged(nginx)
    assert row["upstream_header_time"] == "-"
    assert rude.requests[0].value("x-request-start") == f"t={row['request_start']}"


def test_504_has_no_app_headers(serve: Serve, upstream: Start) -> None:
    slow = hanging(upstream())
    location = f"location / {{ proxy_read_timeout 200ms; {PROXY} }}"
    nginx = serve(location, http=app_upstream(slow.address))
    assert get(nginx).status == 504
    (row,) = logged(nginx)
    assert (row["status"], row["upstream_status"], row["upstream_header_time"]) == ("504", "504", "-")
    assert float(row["upstream_response_time"]) >= 0.19
    assert (row["queueing_delay"], row["service_time"], row["worker"]) == ("", "", "")
    assert slow.requests[0].value("x-request-start") == f"t={row['request_start']}"


def test_499_when_the_client_gives_up(serve: Serve, upstream: Start) -> None:
    slow = hanging(upstream())
    nginx = serve(http=app_upstream(slow.address))
    with connect(nginx) as connection:
        connection.sendall(request_bytes("/gone"))
        nginx.process.wait_until(lambda: bool(slow.requests), 20, "the request to reach the app")
    (row,) = logged(nginx)
    assert (row["status"], row["upstream_header_time"]) == ("499", "-")
    assert slow.requests[0].value("x-request-start") == f"t={row['request_start']}"
    assert row["queueing_delay"] == ""


def test_101_lives_as_long_as_the_connection(serve: Serve, upstream: Start) -> None:
    def echo(connection: socket.socket, request: Request) -> None:
        assert request.value("upgrade") == "websocket"
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"{name}: {value}" for name, value in MEASURED]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        while data := connection.recv(1000):
            connection.sendall(data)

    chat = upstream(echo)
    location = (
        "location / { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;"
        f' proxy_set_header Connection "upgrade"; {PROXY} }}'
    )
    nginx = serve(location, http=app_upstream(chat.address))
    with connect(nginx) as connection:
        connection.sendall(b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1000)
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"x-worker" not in head.lower()
        connection.sendall(b"hello")
        assert connection.recv(1000) == b"hello"
        assert nginx.access_log.read_bytes() == b""
        time.sleep(0.1)  # the life of the connection, which is what is measured
    (row,) = logged(nginx)
    assert (row["status"], row["upstream_status"]) == ("101", "101")
    assert float(row["request_time"]) >= 0.1
    assert float(row["upstream_response_time"]) - float(row["upstream_header_time"]) >= 0.09
    assert row["queueing_delay"] == "0.123456"


def test_streaming_reports_its_headers_first(serve: Serve, upstream: Start) -> None:
    client_has_first = threading.Event()

    def stream(connection: socket.socket, request: Request) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Service-Time: 0.000500\r\nConnection: close\r\n\r\nfirst")
        assert client_has_first.wait(20)
        time.sleep(0.1)  # the worker still works on the rest
        connection.sendall(b"rest")

    nginx = serve(f"location / {{ proxy_buffering off; {PROXY} }}", http=app_upstream(upstream(stream).address))
    with connect(nginx) as connection:
        connection.sendall(request_bytes())
        data = b""
        while b"first" not in data:
            data += connection.recv(65536)
        client_has_first.set()
        assert b"rest" in received(connection)
    (row,) = logged(nginx)
    assert row["service_time"] == "0.000500"
    assert float(row["upstream_response_time"]) - float(row["upstream_header_time"]) >= 0.09


def test_an_unresolvable_upstream_is_a_record_too(serve: Serve) -> None:
    nginx = serve(
        "location / { set $where no-such-host.invalid; proxy_pass http://$where; include sojourn/sojourn_proxy.conf; }"
    )
    assert get(nginx).status == 502
    (row,) = logged(nginx)
    assert row["status"] == "502"


@pytest.mark.parametrize("rewrite", ["rewrite ^/old/(.*)$ /new/$1 break;", 'set $x "$uri";'])
def test_rewrites_in_the_location_do_not_disturb(serve: Serve, app: Upstream, rewrite: str) -> None:
    nginx = serve(f"location / {{ {rewrite} {PROXY} }}", http=app_upstream(app.address))
    get(nginx, "/old/shoes?size=40")
    (row,) = logged(nginx)
    assert row["uri"] == "/old/shoes"
    assert app.requests[0].value("x-request-start") == f"t={row['request_start']}"
