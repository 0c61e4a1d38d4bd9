"""What the app answers and what the client gets of it: stripped headers, Server-Timing, cached answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nginx_support import PROXY, app_upstream, get, logged, rows_of
from nginx_upstream import Upstream, answer_with
from sojourn_lab.runtime.nginx import Nginx

MEASURED = [
    ("X-Queueing-Delay", "0.123456"),
    ("X-Service-Time", "0.100123"),
    ("X-Worker", "4711.2"),
    ("X-Route", "/users/{id}"),
]
TIMED = f"location / {{ {PROXY} include sojourn/sojourn_server_timing.conf; }}"


def test_app_headers_reach_the_log_and_not_the_client(shop: Callable[..., Nginx], app: Upstream) -> None:
    app.answer = answer_with([*MEASURED, ("X-Other", "kept")])
    nginx = shop()
    response = get(nginx)
    assert response.values("x-other") == ["kept"]
    for name, _ in MEASURED:
        assert response.values(name.lower()) == []
    assert response.values("server-timing") == []
    (row,) = logged(nginx)
    logged_values = [row[key] for key in ("queueing_delay", "service_time", "worker", "route")]
    assert logged_values == [value for _, value in MEASURED]


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "500 Oops"])
def test_server_timing_in_milliseconds(shop: Callable[..., Nginx], app: Upstream, status: str) -> None:
    app.answer = answer_with([*MEASURED, ("Server-Timing", "db;dur=5")], status=status)
    response = get(shop(TIMED))
    assert response.values("server-timing") == ["db;dur=5", "queue;dur=123.456, app;dur=100.123"]
    assert response.values("x-service-time") == []


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [
        ("0.000000", "0.000"),
        ("0.000001", "0.001"),
        ("0.000456", "0.456"),
        ("0.001234", "1.234"),
        ("0.012345", "12.345"),
        ("0.123456", "123.456"),
        ("0.100000", "100.000"),
        ("0.010000", "10.000"),
        ("0.100001", "100.001"),
        ("1.000000", "1000.000"),
        ("1.002003", "1002.003"),
        ("61.000450", "61000.450"),
        ("2400.123456", "2400123.456"),
        ("-0.000123", None),
        ("-1.500000", None),
        ("0.1234", None),
        ("1", None),
        ("1.0000001", None),
        ("00.123456", None),
        ("1e3", None),
        ("0,123456", None),
        ("nan", None),
    ],
)
def test_server_timing_values(
    shop: Callable[..., Nginx], app: Upstream, seconds: str, milliseconds: str | None
) -> None:
    nginx = shop(TIMED)
    app.answer = answer_with([("X-Queueing-Delay", seconds), ("X-Service-Time", "0.000100")])
    first = get(nginx).values("server-timing")
    app.answer = answer_with([("X-Service-Time", seconds)])
    second = get(nginx).values("server-timing")
    if milliseconds is None:
        assert (first, second) == (["app;dur=0.100"], [])
    else:
        assert first == [f"queue;dur={milliseconds}, app;dur=0.100"]
        assert second == [f"app;dur={milliseconds}"]
    # The log keeps what the app said, whatever it is.
    assert [row["service_time"] for row in logged(nginx, 2)] == ["0.000100", seconds]


def test_server_timing_of_the_queue_alone(shop: Callable[..., Nginx], app: Upstream) -> None:
    app.answer = answer_with([("X-Queueing-Delay", "0.500000")])
    assert get(shop(TIMED)).values("server-timing") == ["queue;dur=500.000"]


def cached_shop(serve: Callable[..., Nginx], app: Upstream, tmp_path: Path, more: str) -> Nginx:
    cache = f'proxy_cache_path "{tmp_path}/cache" keys_zone=pages:1m;'
    location = (
        f"location / {{ {PROXY} include sojourn/sojourn_server_timing.conf; proxy_cache pages;"
        f" add_header X-Cache $upstream_cache_status; {more} }}"
    )
    return serve(location, http=app_upstream(app.address) + cache)


def test_a_cached_answer_did_not_queue(serve: Callable[..., Nginx], app: Upstream, tmp_path: Path) -> None:
    app.answer = answer_with(MEASURED)
    nginx = cached_shop(serve, app, tmp_path, "proxy_cache_valid 200 1h;")
    miss, hit = get(nginx), get(nginx)
    assert (miss.values("x-cache"), hit.values("x-cache")) == (["MISS"], ["HIT"])
    assert miss.values("server-timing") == ["queue;dur=123.456, app;dur=100.123"]
    assert hit.values("server-timing") == []
    assert len(app.requests) == 1
    first, second = logged(nginx, 2)
    assert (first["stamp"], first["queueing_delay"]) == ("own", "0.123456")
    for key in ("request_start", "proxy_start", "stamp", "upstream_addr", "queueing_delay", "service_time", "worker"):
        assert second[key] == "", key
    assert second["route"] == "/users/{id}"


def test_a_stale_answer_hides_the_times_of_its_first_request(
    serve: Callable[..., Nginx], app: Upstream, tmp_path: Path
) -> None:
    app.answer = answer_with(MEASURED)
    nginx = cached_shop(serve, app, tmp_path, "proxy_cache_valid 200 1s; proxy_cache_use_stale error;")
    assert get(nginx).values("x-cache") == ["MISS"]
    app.close()
    deadline = time.monotonic() + 60
    while (response := get(nginx)).values("x-cache") == ["HIT"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (response.status, response.values("x-cache")) == (200, ["STALE"])
    assert response.values("server-timing") == []
    nginx.stop()
    row = rows_of(nginx.access_log)[-1]
    assert (row["status"], row["upstream_status"], row["stamp"]) == ("200", "502", "own")
    assert (row["queueing_delay"], row["service_time"], row["worker"]) == ("", "", "")
