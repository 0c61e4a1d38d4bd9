"""Connections: what a handshake, repetitions, losses and ends look like in the frame. The truth is written by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from segment_builder import ACK, ADDRESSES, CLIENT, FIN, MS, PSH, SERVER, SYN, Segment, Talk, answer, request, tracked
from sojourn.analyses.pcap.frames import CONNECTIONS, EXCHANGES
from sojourn.analyses.pcap.tracking_result import TrackingResult


def one(tracking: TrackingResult) -> dict[str, Any]:
    """The only connection, its instants in ms."""
    assert tracking.connections.height == 1
    return in_ms(tracking.connections).row(0, named=True)


def in_ms(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns") / MS)


def plain() -> Talk:
    talk = Talk().opened()
    talk.ask(3, request())
    talk.ack(4, SERVER)
    talk.answer(10, answer())
    talk.ack(11)
    talk.fin(20, CLIENT)
    talk.fin(21, SERVER)
    talk.ack(22)
    return talk


def test_an_ordinary_connection() -> None:
    tracking = tracked(plain().segments)
    assert tracking.connections.schema == CONNECTIONS
    assert tracking.exchanges.schema == EXCHANGES
    row = one(tracking)
    assert (row["client"], row["client_port"]) == (ADDRESSES[CLIENT], 40_000)
    assert (row["server"], row["server_port"]) == (ADDRESSES[SERVER], 80)
    instants = ("first", "syn", "syn_answered", "syn_ack", "established", "ack_taken", "client_data", "server_data")
    assert [row[name] for name in instants] == [0, 0, 0, 1, 2, 2, 3, 10]
    assert (row["client_fin"], row["server_fin"], row["last"], row["reset"]) == (20, 21, 22, None)
    assert (row["end"], row["protocol"], row["exchanges"], row["packets"]) == ("fin", "http", 1, 10)
    assert (row["client_bytes"], row["server_bytes"]) == (len(request()), len(answer()))
    counts = [name for name in CONNECTIONS if "retransmissions" in name or "zero" in name]
    assert not any(row[name] for name in (*counts, "acks_dropped", "gaps", "copies"))
    assert tracking.unparsed == {}


def test_nothing() -> None:
    tracking = tracked([])
    assert (tracking.connections.height, tracking.exchanges.height, tracking.unparsed) == (0, 0, {})
    assert tracking.connections.schema == CONNECTIONS
    assert tracking.exchanges.schema == EXCHANGES


def test_dropped_syns() -> None:
    """The accept queue is full twice: the SYN that is answered is the third."""
    talk = Talk()
    for ms in (0, 1000, 3000):
        talk.syn(ms)
    talk.syn_ack(3001)
    talk.ack(3002)
    row = one(tracked(talk.segments))
    assert (row["syn"], row["syn_answered"], row["syn_retransmissions"]) == (0, 3000, 2)
    assert (row["syn_ack_retransmissions"], row["acks_dropped"]) == (0, 0)


def test_an_ack_that_is_not_taken() -> None:
    """The accept queue got full after the SYN: the SYN-ACK comes again, until an ACK is taken."""
    talk = Talk().opened()
    requested = talk.ask(3, request())
    talk.syn_ack(1000)
    talk.ack(1001)
    talk.syn_ack(3000)
    talk.ack(3002)
    talk.again(3003, requested)
    row = one(tracked(talk.segments))
    assert (row["established"], row["ack_taken"]) == (2, 3002)
    assert (row["acks_dropped"], row["acks_doubtful"], row["syn_ack_retransmissions"]) == (2, 0, 2)


def test_an_ack_without_a_request_may_be_left_aside_on_purpose() -> None:
    talk = Talk().opened()
    talk.syn_ack(1000)
    talk.ack(1001)
    talk.ask(1002, request())
    row = one(tracked(talk.segments))
    assert (row["established"], row["ack_taken"]) == (2, 2)
    assert (row["acks_dropped"], row["acks_doubtful"], row["syn_ack_retransmissions"]) == (0, 1, 1)


def test_a_syn_ack_that_is_lost_on_its_way() -> None:
    talk = Talk()
    talk.syn(0)
    talk.syn_ack(1)
    talk.syn_ack(1001)
    talk.ack(1002)
    row = one(tracked(talk.segments))
    assert (row["syn_ack"], row["established"], row["ack_taken"]) == (1, 1002, 1002)
    assert (row["syn_ack_retransmissions"], row["acks_dropped"]) == (1, 0)


def test_the_syn_ack_of_a_cookie_has_another_number() -> None:
    talk = Talk()
    talk.syn(0)
    talk.syn_ack(1)
    talk.syn(1000)
    talk.server_isn = 77_000
    talk.next[SERVER] = 77_001
    talk.syn_ack(1001)
    talk.ack(1002)
    talk.ask(1003, request())
    talk.answer(1010, answer())
    row = one(tracked(talk.segments))
    assert (row["syn_retransmissions"], row["syn_ack_retransmissions"], row["gaps"]) == (1, 1, 0)
    assert (row["syn_answered"], row["established"], row["exchanges"]) == (0, 1002, 1)


@pytest.mark.parametrize("syns", [1, 4])
def test_unanswered(syns: int) -> None:
    talk = Talk()
    for k in range(syns):
        talk.syn(1000 * k)
    row = one(tracked(talk.segments))
    assert (row["end"], row["protocol"], row["syn_answered"], row["syn_retransmissions"]) == (
        "unanswered",
        "none",
        None,
        syns - 1,
    )


def test_refused() -> None:
    talk = Talk()
    talk.syn(0)
    talk.reset(1, SERVER)
    row = one(tracked(talk.segments))
    assert (row["end"], row["reset"], row["syn_answered"]) == ("refused", 1, None)
    assert row["server_zero_windows"] == 0, "a reset's window says nothing"


def test_a_client_that_asks_again_after_a_refusal() -> None:
    """Windows does: the same SYN, until it is taken."""
    talk = Talk()
    for ms in (0, 500, 1000):
        talk.syn(ms)
        talk.reset(ms + 1, SERVER)
    row = one(tracked(talk.segments))
    assert (row["end"], row["syn_retransmissions"], row["reset"]) == ("refused", 2, 1001)
    talk.syn(1500)
    talk.syn_ack(1501)
    talk.ack(1502)
    row = one(tracked(talk.segments))
    assert (row["end"], row["syn_retransmissions"], row["syn_answered"], row["reset"]) == ("open", 3, 1500, None)


def test_both_sides_ask_at_once() -> None:
    talk = Talk()
    talk.syn(0)
    talk.send(1, SERVER, SYN, seq=talk.server_isn)
    talk.send(2, CLIENT, SYN | ACK, seq=talk.client_isn)
    talk.syn_ack(3)
    talk.ack(4)
    row = one(tracked(talk.segments))
    assert (row["client_port"], row["syn"], row["syn_ack"], row["established"]) == (40_000, 0, 3, 4)
    assert row["syn_retransmissions"] == 0


@pytest.mark.parametrize(("side", "end"), [(CLIENT, "reset_by_client"), (SERVER, "reset_by_server")])
def test_resets(side: int, end: str) -> None:
    talk = Talk().opened()
    talk.reset(5, side)
    assert one(tracked(talk.segments))["end"] == end
    talk = plain()
    talk.reset(30, side)
    row = one(tracked(talk.segments))
    assert (row["end"], row["reset"]) == ("fin", 30)


def test_one_fin_leaves_a_connection_open() -> None:
    talk = Talk().opened()
    talk.fin(5, CLIENT)
    assert one(tracked(talk.segments))["end"] == "open"


def test_a_fin_with_payload() -> None:
    talk = Talk().opened()
    talk.ask(3, request())
    talk.fin(4, SERVER, answer())
    row = one(tracked(talk.segments))
    assert (row["server_bytes"], row["server_fin"], row["server_data"]) == (len(answer()), 4, 4)
    assert tracked(talk.segments).exchanges["status"].to_list() == [200]


def test_zero_windows() -> None:
    talk = Talk().opened()
    talk.send(3, CLIENT, ACK, window=0)
    talk.send(4, SERVER, ACK | PSH, answer(), window=0)
    talk.send(5, SERVER, ACK, window=0)
    row = one(tracked(talk.segments))
    assert (row["client_zero_windows"], row["server_zero_windows"]) == (1, 2)


def test_retransmissions_of_payload() -> None:
    talk = Talk().opened()
    requested = talk.ask(3, request())
    talk.again(203, requested)
    answered = talk.answer(300, answer(body=b"x" * 1000))
    talk.again(500, answered)
    talk.again(900, answered)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["client_retransmissions"], row["server_retransmissions"]) == (1, 2)
    assert (row["client_bytes"], row["server_bytes"]) == (len(request()), len(answered.payload))
    assert tracking.exchanges["retransmissions"].to_list() == [3]


def test_a_keep_alive_probe_is_no_retransmission() -> None:
    talk = plain()
    del talk.segments[-3:]
    talk.send(1000, CLIENT, ACK, b"", seq=talk.next[CLIENT] - 2)
    talk.send(1001, CLIENT, ACK, b"\0", seq=talk.next[CLIENT] - 2)
    row = one(tracked(talk.segments))
    assert (row["client_retransmissions"], row["client_bytes"]) == (0, len(request()))


def test_overlaps_count_once() -> None:
    talk = Talk().opened()
    first = talk.next[CLIENT]
    head = request("/long", method="POST", body=b"b" * 100)
    talk.send(3, CLIENT, ACK, head[:60], seq=first)
    talk.send(4, CLIENT, ACK, head[40:], seq=first + 40)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["client_bytes"], row["client_retransmissions"], row["gaps"]) == (len(head), 0, 0)
    assert tracking.exchanges["path"].to_list() == ["/long"]
    assert tracking.exchanges["request_bytes"].to_list() == [len(head)]


def test_out_of_order_is_neither_lost_nor_repeated() -> None:
    talk = Talk().opened()
    talk.ask(3, request())
    first, text = talk.next[SERVER], answer(body=b"z" * 500)
    for ms, (start, stop) in enumerate([(0, 100), (300, 400), (200, 300), (400, len(text)), (100, 200)]):
        talk.send(10 + ms, SERVER, ACK, text[start:stop], seq=first + start)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["server_retransmissions"], row["gaps"], row["server_bytes"]) == (0, 0, len(text))
    assert tracking.exchanges["response_bytes"].to_list() == [len(text)]


def test_a_head_whose_second_packet_comes_before_its_first() -> None:
    talk = Talk().opened()
    requested, answered = request("/late", "X-Request-ID: r1"), answer(503, "X-Worker: 9")
    for ms, side, text in ((3, CLIENT, requested), (9, SERVER, answered)):
        first = talk.next[side]
        talk.send(ms + 1, side, ACK, text[25:], seq=first + 25)
        talk.send(ms + 2, side, ACK, text[:25], seq=first)
        talk.next[side] += len(text)
    talk.ask(20, request("/next"))
    talk.answer(21, answer())
    tracking = tracked(talk.segments)
    assert one(tracking)["gaps"] == 0
    rows = in_ms(tracking.exchanges)
    # The fields that came before the first packet were let go; its request line is there, and so is what follows.
    assert rows["path"].to_list() == ["/late", "/next"]
    assert rows["status"].to_list() == [503, 200]
    assert rows["request_first"].to_list() == [4, 20]


def test_gaps() -> None:
    talk = Talk().opened()
    talk.ask(3, request())
    text = answer(body=b"y" * 1000)
    talk.answer(10, text[:200])
    talk.next[SERVER] += 300
    talk.answer(12, text[500:600])
    talk.next[SERVER] += 100
    talk.answer(13, text[700:])
    talk.next[SERVER] += 50  # acknowledged, never seen
    talk.ack(14)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["gaps"], row["server_retransmissions"]) == (3, 0)
    assert row["server_bytes"] == len(text) - 400
    assert tracking.exchanges["status"].to_list() == [200]


def test_many_gaps_are_bounded() -> None:
    talk = Talk().opened()
    for k in range(500):
        talk.next[SERVER] += 10
        talk.answer(10 + k, b"abc")
    row = one(tracked(talk.segments))
    assert (row["gaps"], row["server_bytes"]) == (500, 1500)


def test_copies_count_nowhere_else() -> None:
    talk = plain()
    for segment in talk.segments.copy():
        talk.again(segment.time / MS + 0.1, segment, fresh=False)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["copies"], row["packets"]) == (10, 10)
    expected = one(tracked(plain().segments))
    assert {**row, "copies": 0} == {**expected, "copies": 0}
    assert tracking.exchanges.equals(tracked(plain().segments).exchanges)


def test_different_segments_are_not_copies() -> None:
    talk = Talk().opened()
    requested = talk.ask(3, request())
    talk.again(3.5, requested)  # sent again at once, as another packet
    talk.again(30, requested, fresh=False)  # too late for a copy
    row = one(tracked(talk.segments))
    assert (row["copies"], row["client_retransmissions"]) == (0, 2)
    talk = Talk().opened()
    requested = talk.send(3, CLIENT, ACK, request(), ip_id=0)  # IPv6: packets have no number
    talk.again(3.1, requested)
    talk.again(3.5, requested)
    row = one(tracked(talk.segments))
    assert (row["copies"], row["client_retransmissions"]) == (1, 1)


def test_sequence_numbers_wrap() -> None:
    talk = Talk(client_isn=2**32 - 20, server_isn=2**32 - 1).opened()
    requested = talk.ask(3, request())
    talk.answer(5, answer(body=b"q" * 2000))
    talk.ask(6, request("/2"))
    talk.again(300, requested)
    talk.answer(301, answer())
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["gaps"], row["client_retransmissions"], row["exchanges"]) == (0, 1, 2)
    assert row["client_bytes"] == len(request()) + len(request("/2"))
    assert tracking.exchanges["status"].to_list() == [200, 200]


def test_a_port_that_is_used_again() -> None:
    segments = plain().segments
    later = Talk(client_isn=500_000, server_isn=600_000)  # after an end
    later.syn(100)
    later.syn_ack(101)
    later.ack(102)
    third = Talk(client_isn=700_000, server_isn=800_000)  # without one: another first number tells
    third.syn(200)
    third.syn_ack(201)
    third.ack(202)
    third.ask(203, request("/third"))
    tracking = tracked([*segments, *later.segments, *third.segments])
    rows = in_ms(tracking.connections)
    assert rows["syn"].to_list() == [0, 100, 200]
    assert rows["established"].to_list() == [2, 102, 202]
    assert rows["end"].to_list() == ["fin", "open", "open"]
    assert rows["exchanges"].to_list() == [1, 0, 1]
    assert tracking.exchanges["connection"].to_list() == [0, 2]
    assert tracking.exchanges["path"].to_list() == ["/", "/third"]


def test_a_new_connection_whose_handshake_is_not_captured() -> None:
    later = Talk(client_isn=3_000_000_000, server_isn=2_000_000_000)
    later.ask(100, request("/later"))
    tracking = tracked([*plain().segments, *later.segments])
    assert tracking.connections.height == 2
    assert tracking.exchanges["path"].to_list() == ["/", "/later"]


def test_packets_after_the_end_belong_to_the_connection() -> None:
    talk = plain()
    talk.again(50, talk.segments[3])
    talk.ack(60, SERVER)
    talk.reset(61, CLIENT)
    row = one(tracked(talk.segments))
    assert (row["packets"], row["client_retransmissions"]) == (13, 1)


def test_a_syn_ack_captured_before_its_syn() -> None:
    talk = Talk()
    talk.syn_ack(0)
    talk.syn(0.01)
    talk.ack(1)
    row = one(tracked(talk.segments))
    assert (row["syn"], row["syn_ack"], row["established"], row["packets"]) == (0.01, 0, 1, 3)
    assert row["client_port"] == 40_000


def test_payload_on_the_syn() -> None:
    talk = Talk()
    talk.send(0, CLIENT, SYN, request("/fast"), seq=talk.client_isn)
    talk.next[CLIENT] += len(request("/fast"))
    talk.syn_ack(1)
    talk.answer(2, answer())
    talk.ack(3)
    tracking = tracked(talk.segments)
    row = one(tracking)
    assert (row["client_data"], row["client_bytes"], row["gaps"]) == (0, len(request("/fast")), 0)
    assert tracking.exchanges["path"].to_list() == ["/fast"]


def test_detects_the_client_without_a_handshake() -> None:
    def client_of(payload: bytes, *servers: int, side: int = CLIENT, server_port: int = 80) -> str:
        talk = Talk(client_port=50, server_port=server_port)
        talk.send(0, side, ACK, payload)
        return str(tracked(talk.segments, servers=servers).connections["client"][0])

    assert client_of(b"", 80) == ADDRESSES[CLIENT]
    assert client_of(b"", 50) == ADDRESSES[SERVER]
    assert client_of(b"") == ADDRESSES[SERVER], "the lower port serves"
    assert client_of(request()) == ADDRESSES[CLIENT]
    assert client_of(answer(), side=SERVER) == ADDRESSES[CLIENT]
    assert client_of(b"\x16\x03\x01\x00\x05\x01\0\0\0\0") == ADDRESSES[CLIENT]
    assert client_of(b"\x16\x03\x03\x00\x05\x02\0\0\0\0", side=SERVER) == ADDRESSES[CLIENT]


def test_two_flows_that_differ_in_an_address_only() -> None:
    talk = plain()
    others = [Segment(**{**vars(s), "source": 2 if s.source == CLIENT else 1, "target": 2 if s.target == CLIENT else 1})
              for s in talk.segments]  # fmt: skip
    rows = tracked([*talk.segments, *others]).connections
    assert rows["client"].to_list() == [ADDRESSES[0], ADDRESSES[2]]
    assert rows["end"].to_list() == ["fin", "fin"]


def test_an_endpoint_that_talks_to_itself() -> None:
    row = one(tracked([Segment(0, 0, 80, 0, 80, 1, 0, SYN), Segment(1, 0, 80, 0, 80, 1, 2, SYN | ACK),
                       Segment(2, 0, 80, 0, 80, 2, 2, ACK), Segment(3, 0, 80, 0, 80, 2, 2, ACK | FIN)]))  # fmt: skip
    assert (row["client"], row["server"], row["packets"]) == (ADDRESSES[0], ADDRESSES[0], 4)


def test_more_connections_than_there_was_room_for() -> None:
    segments = []
    for k in range(3000):
        talk = Talk(client_port=10_000 + k, client_isn=k * 7, server_isn=k * 11).opened()
        talk.ask(3 + k, request(f"/{k}"))
        talk.answer(4 + k, answer())
        segments += talk.segments
    tracking = tracked(segments)
    assert tracking.connections.height == 3000
    assert tracking.connections["exchanges"].to_list() == [1] * 3000
    assert sorted(tracking.exchanges["path"]) == sorted(f"/{k}" for k in range(3000))
    assert tracking.exchanges["status"].to_list() == [200] * 3000
