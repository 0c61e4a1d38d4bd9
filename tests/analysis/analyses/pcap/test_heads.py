"""Heads of HTTP messages: what is taken from them, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segment_builder import Talk, answer, request, tracked


def exchange(octets: bytes, answered: bytes = answer(), *, captured: int | None = None) -> dict[str, Any]:
    """The only exchange of a talk with this request and answer."""
    talk = Talk().opened()
    talk.ask(3, octets, captured=captured)
    talk.answer(5, answered)
    tracking = tracked(talk.segments).exchanges
    assert tracking.height == 1
    return tracking.row(0, named=True)


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([*lines, b"", b""])


def test_every_field() -> None:
    requested = head(
        b"GET /a/b?c=%20d&e HTTP/1.1",
        b"Host: shop.example:8080",
        b"User-Agent: X-Request-ID: not this one",
        b"X-Request-ID: 4bf92f3577b34da6a3ce929d0e0e4736",
        b"X-Request-Start: t=1763731234.567",
    )
    answered = head(
        b"HTTP/1.1 503 Service Unavailable",
        b"X-Queueing-Delay: 0.301512",
        b"X-Service-Time: 0.100236",
        b"X-Worker: 1234.7",
        b"Content-Length: 0",
    )
    row = exchange(requested, answered)
    assert row["method"] == "GET"
    assert row["path"] == "/a/b?c=%20d&e"
    assert row["host"] == "shop.example:8080"
    assert row["request_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert row["stamp"] == "t=1763731234.567"
    assert row["status"] == 503
    assert (row["queueing_delay"], row["service_time"], row["worker"]) == (0.301512, 0.100236, "1234.7")


@pytest.mark.parametrize("field", [b"X-REQUEST-ID:r", b"x-request-id:   r\t ", b"X-Request-Id: r", b"x-ReQuEsT-iD:\tr"])
@pytest.mark.parametrize("newline", [b"\r\n", b"\n"])
def test_spellings(field: bytes, newline: bytes) -> None:
    row = exchange(newline.join([b"GET / HTTP/1.1", field, b"", b""]))
    assert row["request_id"] == "r"


def test_missing_values_are_null() -> None:
    row = exchange(head(b"GET / HTTP/1.1"), head(b"HTTP/1.1 200 OK"))
    names = ("host", "request_id", "stamp", "queueing_delay", "service_time", "worker")
    assert [row[name] for name in names] == [None] * 6


def test_fields_count_on_their_own_side() -> None:
    requested = head(b"GET / HTTP/1.1", b"X-Queueing-Delay: 9", b"X-Worker: forged")
    answered = head(b"HTTP/1.1 204 No Content", b"X-Request-Start: t=1", b"Host: other")
    row = exchange(requested, answered)
    assert [row[name] for name in ("queueing_delay", "worker", "stamp", "host")] == [None] * 4


def test_the_answer_may_name_the_request() -> None:
    identified = head(b"HTTP/1.1 204 No Content", b"X-Request-ID: of-the-answer")
    assert exchange(request(), identified)["request_id"] == "of-the-answer"
    assert exchange(request("/", "X-Request-ID: own"), identified)["request_id"] == "own"


def test_the_first_of_several_counts() -> None:
    assert exchange(request("/", "X-Request-ID: 1", "X-Request-ID: 2"))["request_id"] == "1"


@pytest.mark.parametrize(
    ("line", "method", "path"),
    [
        (b"GET /", "GET", "/"),
        (b"GET http://a.example/x HTTP/1.1", "GET", "http://a.example/x"),
        (b"OPTIONS * HTTP/1.1", "OPTIONS", "*"),
        (b"PURGE /cache HTTP/1.1", "PURGE", "/cache"),
        (b"M-SEARCH * HTTP/1.1", "M-SEARCH", "*"),
        (b"GET /with a blank HTTP/1.1", "GET", "/with a blank"),
        (b"\r\n\r\nGET /after-empty-lines HTTP/1.1", "GET", "/after-empty-lines"),
    ],
)
def test_request_lines(line: bytes, method: str, path: str) -> None:
    row = exchange(head(line, b"Host: h"))
    assert (row["method"], row["path"], row["host"]) == (method, path, "h")


@pytest.mark.parametrize(
    ("captured", "method", "path", "host"),
    [
        (1, None, None, None),
        (3, None, None, None),
        (4, "GET", None, None),
        (8, "GET", None, None),
        (10, "GET", "/abcd", None),
        (19, "GET", "/abcd", None),
        (33, "GET", "/abcd", None),
        (40, "GET", "/abcd", "shop.example"),
    ],
)
def test_cut_heads(captured: int, method: str | None, path: str | None, host: str | None) -> None:
    row = exchange(request("/abcd", "X-Request-ID: abcdef"), captured=captured)
    assert (row["method"], row["path"], row["host"], row["request_id"]) == (method, path, host, None)
    assert row["status"] == 200


def test_heads_that_never_end() -> None:
    row = exchange(b"GET /unfinished HTTP/1.1\r\nX-Request-ID: 1\r\nHost: cu", b"HTTP/1.1 200 OK\r\nX-Worker: 3\r\n")
    assert (row["path"], row["request_id"], row["host"]) == ("/unfinished", "1", None)
    assert (row["status"], row["worker"]) == (200, "3")


def test_long_values_are_cut_at_8_kib() -> None:
    row = exchange(request("/" + "p" * 20_000, "X-Request-ID: " + "i" * 9_000, "X-Request-Start: t=2"))
    assert row["path"] == "/" + "p" * 8191
    assert row["request_id"] == "i" * 8192
    assert row["stamp"] == "t=2"


def test_a_head_without_an_end_is_given_up() -> None:
    talk = Talk().opened()
    for k in range(20):
        talk.ask(3 + k, (b"GET /endless HTTP/1.1\r\n" if k == 0 else b"") + b"A: b\r\n" * 1000)
    talk.answer(50, answer(431))
    talk.ask(60, request("/next"))
    talk.answer(61, answer(200))
    tracking = tracked(talk.segments)
    assert tracking.exchanges["path"].to_list() == ["/endless", "/next"]
    assert tracking.exchanges["status"].to_list() == [431, 200]


def test_hostile_bytes_do_no_harm() -> None:
    requested = head(
        b"GET /\xff\xfe\x00\x1b[31m<script>?q=caf\xc3\xa9 HTTP/1.1",
        b"X-Request-ID: \xf0\x9f\x98\x80\xf0",
        b"Host: \x00",
    )
    row = exchange(
        requested, head(b"HTTP/1.1 200 \xff", b"X-Worker: \xe4", b"X-Service-Time: nan?", b"Content-Length: 0")
    )
    assert row["path"] == "/\ufffd\ufffd\0\x1b[31m<script>?q=café"
    assert (row["request_id"], row["host"], row["worker"]) == ("\U0001f600\ufffd", "\0", "\ufffd")
    assert row["service_time"] is None


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"1,2", b"99999999999999999999999999", b"0x10"])
def test_lengths_that_are_none(value: bytes) -> None:
    row = exchange(head(b"POST / HTTP/1.1", b"Content-Length: " + value))
    assert (row["path"], row["status"]) == ("/", 200)


@pytest.mark.parametrize("line", [b"HTTP/1.1 ", b"HTTP/1.1 2x0 OK", b"HTTP/1.1\0200 OK", b"HTTP/1.1", b"HTTP/1.1 20"])
def test_a_status_that_is_none(line: bytes) -> None:
    assert exchange(request(), head(line, b"Content-Length: 0"))["status"] is None


def test_a_status_after_several_blanks() -> None:
    assert exchange(request(), head(b"HTTP/1.1   404 x", b"Content-Length: 0"))["status"] == 404


def test_figures_that_are_none() -> None:
    row = exchange(request(), head(b"HTTP/1.1 204 x", b"X-Queueing-Delay: 0.1, 0.2", b"X-Service-Time: "))
    assert (row["queueing_delay"], row["service_time"]) == (None, None)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 300))
def test_accepts_any_bytes(query: bytes, answered: bytes, cut: int) -> None:
    talk = Talk().opened()
    for k, text in enumerate((b"GET /" + query, b"HTTP/1.1 " + answered)):
        send = talk.answer if k else talk.ask
        send(3 + k, text[:cut])
        send(6 + k, text[cut:])
    tracking = tracked(talk.segments).exchanges
    assert tracking.height >= 1
    assert tracking["request_bytes"].sum() <= len(query) + 5
