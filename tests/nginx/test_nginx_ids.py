"""Request id and traceparent: kept from a trusted peer when valid, made otherwise, logged as sent."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from nginx_support import TRUSTED, get, logged
from nginx_upstream import Upstream
from sojourn_lab.runtime.nginx import Nginx

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "value", ["a", "4f0c1e", "0191f3d4-7c2e-7a68-9f35-2d1c0b7f6e5a", "Root=1-67891233-abc/def+=@:~._", "x" * 128]
)
def test_a_trusted_request_id_is_kept(shop: Callable[..., Nginx], app: Upstream, value: str) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-ID", value)])
    (row,) = logged(nginx)
    assert row["request_id"] == value
    assert app.requests[0].values("x-request-id") == [value]
    assert re.fullmatch("[0-9a-f]{32}", row["trace_id"])


@pytest.mark.parametrize(
    "value", ["", "two words", 'quo"te', "back\\slash", "a,b", "a;b", "<b>", "{{x}}", "x" * 129, b"\xff", b"\xc3\xa4"]
)
def test_a_request_id_that_is_not_safe_is_replaced(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes
) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("X-Request-ID", value)])
    (row,) = logged(nginx)
    assert re.fullmatch("[0-9a-f]{32}", row["request_id"])
    assert app.requests[0].values("x-request-id") == [row["request_id"]]


@pytest.mark.parametrize(
    "value",
    [
        f"00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-00",
        f"00-{TRACE}-{PARENT}-ff",
        f"01-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like",
    ],
)
def test_a_valid_traceparent_is_kept(shop: Callable[..., Nginx], app: Upstream, value: str) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("traceparent", value), ("tracestate", "rojo=1,congo=2")])
    (row,) = logged(nginx)
    assert (row["trace_id"], row["span_id"]) == (TRACE, PARENT)
    assert app.requests[0].values("traceparent") == [value]
    assert app.requests[0].values("tracestate") == ["rojo=1,congo=2"]


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT.upper()}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-011",
        f"01-{TRACE}-{PARENT}-01more",
        f"00-{TRACE}-{PARENT}",
        f"0-{TRACE}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00_{TRACE}_{PARENT}_01",
        f"00-{TRACE}-{PARENT}-01, 00-{TRACE}-{PARENT}-01",
        b"cc-" + TRACE.encode() + b"-" + PARENT.encode() + b"-01-\xff",
    ],
)
def test_an_invalid_traceparent_is_replaced_and_its_state_dropped(
    shop: Callable[..., Nginx], app: Upstream, value: str | bytes
) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx, headers=[("traceparent", value), ("tracestate", "rojo=1")])
    (row,) = logged(nginx)
    assert row["trace_id"] == row["request_id"] != TRACE
    assert app.requests[0].values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-01"]
    assert app.requests[0].values("tracestate") == []


def test_generated_ids_are_valid_and_unique_as_a_pair(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop()
    for _ in range(40):
        get(nginx)
    rows = logged(nginx, 40)
    for row, request in zip(rows, app.requests, strict=True):
        assert re.fullmatch("[0-9a-f]{32}", row["trace_id"])
        assert request.values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-01"]
        assert request.values("x-request-id") == [row["request_id"]]
    (parent,) = {row["span_id"] for row in rows}  # a constant: a parent id must be unique within its trace only
    assert re.fullmatch("[0-9a-f]{16}", parent)
    assert parent != "0" * 16
    assert len({(row["trace_id"], row["span_id"]) for row in rows}) == 40


def test_rejected_traceparent_of_a_trusted_peer_gets_the_same_parent_id(
    shop: Callable[..., Nginx], app: Upstream
) -> None:
    nginx = shop(trusted=TRUSTED)
    get(nginx)
    get(nginx, headers=[("traceparent", "junk")])
    first, second = logged(nginx, 2)
    assert first["span_id"] == second["span_id"]
    assert first["trace_id"] != second["trace_id"]
    sent = [request.values("traceparent") for request in app.requests]
    assert sent == [[f"00-{row['trace_id']}-{row['span_id']}-01"] for row in (first, second)]


def test_peer_listed_with_zero_is_not_trusted(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(trusted="127.0.0.0/8 1; 127.0.0.1 0;\n")
    headers: list[tuple[str, str | bytes]] = [("X-Request-ID", "spoofed"), ("X-Request-Start", "t=1700000000.000")]
    get(nginx, headers=[*headers, ("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "rojo=1")])
    (row,) = logged(nginx)
    assert row["request_id"] == row["trace_id"] not in {"spoofed", TRACE}
    assert row["stamp"] == "own"
    assert app.requests[0].values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-01"]
    assert app.requests[0].values("tracestate") == []


def test_the_flags_are_the_users(shop: Callable[..., Nginx], app: Upstream) -> None:
    nginx = shop(http='map "" $sojourn_trace_flags { default 00; }')
    get(nginx)
    (row,) = logged(nginx)
    assert app.requests[0].values("traceparent") == [f"00-{row['trace_id']}-{row['span_id']}-00"]
