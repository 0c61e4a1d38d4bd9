"""The stamp: what nginx sends, what it logs, and whose inbound stamp it takes."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nginx_support import (
    LOCATION,
    PROXY,
    TRUSTED,
    app_upstream,
    connect,
    get,
    logged,
    parsed_response,
    received,
    request_bytes,
)
from nginx_upstream import Request, Upstream, answer_with
from sojourn_lab.runtime.nginx import Nginx

SPOOFED: list[tuple[str, str | bytes]] = [
    ("X-Request-Start", "t=1000000000.000"),
    ("X-Queue-Start", "t=1000000000.000"),
    ("X-Request-ID", "spoofed"),
    ("traceparent", "00-11111111111111111111111111111111-2222222222222222-01"),
    ("tracestate", "vendor=spoofed"),
]


def stamp(age_s: float, unit: str = "s") -> str:
    """A stamp that old, as the units in the wild write it."""
    us = time.time_ns() // 1000 - round(age_s * 1e6)
    return {
        "s": f"t={us // 1_000_000}.{us // 1000 % 1000:03d}",
        "s_us": f"t={us // 1_000_000}.{us % 1_000_000:06d}",
        "ms": f"t={us // 1000}",
        "us": f"t={us}",
        "ns": f"{us}123",
    }[unit]


def microseconds(value: str) -> int:
    """A stamp of seconds with a fraction, exactly."""
    whole, _, fraction = value.removeprefix("t=").partition(".")
    return int(whole + fraction.ljust(6, "0"))


def test_own_stamp_is_sent_and_logged(shop: Callable[..., Nginx], app: Upstream) -> None:
    before = time.time()
    nginx = shop()
    assert get(nginx).status == 200
    (row,) = logged(nginx)
    sent = app.requests[0].values("x-request-start")
    assert sent == [f"t={row['request_start']}"]
    assert re.fullmatch(r"t=[0-9]{10}\.[0-9]{3}", sent[0])
    assert row["proxy_start"] == row["request_start"]
    assert row["stamp"] == "own"
    assert before - 0.01 <= float(row["request_start"]) <= time.time()


def test_logged_stamp_is_the_one_sent_although_time_passed(shop: Callable[..., Nginx], app: Upstream) -> None:
    def slow(connection: socket.socket, request: Request) -> None:
        time.sleep(0.05)  # the service time, not synchronisation
        answer_with()(connection, request)

    app.answer = slow
    nginx = shop()
    get(nginx)
    (row,) = logged(nginx)
    assert app.requests[0].value("x-request-start") == f"t={row['request_start']}"
    assert float(row["time"]) - float(row["request_start"]) >= 0.04


def test_spoofed_headers_of_an_untrusted_client_are_overwritten(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(http='map "" $sojourn_trace { default 01; }')
    get(nginx, headers=SPOOFED)
    (row,) = logged(nginx)
    (request,) = app.requests
    assert row["stamp"] == "own"
    assert request.values("x-request-start") == [f"t={row['request_start']}"]
    assert float(row["request_start"]) > 1.7e9
    assert request.values("x-queue-start") == []
    assert request.values("x-request-id") == [row["request_id"]] != ["spoofed"]
    assert request.values("traceparent") == [f"00-{row['request_id']}-{row['span_id']}-01"]
    assert request.values("tracestate") == []
    assert "spoofed" not in nginx.access_log.read_text()


@pytest.mark.parametrize("header", ["X-Request-Start", "X-Queue-Start"])
@pytest.mark.parametrize("unit", ["s", "s_us", "ms", "us", "ns"])
def test_trusted_stamp_is_taken_and_normalised(
    shop: Callable[..., Nginx], app: Upstream, unit: str, header: str
) -> None:
    nginx = shop(trusted=TRUSTED)
    value = stamp(1.5, unit)
    expected = int(re.sub(r"\D", "", value).ljust(16, "0")[:16])
    get(nginx, headers=[(header, value)])
    (row,) = logged(nginx)
    assert row["stamp"] == "inbound"
    assert microseconds(row["request_start"]) == expected
    assert app.requests[0].values("x-request-start") == [f"t={row['request_start']}"]
    assert app.requests[0].values("x-queue-start") == []
    assert len(row["request_start"].partition(".")[2]) == (3 if expected % 1000 == 0 else 6)
    assert 1.4 < float(row["proxy_start"]) - float(row["request_start"]) < 60


@pytest.mark.parametrize("age", [0.0, 4.0, 9.0, 11.0, 61.0, 2400.0])
def test_trusted_stamp_of_any_allowed_age(shop: Callable[..., Nginx], app: Upstream, age: float) -> None:
    nginx = shop(trusted=TRUSTED)
    value = stamp(age)
    get(nginx, headers=[("X-Request-Start", value)])
    (row,) = logged(nginx)
    assert (row["stamp"], "t=" + row["request_start"]) == ("inbound", value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("t=1700000000.000", "stale"),
        ("t=9999999999.000", "future"),
        ("t=176722559", "unit"),
        ("t=soon", "not_a_number"),
        ("t=1700000000.000, t=1700000000.001", "list"),
        ('t="\\', "not_a_number"),
        (b"t=\xff\xfe", "not_a_number"),
    ],
)
def test_refused_stamp_leaves_our_own_and_says_why(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes, reason: str
) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-Start", value)])
    (row,) = logged(nginx)
    assert row["stamp"] == f"refused:{reason}"
    assert row["request_start"] == row["proxy_start"]
    assert app.requests[0].values("x-request-start") == [f"t={row['proxy_start']}"]


def test_x_request_start_decides_and_x_queue_start_counts_only_without_it(
    shop: Callable[..., Nginx], app: Upstream
) -> None:
    nginx = shop(trusted=TRUSTED)
    early, late = stamp(3.0, "us"), stamp(1.0)
    get(nginx, headers=[("X-Request-Start", late), ("X-Queue-Start", early)])
    get(nginx, headers=[("X-Queue-Start", late), ("X-Request-Start", early)])
    get(nginx, headers=[("X-Queue-Start", early)])
    get(nginx, headers=[("X-Request-Start", "junk"), ("X-Queue-Start", late)])
    rows = logged(nginx, 4)
    assert [row["stamp"] for row in rows] == ["inbound"] * 3 + ["refused:not_a_number"]
    starts = [microseconds(row["request_start"]) for row in rows[:3]]
    assert starts == [microseconds(late), int(early[2:]), int(early[2:])]
    assert rows[3]["request_start"] == rows[3]["proxy_start"]
    assert [request.values("x-queue-start") for request in app.requests] == [[]] * 4


def test_a_header_sent_twice_is_refused(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-Start", stamp(1, "ms")), ("X-Request-Start", stamp(2, "ms"))])
    assert logged(nginx)[0]["stamp"] == "refused:list"


def test_age_limits_are_the_users(shop: Callable[..., Nginx], app: Upstream) -> None:
    limits = 'map "" $sojourn_max_age { default 5; } map "" $sojourn_max_future { default 2.5; }'
    nginx = shop(trusted=TRUSTED, http=limits)
    ages = [6.0, 4.0, -1.0, -9.0]
    for age in ages:
        get(nginx, headers=[("X-Request-Start", stamp(age))])
    assert [row["stamp"] for row in logged(nginx, 4)] == [
        "refused:stale",
        "inbound",
        "inbound",
        "refused:future",
    ]


def test_a_limit_that_is_no_number_is_reported_and_the_default_taken(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(trusted=TRUSTED, http='map "" $sojourn_max_age { default 1h; }')
    get(nginx, headers=[("X-Request-Start", stamp(1800))])
    get(nginx, headers=[("X-Request-Start", stamp(3700))])
    assert [row["stamp"] for row in logged(nginx, 2)] == ["inbound", "refused:stale"]
    assert '$sojourn_max_age is "1h", not a number of seconds; taking 3600' in nginx.error_log_text()


def test_trust_goes_by_the_peer_and_not_by_what_it_tells(shop: Callable[..., Nginx], app: Upstream) -> None:
    realip = "set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;" + LOCATION
    nginx = shop(realip, trusted="10.0.0.7 1;\n")
    get(nginx, headers=[("X-Forwarded-For", "10.0.0.7"), ("X-Request-ID", "spoofed")])
    (row,) = logged(nginx)
    assert row["remote_addr"] == "10.0.0.0"
    assert row["request_id"] != "spoofed"


def test_a_unix_socket_peer_can_be_trusted(shop: Callable[..., Nginx], app: Upstream, tmp_path: Path) -> None:
    path = f"/tmp/sojourn-{tmp_path.name[-20:]}-{time.monotonic_ns()}.sock"
    nginx = shop(f"listen unix:{path}; {LOCATION}", trusted="255.255.255.255 1;\n")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(request_bytes(headers=[("X-Request-ID", "from-the-socket")]))
        assert parsed_response(received(connection)).status == 200
    assert logged(nginx)[0]["request_id"] == "from-the-socket"


def away_from_the_border_of_ten_seconds() -> None:
    """The plain form needs no njs while stamp and clock are in the same ten seconds: wait where they soon are not."""
    deadline = time.monotonic() + 30
    while not 0.1 < time.time() % 10 < 8:
        assert time.monotonic() < deadline
        time.sleep(0.05)


TATTLING_JS = "function judged(r) { r.error('NJS RAN'); return ''; } export default { judged };"


@pytest.mark.parametrize("trusted", [TRUSTED, "# none\n"], ids=["trusted", "untrusted"])
def test_njs_runs_only_for_what_directives_cannot_take(
    serve: Callable[..., Nginx], app: Upstream, trusted: str
) -> None:
    nginx = serve(
        LOCATION + " location = /file { return 200 file; }",
        http=app_upstream(app.address),
        files={"trusted.conf": trusted, "sojourn.js": TATTLING_JS},
    )
    get(nginx, "/file", headers=[("X-Request-Start", stamp(0.1, "us"))])
    get(nginx)
    away_from_the_border_of_ten_seconds()
    get(nginx, headers=[("X-Request-Start", stamp(0.0)), *SPOOFED[1:]])  # X-Queue-Start is not read beside it
    logged(nginx, 3)
    assert "NJS RAN" not in nginx.error_log_text()

    get(nginx, headers=[("X-Request-Start", stamp(0.1, "us"))])
    assert ("NJS RAN" in nginx.error_log_text()) == (trusted == TRUSTED)


@pytest.mark.parametrize("trusted", [TRUSTED, "# none\n"], ids=["trusted", "untrusted"])
def test_numbered_captures_of_the_users_location_survive(
    shop: Callable[..., Nginx], app: Upstream, trusted: str
) -> None:
    location = (
        "location ~ ^/user/([0-9]+)/(.*)$ { include sojourn/sojourn_proxy.conf; proxy_pass http://app/$2;"
        " proxy_set_header X-User [$1]; add_header X-Rest $2; }"
    )
    nginx = shop(location, trusted=trusted)
    away_from_the_border_of_ten_seconds()
    good = [
        ("X-Request-Start", stamp(0.0)),
        ("X-Request-ID", "an-id"),
        ("traceparent", SPOOFED[3][1]),
    ]
    response = get(nginx, "/user/7/cart", headers=good)
    assert response.status == 200
    assert response.values("x-rest") == ["cart"]
    assert app.requests[0].path == "/cart"
    assert app.requests[0].values("x-user") == ["[7]"]
    logged(nginx)


def test_own_header_lines_beside_the_include(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(f"location / {{ proxy_set_header Host $host; {PROXY} proxy_set_header X-Mine yes; }}")
    get(nginx)
    (request,) = app.requests
    assert (request.values("host"), request.values("x-mine")) == (["shop.example"], ["yes"])
    assert request.value("x-request-start") == f"t={logged(nginx)[0]['request_start']}"


def test_a_location_without_the_include_logs_no_stamp(shop: Callable[..., Nginx], app: Upstream) -> None:
    def slow(connection: socket.socket, request: Request) -> None:
        time.sleep(0.03)  # the service time, not synchronisation
        answer_with()(connection, request)

    app.answer = slow
    nginx = shop("location / { proxy_pass http://app; }")
    get(nginx)
    (row,) = logged(nginx)
    assert row["upstream_status"] == "200"
    assert (row["request_start"], row["proxy_start"], row["stamp"]) == ("", "", "")


def test_not_even_where_the_app_answers_within_a_millisecond(shop: Callable[..., Nginx], app: Upstream) -> None:
    """The log asks for the stamp as soon as the answer is there: no clock tells that from a stamp that was sent."""
    nginx = shop("location / { proxy_pass http://app; }", trusted=TRUSTED)
    for _ in range(20):
        get(nginx, headers=[("X-Request-Start", stamp(0.1))])
    assert {(row["request_start"], row["proxy_start"], row["stamp"]) for row in logged(nginx, 20)} == {("", "", "")}


def test_a_request_that_is_never_proxied_has_no_stamp(shop: Callable[..., Nginx]) -> None:
    nginx = shop("location / { return 204; }")
    assert get(nginx).status == 204
    (row,) = logged(nginx)
    assert (row["status"], row["request_start"], row["proxy_start"], row["stamp"]) == ("204", "", "", "")
    assert row["request_id"] != ""


def test_each_request_of_a_connection_has_its_own_stamp(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop()
    keep = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"
    with connect(nginx) as connection:
        connection.sendall(keep)
        data = b""
        while not data.endswith(b"ok"):
            data += connection.recv(65536)
        time.sleep(0.01)  # so that the two stamps must differ
        connection.sendall(request_bytes("/second"))
        received(connection)
    first, second = logged(nginx, 2)
    assert first["connection"] == second["connection"]
    assert (first["connection_requests"], second["connection_requests"]) == ("1", "2")
    assert float(second["request_start"]) > float(first["request_start"])
    sent = [request.value("x-request-start") for request in app.requests]
    assert sent == [f"t={first['request_start']}", f"t={second['request_start']}"]
