"""Exchanges of HTTP/1 and turns of TLS: where each begins and ends. The truth is written by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from segment_builder import ACK, CLIENT, FIN, MS, SERVER, Talk, answer, request, tracked
from sojourn.analyses.pcap.tracking_result import TrackingResult


def rows(tracking: TrackingResult) -> list[dict[str, Any]]:
    """The exchanges, their instants in ms."""
    return tracking.exchanges.with_columns(pl.col(pl.Datetime).dt.epoch("ns") / MS).to_dicts()


def spans(tracking: TrackingResult) -> list[tuple[Any, ...]]:
    names = ("request_first", "request_last", "response_first", "response_last")
    return [tuple(row[name] for name in names) for row in rows(tracking)]


def column(tracking: TrackingResult, name: str) -> list[Any]:
    return tracking.exchanges[name].to_list()


def test_several_requests_on_a_connection() -> None:
    talk = Talk().opened()
    body = b"z" * 3000
    for k in range(3):
        text = request(f"/{k}", method="POST", body=body)
        talk.ask(10 * k + 10, text[:1400])
        talk.ask(10 * k + 11, text[1400:])
        talk.answer(10 * k + 15, answer(200 + k, body=body)[:1400])
        talk.answer(10 * k + 17, answer(200 + k, body=body)[1400:])
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(10, 11, 15, 17), (20, 21, 25, 27), (30, 31, 35, 37)]
    assert column(tracking, "number") == [1, 2, 3]
    assert column(tracking, "status") == [200, 201, 202]
    assert column(tracking, "method") == ["POST"] * 3
    assert column(tracking, "request_bytes") == [len(request("/0", method="POST", body=body))] * 3
    assert column(tracking, "response_bytes") == [len(answer(body=body))] * 3
    assert tracking.unparsed == {}


def test_a_request_without_an_answer() -> None:
    talk = Talk().opened()
    talk.ask(3, request("/slow"))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 3, None, None)]
    assert column(tracking, "status") == [None]


def test_an_answer_without_its_request() -> None:
    talk = Talk()
    talk.answer(3, answer(404))
    talk.ask(10, request("/seen"))
    talk.answer(11, answer(201))
    tracking = tracked(talk.segments)
    assert column(tracking, "status") == [201]
    assert column(tracking, "response_bytes") == [len(answer(201))]
    assert tracking.unparsed == {"answer_without_request": 1}


def test_a_capture_that_begins_in_an_answer() -> None:
    talk = Talk()
    talk.answer(1, b"<p>the end of something</p>")
    talk.answer(2, b"GET / looks like a request, and is none of it")
    talk.ask(10, request("/seen"))
    talk.answer(11, answer(201))
    tracking = tracked(talk.segments, servers=[80])
    assert (column(tracking, "path"), column(tracking, "status")) == (["/seen"], [201])
    assert column(tracking, "response_bytes") == [len(answer(201))]


def test_100_continue_is_not_the_answer() -> None:
    talk = Talk().opened()
    text = request("/up", "Expect: 100-continue", method="PUT", body=b"b" * 2000)
    head = text.index(b"\r\n\r\n") + 4
    talk.ask(3, text[:head])
    talk.answer(5, b"HTTP/1.1 100 Continue\r\n\r\n")
    talk.ask(7, text[head : head + 1000])
    talk.ask(8, text[head + 1000 :])
    talk.answer(20, answer(201))
    talk.ask(30, request("/next"))
    talk.answer(31, answer(202))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 8, 20, 20), (30, 30, 31, 31)]
    assert column(tracking, "status") == [201, 202]
    assert column(tracking, "response_bytes")[0] == len(answer(201))


def test_early_hints_in_pieces_and_with_the_answer() -> None:
    talk = Talk().opened()
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    talk.ask(3, request())
    talk.answer(5, hints[:30])
    talk.answer(6, hints[30:] + answer(200, "X-Worker: w"))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 3, 6, 6)]
    assert (column(tracking, "status"), column(tracking, "worker")) == ([200], ["w"])
    assert column(tracking, "response_bytes") == [len(answer(200, "X-Worker: w"))]


def test_a_refused_upload_is_followed_by_a_request() -> None:
    """The answer is final, and the body that was announced never comes."""
    talk = Talk().opened()
    text = request("/up", "Expect: 100-continue", method="PUT", body=b"b" * 2000)
    talk.ask(3, text[: text.index(b"\r\n\r\n") + 4])
    talk.answer(5, answer(417))
    talk.ask(9, request("/next"))
    talk.answer(10, answer(200))
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/up", "/next"]
    assert column(tracking, "status") == [417, 200]


def test_an_early_answer_to_a_long_upload() -> None:
    """The client goes on with its body after the answer has begun: that is not another request."""
    talk = Talk().opened()
    text = request("/up", method="POST", body=b"GET /no HTTP/1.1\r\n" * 200)
    talk.ask(3, text[:1000])
    talk.answer(4, answer(413))
    talk.ask(5, text[1000:])
    talk.ask(9, request("/next"))
    talk.answer(10, answer(200))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 5, 4, 4), (9, 9, 10, 10)]


def test_upgraded() -> None:
    talk = Talk().opened()
    talk.ask(3, request("/ws", "Upgrade: websocket", "Connection: upgrade"))
    talk.answer(4, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x02hi")
    talk.ask(5, b"\x81\x85....GET / HTTP/1.1\r\n\r\n")
    talk.answer(6, b"HTTP/1.1 200 in a frame")
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 3, 4, 4)]
    assert column(tracking, "status") == [101]
    assert tracking.unparsed == {"upgraded": 1}


def test_a_tunnel() -> None:
    talk = Talk().opened()
    talk.ask(3, b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n")
    talk.answer(4, b"HTTP/1.1 200 Connected\r\n\r\n")
    talk.ask(5, request("/inside"))
    tracking = tracked(talk.segments)
    assert (column(tracking, "method"), column(tracking, "path")) == (["CONNECT"], ["a.example:443"])
    assert tracking.unparsed == {"upgraded": 1}


def test_pipelined_requests_are_all_kept() -> None:
    talk = Talk().opened()
    talk.ask(3, request("/1") + request("/2", method="POST", body=b"b") + request("/3")[:20])
    talk.ask(4, request("/3")[20:])
    talk.answer(10, answer(201) + answer(202)[:30])
    talk.answer(12, answer(202)[30:])
    talk.answer(14, answer(203))
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/1", "/2", "/3"]
    assert column(tracking, "status") == [201, 202, 203]
    assert spans(tracking) == [(3, 3, 10, 10), (3, 3, 10, 12), (3, 4, 14, 14)]
    assert column(tracking, "response_bytes") == [len(answer(201)), len(answer(202)), len(answer(203))]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED += b"5;x=y\r\nHTTP/\r\n00A\r\n1.1 404 no\r\n0\r\nTrailer: 1\r\n\r\n"


@pytest.mark.parametrize("cut", range(1, len(CHUNKED), 7))
def test_bodies_in_chunks(cut: int) -> None:
    talk = Talk().opened()
    upload = b"POST /in HTTP/1.1\r\ntransfer-encoding: gzip, Chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
    talk.ask(3, upload + request("/piped"))
    text = CHUNKED + answer(206)
    talk.answer(4, text[:cut])
    talk.answer(5, text[cut:])
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/in", "/piped"]
    assert column(tracking, "status") == [200, 206]
    assert column(tracking, "request_bytes") == [len(upload), len(request("/piped"))]
    assert column(tracking, "response_bytes") == [len(CHUNKED), len(answer(206))]


def test_answers_without_a_body() -> None:
    """HEAD, 204 and 304 give lengths of bodies that do not come."""
    talk = Talk().opened()
    for k, (method, status) in enumerate([("HEAD", 200), ("GET", 304), ("DELETE", 204), ("GET", 200)]):
        talk.ask(10 * k + 3, request(f"/{k}", method=method))
        text = answer(status, body=b"four")
        talk.answer(10 * k + 5, text if status == 200 and method == "GET" else text[:-4])
    tracking = tracked(talk.segments)
    assert column(tracking, "status") == [200, 304, 204, 200]
    assert column(tracking, "method") == ["HEAD", "GET", "DELETE", "GET"]


def test_an_answer_that_ends_with_the_connection() -> None:
    talk = Talk().opened()
    talk.ask(3, b"GET /old HTTP/1.0\r\n\r\n")
    talk.answer(4, b"HTTP/1.0 200 OK\r\n\r\nHTTP/1.0 is its own topic")
    talk.answer(5, b"HTTP/1.1 404 still the body")
    talk.fin(6, SERVER, b"the end")
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 3, 4, 6)]
    assert column(tracking, "status") == [200]


def test_heads_in_single_bytes() -> None:
    talk = Talk().opened()
    requested, answered = request("/slowly", "X-Request-ID: abc"), answer(200, "X-Worker: 7")
    for k, octet in enumerate(requested):
        talk.ask(10 + k, bytes([octet]))
    for k, octet in enumerate(answered):
        talk.answer(1000 + k, bytes([octet]))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(10, 10 + len(requested) - 1, 1000, 1000 + len(answered) - 1)]
    assert (column(tracking, "path"), column(tracking, "request_id"), column(tracking, "worker")) == (
        ["/slowly"],
        ["abc"],
        ["7"],
    )
    assert column(tracking, "response_bytes") == [len(answered)]


def test_truncated_captures_of_exchanges() -> None:
    """Of each packet 40 bytes are kept: turns tell the requests apart."""
    talk = Talk().opened()
    for k, path in enumerate(["/a", "/b?" + "q" * 50]):
        talk.ask(10 * k + 3, request(path, "X-Request-ID: abcdef"), captured=40)
        talk.ask(10 * k + 4, b"more of the body", captured=0)
        talk.answer(10 * k + 5, answer(200 + k, body=b"o" * 500), captured=40)
        talk.answer(10 * k + 6, b"o" * 20, captured=0)
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(3, 4, 5, 6), (13, 14, 15, 16)]
    assert column(tracking, "path") == ["/a", None]
    assert column(tracking, "method") == ["GET", "GET"]
    assert column(tracking, "status") == [200, 201]
    assert column(tracking, "request_id") == [None, None], "part of a value would be a wrong one"
    assert tracking.unparsed == {"head_cut": 1}


def test_nothing_of_the_payload_captured() -> None:
    talk = Talk().opened()
    talk.ask(3, request(), captured=0)
    talk.answer(4, answer(), captured=0)
    tracking = tracked(talk.segments)
    assert tracking.exchanges.height == 0
    assert tracking.connections["protocol"].to_list() == ["other"]
    assert tracking.unparsed == {"not_captured": 1}


def test_a_lost_packet_with_a_head() -> None:
    talk = Talk().opened()
    talk.ask(3, request("/1"))
    talk.answer(4, answer(201))
    talk.next[CLIENT] += 400  # the request's first packet is not in the capture
    talk.ask(5, b"rest of it")
    talk.next[SERVER] += 300
    talk.answer(6, b"rest of its answer")
    talk.ask(7, request("/3"))
    talk.answer(8, answer(203))
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/1", None, "/3"]
    assert column(tracking, "status") == [201, None, 203]
    assert spans(tracking)[1] == (5, 5, 6, 6)
    assert tracking.unparsed == {"head_cut": 1}


def test_a_lost_body_that_was_longer_than_it_said() -> None:
    talk = Talk().opened()
    up = request("/1", method="POST", body=b"b" * 10)
    talk.ask(3, up[:-10])
    talk.next[CLIENT] += 12
    talk.answer(4, answer(201)[:-2])
    talk.next[SERVER] += 3
    talk.ask(5, request("/2"))
    talk.answer(6, answer(202))
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/1", "/2"]
    assert column(tracking, "status") == [201, 202]
    assert spans(tracking)[1] == (5, 5, 6, 6)


def test_lost_packets_of_bodies_do_no_harm() -> None:
    talk = Talk().opened()
    body = b"GET / HTTP/1.1\r\n" * 200
    up, down = request("/up", method="POST", body=body), answer(201, body=b"HTTP/1.1 200 OK\r\n" * 200)
    talk.ask(3, up[:500])
    talk.next[CLIENT] += 1000
    talk.ask(4, up[1500:])
    talk.answer(5, down[:500])
    talk.next[SERVER] += len(down) - 500
    talk.ask(6, request("/next"))
    talk.answer(7, answer(202))
    tracking = tracked(talk.segments)
    assert column(tracking, "path") == ["/up", "/next"]
    assert column(tracking, "status") == [201, 202]
    assert tracking.connections["gaps"].to_list() == [2]


@pytest.mark.parametrize(
    ("first", "second", "protocol", "unparsed"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"\0\0\0\4\0\0\0\0\0", "http2", {"http2": 1}),
        (b"SSH-2.0-OpenSSH_9.6\r\n", b"SSH-2.0-x\r\n", "other", {"not_http": 1}),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", b"N", "other", {"not_http": 1}),
        (b"", b"220 mail.example ESMTP\r\n", "other", {"not_http": 1}),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n", "other", {"not_http": 1}),
        (b"OPTIONS rtsp://cam/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n", b"RTSP/1.0 200 OK\r\n\r\n", "other", {"not_http": 1}),
        (b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", b"RTSP/1.0 200 OK\r\n\r\n", "other", {"not_http": 1}),
        (b"OPTIONS rtsp://cam/a-very-lo", b"RTSP/1.0 200 OK\r\n\r\n", "other", {"not_http": 1}),
        (b"OPTIONS sip:a@b SIP/2.0\r\n\r\n", b"SIP/2.0 200 OK\r\n\r\n", "other", {"not_http": 1}),
    ],
)
def test_other_protocols(first: bytes, second: bytes, protocol: str, unparsed: dict[str, int]) -> None:
    talk = Talk().opened()
    if first:
        talk.ask(3, first)
    talk.answer(4, second)
    talk.ask(5, request("/not-this"))
    tracking = tracked(talk.segments)
    assert tracking.connections["protocol"].to_list() == [protocol]
    assert tracking.exchanges.height == 0
    assert tracking.unparsed == unparsed


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    "relayed",
    [b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 80\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(range(12))],
)
def test_a_balancer_names_its_client_first(relayed: bytes, apart: bool) -> None:
    talk = Talk().opened()
    if apart:
        talk.ask(3, relayed)
        talk.ask(4, request("/behind"))
    else:
        talk.ask(4, relayed + request("/behind"))
    talk.answer(5, answer(204, body=b""))
    tracking = tracked(talk.segments)
    assert spans(tracking) == [(4, 4, 5, 5)]
    assert (column(tracking, "path"), column(tracking, "request_bytes")) == (["/behind"], [len(request("/behind"))])


# --- TLS ------------------------------------------------------------------------------------------------------


def record(kind: int, size: int, first: int = 0) -> bytes:
    """A record of TLS with ``size`` bytes in it."""
    return bytes([kind, 3, 3, size >> 8, size & 255, first]) + b"\xaa" * (size - 1)


HANDSHAKE, CHANGE, DATA, ALERT = 22, 20, 23, 21


def test_turns_of_tls_1_2() -> None:
    talk = Talk(server_port=443).opened()
    talk.ask(3, record(HANDSHAKE, 300, 1))
    talk.answer(5, record(HANDSHAKE, 90, 2) + record(HANDSHAKE, 2000, 11)[:1000])
    talk.answer(6, record(HANDSHAKE, 2000, 11)[1000:] + record(HANDSHAKE, 4, 14))
    talk.ask(7, record(HANDSHAKE, 66, 16) + record(CHANGE, 1, 1) + record(HANDSHAKE, 40, 99))
    talk.answer(8, record(CHANGE, 1, 1) + record(HANDSHAKE, 40, 99))
    talk.ask(10, record(DATA, 500)[:200])
    talk.ask(11, record(DATA, 500)[200:])
    talk.answer(20, record(DATA, 1400))
    talk.answer(22, record(DATA, 100))
    talk.ask(30, record(DATA, 50))
    talk.answer(40, record(DATA, 60))
    talk.ask(50, record(ALERT, 26))
    tracking = tracked(talk.segments)
    row = tracking.connections.with_columns(pl.col(pl.Datetime).dt.epoch("ns") / MS).row(0, named=True)
    assert (row["tls_client_hello"], row["tls_server_hello"], row["tls_ready"]) == (3, 5, 10)
    assert row["protocol"] == "tls"
    assert spans(tracking) == [(10, 11, 20, 22), (30, 30, 40, 40)]
    assert column(tracking, "method") == [None, None]
    assert column(tracking, "request_bytes") == [505, 55]
    assert column(tracking, "response_bytes") == [1405 + 105, 65]
    assert tracking.unparsed == {"tls": 1}


@pytest.mark.parametrize("tickets", [0, 2])
@pytest.mark.parametrize("cut", [None, 200])
def test_turns_of_tls_1_3(tickets: int, cut: int | None) -> None:
    """What ends the handshake, tickets and alerts look like data, and are none."""
    talk = Talk(server_port=443).opened()
    talk.ask(3, record(HANDSHAKE, 300, 1))
    talk.answer(5, record(HANDSHAKE, 90, 2) + record(CHANGE, 1, 1) + record(DATA, 20) + record(DATA, 900))
    talk.ask(7, record(CHANGE, 1, 1) + record(DATA, 53))
    talk.ask(10, record(DATA, 300), captured=cut)
    if tickets:
        talk.answer(12, record(DATA, 250) * tickets)
    talk.answer(20, record(DATA, 1400), captured=cut)
    talk.ask(30, record(DATA, 50))
    talk.answer(40, record(DATA, 60))
    talk.ask(50, record(DATA, 19))
    talk.fin(51, CLIENT)
    tracking = tracked(talk.segments)
    row = tracking.connections.with_columns(pl.col(pl.Datetime).dt.epoch("ns") / MS).row(0, named=True)
    assert (row["tls_client_hello"], row["tls_server_hello"], row["tls_ready"]) == (3, 5, 10)
    if not (tickets and cut):
        assert spans(tracking) == [(10, 10, 20, 20), (30, 30, 40, 40)]
        assert column(tracking, "response_bytes") == [1405, 65]


@pytest.mark.parametrize(
    "head", [b"OPTIONS * HTTP/1.1\r\n\r\n", b"OPTIONS /rtsp HTTP/1.1\r\n\r\n", b"GET /a b/2\r\n\r\n"]
)
def test_requests_of_http_that_look_like_those_of_others(head: bytes) -> None:
    talk = Talk().opened()
    talk.ask(3, head)
    talk.answer(4, answer())
    tracking = tracked(talk.segments)
    assert (tracking.connections["protocol"].to_list(), tracking.exchanges.height) == (["http"], 1)


@pytest.mark.parametrize("settings", [25, 26, 33])
@pytest.mark.parametrize("offered", [True, False])
def test_http2_inside_of_tls_has_no_turns(settings: int, offered: bool) -> None:
    hello = record(HANDSHAKE, 300, 1)
    talk = Talk(server_port=443).opened()
    talk.ask(3, hello[:-30] + (b"\x02h2" if offered else b"\0\0\0") + hello[-27:])
    talk.answer(5, record(HANDSHAKE, 90, 2) + record(CHANGE, 1, 1) + record(DATA, 900))
    talk.ask(7, record(CHANGE, 1, 1) + record(DATA, 53))
    talk.ask(10, record(DATA, 81))
    talk.answer(11, record(DATA, 45))
    talk.ask(12, record(DATA, 60))
    talk.answer(20, record(DATA, 86))
    talk.ask(21, record(DATA, settings))
    other = Talk(client_port=41_000).opened()
    other.ask(30, request())
    other.answer(31, answer())
    tracking = tracked([*talk.segments, *other.segments])
    assert tracking.connections["exchanges"].to_list() == [0 if offered else 3, 1]
    assert tracking.exchanges["exchange"].to_list() == list(range(tracking.exchanges.height))
    assert tracking.exchanges["connection"].to_list() == [1] if offered else [0, 0, 0, 1]
    assert tracking.unparsed == ({"tls_http2": 1} if offered else {"tls": 1})


def test_tls_seen_from_the_middle() -> None:
    talk = Talk(server_port=443)
    talk.answer(1, b"\xaa" * 700)
    talk.ask(10, record(DATA, 300))
    talk.answer(20, record(DATA, 1400))
    tracking = tracked(talk.segments, servers=[443])
    assert spans(tracking) == [(10, 10, 20, 20)]


# --- batches --------------------------------------------------------------------------------------------------


def busy_talks() -> list[Talk]:
    """Several talks at once, with everything that keeps state from one segment to the next."""
    talks = []
    for k in range(4):
        talk = Talk(client_port=30_000 + k, client_isn=k * 999_999_999).opened()
        requested = request(f"/{k}", f"X-Request-ID: {k}", method="POST", body=b"b" * 300)
        first = talk.ask(3 + k, requested[:30])
        talk.ask(4 + k, requested[30:])
        talk.again(5 + k, first)
        talk.answer(10, CHUNKED[:41])
        talk.answer(11 + k, CHUNKED[41:])
        talk.ask(20, request("/second")[:-1])
        talk.ask(21, b"\n")
        talk.next[SERVER] += 10 * k
        talk.answer(22 + k, answer(404))
        talk.fin(30, CLIENT)
        talk.fin(31, SERVER)
        talks.append(talk)
    tls = Talk(client_port=31_000, server_port=443).opened()
    tls.ask(3, record(HANDSHAKE, 300, 1)[:3])
    tls.ask(4, record(HANDSHAKE, 300, 1)[3:])
    tls.answer(5, record(HANDSHAKE, 90, 2))
    tls.ask(6, record(HANDSHAKE, 40, 99) + record(DATA, 100)[:50])
    tls.ask(7, record(DATA, 100)[50:])
    tls.answer(8, record(DATA, 100))
    return [*talks, tls]


SEGMENTS = [segment for talk in busy_talks() for segment in talk.segments]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cuts=st.lists(st.integers(0, len(SEGMENTS)), max_size=12))
def test_where_batches_end_changes_nothing(cuts: list[int]) -> None:
    whole, cut = tracked(SEGMENTS), tracked(SEGMENTS, cuts=cuts)
    assert whole.connections.equals(cut.connections)
    assert whole.exchanges.equals(cut.exchanges)
    assert whole.unparsed == cut.unparsed


def test_every_segment_in_a_batch_of_its_own() -> None:
    whole, cut = tracked(SEGMENTS), tracked(SEGMENTS, cuts=range(len(SEGMENTS)))
    assert whole.exchanges.height == 9
    assert whole.exchanges.equals(cut.exchanges)
    assert whole.connections.equals(cut.connections)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from([0, 1, 2, 4, 16, 17, 18, 24, 20]),
            st.integers(0, 2**32 - 1) | st.integers(1000, 1100),
            st.integers(0, 2**32 - 1) | st.integers(1000, 1100),
            st.binary(max_size=80) | st.sampled_from([request(), answer(), CHUNKED, record(22, 60, 1), record(23, 70)]),
            st.integers(0, 2000),
        ),
        max_size=30,
    )
)
def test_any_segments_are_survived(parts: list[tuple[bool, int, int, int, bytes, int]]) -> None:
    talk = Talk()
    for ms, (from_client, flags, seq, ack, payload, more) in enumerate(parts):
        one = talk.send(ms, CLIENT if from_client else SERVER, flags, payload, seq=seq)
        talk.segments[-1] = type(one)(**{**vars(one), "ack": ack, "length": len(payload) + more})
    tracking = tracked(talk.segments)
    counts = tracking.connections
    assert counts["packets"].sum() + counts["copies"].sum() == len(parts)
    assert counts["exchanges"].sum() == tracking.exchanges.height
    assert (tracking.exchanges["request_bytes"] >= 0).all()
    sent = sum(len(payload) + more for *_, payload, more in parts)
    assert counts["client_bytes"].sum() + counts["server_bytes"].sum() <= sent
    assert tracking.exchanges["request_bytes"].sum() + tracking.exchanges["response_bytes"].sum() <= sent


def test_fin_and_ack_bits_alone_carry_nothing() -> None:
    talk = Talk().opened()
    talk.send(3, CLIENT, FIN | ACK)
    assert tracked(talk.segments).exchanges.height == 0
