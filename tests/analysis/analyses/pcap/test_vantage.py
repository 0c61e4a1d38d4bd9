"""The vantage point of a capture, and what it proves about repeated SYNs and ACKs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl
import pytest
from segment_builder import CLIENT, MS, SERVER, Talk, answer, request, tracked
from sojourn.analyses.pcap.analysis import wire_of
from sojourn.analyses.pcap.result import WireResult
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.pcap.tallies import servers
from sojourn.analyses.pcap.tracking.states import RECENT
from sojourn.analyses.pcap.vantage import VANTAGE
from sojourn.readers.capture.batch import ACK, SYN, Counts
from syrupy.assertion import SnapshotAssertion

ROUND_TRIP = 20.0
# Vantage point -> ms from SYN to SYN-ACK, and from SYN-ACK to ACK.
DELAYS = {"server": (0.03, ROUND_TRIP), "client": (ROUND_TRIP, 0.03), "unknown": (ROUND_TRIP / 2, ROUND_TRIP / 2)}
FACT = "a final ACK to a server"
POSSIBLE = "a SYN-ACK of a server"


def handshake(place: str, port: int, begin: float) -> Talk:
    """A handshake as captured at that place."""
    to_server, to_client = DELAYS[place]
    talk = Talk(client_port=port)
    talk.syn(begin)
    talk.syn_ack(begin + to_server)
    talk.ack(begin + to_server + to_client)
    return talk


def ordinary(place: str) -> list[Talk]:
    """Connections without repeated packets."""
    talks = []
    for k in range(5):
        talk = handshake(place, 41_000 + k, 100 * k)
        talk.ask(100 * k + 30, request("/"))
        talk.answer(100 * k + 60, answer())
        talks.append(talk)
    return talks


def analysed(talks: Iterable[Talk]) -> WireResult:
    result = tracked(segment for talk in talks for segment in talk.segments)
    return wire_of(result, Counts(packets=result.connections["packets"].sum()))


def dropped(place: str) -> Talk:
    """A request that the server does not acknowledge: it repeats its SYN-ACK after a second."""
    talk = handshake(place, 45_000, 0)
    late = talk.ask(25, request("/late"))
    talk.again(250, late)
    talk.syn_ack(1_001)
    talk.ack(1_001 + DELAYS[place][1])
    talk.again(1_030, late)
    talk.ack(1_050, SERVER)
    talk.answer(1_100, answer())
    return talk


@pytest.mark.parametrize("place", DELAYS)
def test_vantage_follows_from_the_delays_of_the_handshake(place: str) -> None:
    assert analysed(ordinary(place)).connections["vantage"].unique().to_list() == [place]


def test_an_address_counts_as_captured_at_the_server_only_with_all_its_connections() -> None:
    connections = analysed(ordinary("client")).connections
    local_first = pl.Series("vantage", ["both", *["unknown"] * (len(connections) - 1)], VANTAGE)
    assert servers(connections.with_columns(local_first))["vantage"].to_list() == ["unknown"]
    assert servers(connections.with_columns(vantage=pl.lit("both", VANTAGE)))["vantage"].to_list() == ["both"]


def test_a_dropped_final_ack_is_stated_only_at_the_server(snapshot: SnapshotAssertion) -> None:
    for place, proven in (("server", 1), ("client", 0), ("unknown", 0)):
        result = analysed([*ordinary(place), dropped(place)])
        text = " ".join(result.findings)
        assert (FACT in text, POSSIBLE in text) == (bool(proven), not proven), place
        assert text == snapshot(name=place)
        server = result.servers.row(0, named=True)
        assert (server["acks_dropped"], server["acks_doubtful"]) == (proven, 1 - proven), place
        lower = result.timeline["accept_wait_lower"].max()
        assert lower > 0.9 if proven else lower == 0.0, place


def without_request(talk: Talk) -> None:
    """As with TCP_DEFER_ACCEPT: the ACK alone came, and the request follows the repeated SYN-ACK."""
    talk.syn_ack(1_001)
    talk.ack(1_030)
    talk.ask(1_040, request("/late"))
    talk.answer(1_100, answer())


def fast_open(talk: Talk) -> None:
    """The SYN carried payload."""
    payload = request("/late")
    talk.segments.clear()
    talk.send(0, CLIENT, SYN, payload, seq=talk.client_isn)
    talk.send(0.03, SERVER, SYN | ACK, seq=talk.server_isn)
    talk.next[CLIENT] += len(payload)
    talk.ack(20)
    talk.syn_ack(1_001)
    talk.answer(1_100, answer())


def answered_syn(talk: Talk) -> None:
    """The client's SYN was repeated, and the SYN-ACK is the answer to that."""
    talk.ask(25, request("/late"))
    talk.syn(1_000)
    talk.syn_ack(1_000.1)
    talk.ack(1_030)
    talk.answer(1_100, answer())


def crossing(talk: Talk) -> None:
    """The ACK arrives as the timer fires."""
    talk.segments.pop()
    talk.ack(1_000)
    talk.ask(1_000.1, request("/late"))
    talk.syn_ack(1_001)
    talk.answer(1_100, answer())


@pytest.mark.parametrize("scenario", [without_request, fast_open, answered_syn, crossing])
def test_a_repeated_syn_ack_with_another_explanation_is_possible_at_most(scenario: Callable[[Talk], None]) -> None:
    talk = handshake("server", 45_000, 0)
    scenario(talk)
    result = analysed([*ordinary("server"), talk])
    assert FACT not in " ".join(result.findings)
    assert result.servers["acks_dropped"].sum() == 0
    assert POSSIBLE in " ".join(result.findings)
    for explanation in ("lost on its way", "TCP_DEFER_ACCEPT", "TCP Fast Open", "captured twice"):
        assert explanation in " ".join(result.findings)


def test_a_syn_ack_after_data_of_the_server_is_no_dropped_ack() -> None:
    talk = handshake("server", 45_000, 0)
    talk.ask(25, request("/late"))
    talk.ack(26, SERVER)
    talk.syn_ack(1_001)
    talk.answer(1_100, answer())
    result = analysed([*ordinary("server"), talk])
    assert result.servers.select("acks_dropped", "acks_doubtful", "syn_ack_retransmissions").row(0) == (0, 0, 1)
    assert not any("ACK" in finding for finding in result.findings)


def test_duplicated_packets_are_no_dropped_ack() -> None:
    talks = ordinary("server")
    for talk in talks:
        for segment in talk.segments.copy():
            talk.again(segment.time / MS + 0.4, segment, fresh=False)
    talks[0].again(talks[0].segments[1].time / MS + 30, talks[0].segments[1])
    result = analysed(talks)
    server = result.servers.row(0, named=True)
    again = ("syn_retransmissions", "syn_ack_retransmissions", "acks_dropped", "acks_doubtful")
    assert [server[name] for name in again] == [0] * len(again)
    assert result.duplicates == result.to_dict()["duplicates"] >= 5 * RECENT
    assert any(f"{result.duplicates} packets are duplicates" in note for note in wire_section(result).notes)


def queues(result: WireResult) -> dict[str, tuple[str, ...]]:
    table = next(table for table in wire_section(result).tables if table.headings[0] == "queue")
    return {row[0]: row[1:] for row in table.rows}


def test_the_syn_queue_is_known_at_the_server_only() -> None:
    at_server, at_client = (analysed(ordinary(place)) for place in ("server", "client"))
    assert queues(at_server)["backend SYN queue"][0] == "known"
    assert at_server.figures["syn_queue"]["p50"] == pytest.approx(ROUND_TRIP / 1e3, abs=1e-4)
    assert "round_trip" not in at_server.figures
    assert "backend SYN queue" not in queues(at_client)
    assert queues(at_client)["backend: handshake"][0] == "round trip"
    assert at_client.figures["round_trip"]["p50"] == pytest.approx(ROUND_TRIP / 1e3, abs=1e-4)
    assert at_client.timeline["syn_queue"].null_count() == len(at_client.timeline)


def test_an_ack_that_the_server_never_accepted_is_no_round_trip() -> None:
    talk = handshake("server", 45_000, 0)
    talk.ask(25, request("/late"))
    talk.syn_ack(1_001)
    result = analysed([*ordinary("server"), talk])
    assert result.servers["acks_dropped"].sum() == 1
    assert "round_trip" not in result.figures


def silent(count: int) -> list[Talk]:
    """Connections whose SYNs are repeated once and never answered."""
    talks = []
    for k in range(count):
        talk = Talk(client_port=46_000 + k)
        talk.syn(k)
        talk.syn(1_000 + k)
        talks.append(talk)
    return talks


def test_repeated_syns_exclude_a_known_0_of_dropped_syns(snapshot: SnapshotAssertion) -> None:
    assert queues(analysed(ordinary("client")))["backend: SYN dropped"][0] == "known"
    result = analysed([*ordinary("client"), *silent(10)])
    assert result.syn_retransmissions == 10
    kind, _, _, *figures = queues(result)["backend: SYN dropped"]
    assert (kind, figures) == ("unknown", ["–"] * 3)
    assert any(finding.startswith("10 SYNs to a server ") for finding in result.findings)
    assert result.findings == snapshot


@pytest.mark.parametrize(("place", "kind"), [("server", "known"), ("client", "at most")])
def test_repeated_syns_were_dropped_only_if_captured_at_the_server(
    place: str, kind: str, snapshot: SnapshotAssertion
) -> None:
    talk = Talk(client_port=45_000)
    talk.syn(-1_000)
    late = handshake(place, 45_000, 0)
    late.ask(30, request("/"))
    late.answer(60, answer())
    late.segments.insert(0, talk.segments[0])
    result = analysed([*ordinary(place), late])
    assert queues(result)["backend: SYN dropped"][0] == kind
    sentence = next(finding for finding in result.findings if "1 SYN to a server" in finding)
    assert ("a full queue" in sentence) == (place != "server")
    assert sentence == snapshot
