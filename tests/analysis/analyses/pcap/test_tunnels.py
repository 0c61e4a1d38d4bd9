"""TCP inside of tunnels: packets made by scapy for every kind, held against what tshark reads of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from captures import START, Frame, frames, linked, pcap
from reader_support import GREETING, V4, V6, all_of, conversation, expected, written
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, GRE_PPTP, Dot1Q, Ether
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from segment_builder import MS
from sojourn.analyses.pcap.run import pcap as wire
from sojourn.analyses.pcap.section import wire_section
from tshark_reads import SojournReads, plain, segment_differences, tshark_rows

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
Wrap = Callable[[Packet], Packet]
ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
INNER = Ether(src="0a:00:00:00:00:01", dst="0a:00:00:00:00:02")
OUTER, OUTER6 = IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="2001:db8:1::1", dst="2001:db8:1::2")


def framed(outer: Packet) -> Wrap:
    """An Ethernet frame behind ``outer``."""
    return lambda packet: outer / Raw(bytes(INNER / packet))


def bare(outer: Packet) -> Wrap:
    """The IP packet itself behind ``outer``."""
    return lambda packet: outer / Raw(bytes(packet))


def ethertype(packet: Packet) -> int:
    return 0x0800 if packet.version == 4 else 0x86DD


def ppp(packet: Packet) -> bytes:
    return bytes(PPP(proto=0x21 if packet.version == 4 else 0x57) / Raw(bytes(packet)))


def pptp(packet: Packet) -> Packet:
    payload = b"\xff\x03" + ppp(packet)
    header = GRE_PPTP(seqnum_present=1, acknum_present=1, payload_len=len(payload))
    return OUTER / Raw(bytes(header)) / Raw(payload)


def set_protocol(outer: Packet, number: int) -> Packet:
    outer = outer.copy()
    outer[IP].proto = number
    return outer


# Kind -> what goes around a packet of IP, and the names under which its headers are counted.
WRAPS: dict[str, tuple[Wrap, dict[str, int]]] = {
    "gre": (lambda p: OUTER / GRE(proto=ethertype(p)) / Raw(bytes(p)), {"gre": 1}),
    "gre with key, sequence and checksum": (
        lambda p: OUTER / GRE(proto=ethertype(p), key_present=1, seqnum_present=1, chksum_present=1) / Raw(bytes(p)),
        {"gre": 1},
    ),
    "gre over ipv6": (lambda p: OUTER6 / GRE(proto=ethertype(p)) / Raw(bytes(p)), {"gre": 1}),
    "gre, bridged": (framed(OUTER / GRE(proto=0x6558)), {"gre": 1, "ethernet": 1}),
    "gre of pptp": (lambda p: set_protocol(pptp(p), 47), {"gre": 1, "ppp": 1}),
    "erspan 1": (framed(OUTER / GRE(proto=0x88BE)), {"gre": 1, "ethernet": 1}),
    "erspan 2": (framed(OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II()), {"gre": 1, "erspan": 1}),
    "erspan 3": (framed(OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III()), {"gre": 1, "erspan": 1}),
    "ip in ip": (lambda p: OUTER.copy() / p, {"ipip or ipv6 in ip": 1}),
    "ip in ipv6": (lambda p: OUTER6.copy() / p, {"ipip or ipv6 in ip": 1}),
    "vxlan": (framed(OUTER / UDP(sport=50_000, dport=4789) / VXLAN(flags=8, vni=7)), {"vxlan": 1, "ethernet": 1}),
    "vxlan over ipv6, with a tag": (
        lambda p: OUTER6 / UDP(sport=50_000, dport=4789) / VXLAN(flags=8) / Raw(bytes(INNER / Dot1Q(vlan=5) / p)),
        {"vxlan": 1, "ethernet": 1},
    ),
    "geneve, bridged": (
        framed(OUTER / UDP(sport=50_000, dport=6081) / GENEVE(vni=7, proto=0x6558)), {"geneve": 1, "ethernet": 1},
    ),
    "geneve with options": (
        lambda p: OUTER / UDP(sport=50_000, dport=6081)
        / GENEVE(proto=ethertype(p), optionlen=2, options=[]) / Raw(bytes.fromhex("0102000100000000") + bytes(p)),
        {"geneve": 1},
    ),
    "gtp-u": (bare(OUTER / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=9, gtp_type=255)), {"gtp-u": 1}),
    "gtp-u with an extension": (
        bare(OUTER / UDP(sport=2152, dport=2152)
             / GTP_U_Header(teid=9, gtp_type=255, E=1, next_ex=0x85) / GTPPDUSessionContainer(type=1, QFI=3)),
        {"gtp-u": 1},
    ),
    "pppoe": (lambda p: ETHERNET / PPPoE(sessionid=3) / Raw(ppp(p)), {"pppoe": 1}),
    "mpls": (lambda p: ETHERNET / MPLS(label=30, s=0) / MPLS(label=31, s=1) / Raw(bytes(p)), {"mpls": 1}),
    "mpls pseudowire": (
        lambda p: ETHERNET / MPLS(label=30, s=1) / Raw(bytes(4) + bytes(INNER / p)), {"mpls": 1, "ethernet": 1},
    ),
    "gre in vxlan": (
        lambda p: OUTER / UDP(sport=50_000, dport=4789) / VXLAN(flags=8)
        / Raw(bytes(INNER / OUTER / GRE(proto=ethertype(p)) / Raw(bytes(p)))),
        {"vxlan": 1, "ethernet": 1, "gre": 1},
    ),
}  # fmt: skip


def wrapped(wrap: Wrap, packets: list[Packet]) -> list[Frame]:
    """Ethernet frames with the packets in a tunnel."""
    items = []
    for number, packet in enumerate(packets):
        whole = wrap(packet.__class__(bytes(packet)))
        data = bytes(whole) if isinstance(whole, Ether) else linked(whole)
        items.append(Frame(START + number * MS, data))
    return items


@pytest.mark.parametrize("ends", [V4, V6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("kind", WRAPS)
def test_tcp_inside_of_a_tunnel_is_read_as_without_it(kind: str, ends: tuple[str, str], tmp_path: Path) -> None:
    packets = conversation(ends)
    wrap, names = WRAPS[kind]
    rows, counts, _ = all_of(written(tmp_path, pcap(wrapped(wrap, packets), nano=True)))
    assert rows == expected(packets)
    inner = "ipip" if ends == V4 else "ipv6 in ip"
    assert counts.tunnels == {inner if " or " in name else name: len(packets) for name in names}
    assert (counts.other, counts.undecoded) == ({}, {})


@needs_tshark
# What an MPLS label carries is for the user of tshark to say.
@pytest.mark.parametrize("kind", [kind for kind in WRAPS if kind != "mpls pseudowire"])
def test_tshark_sees_the_same_connections(kind: str, tmp_path: Path) -> None:
    packets = [packet for ends in (V4, V6) for packet in conversation(ends)]
    path = written(tmp_path, pcap(wrapped(WRAPS[kind][0], packets), nano=True))
    own = SojournReads(path)
    number, rows = tshark_rows(path)
    assert number == len(packets) == sum(plain(row) for row in rows)
    assert segment_differences(own, rows) == []
    assert len({row["tcp.stream"] for row in rows}) == len(own.tracked.connections) == 2


def test_connections_inside_and_outside_are_counted_once(tmp_path: Path) -> None:
    packets = conversation(V4)
    inside = wrapped(WRAPS["gre"][0], packets)
    copies = [Frame(frame.time + 50_000, frame.data) for frame in frames(packets)]
    path = written(tmp_path, pcap(sorted([*inside, *copies], key=lambda frame: frame.time), nano=True))
    result = wire(path)
    assert (len(result.connections), result.duplicates, len(result.exchanges)) == (1, len(packets), 1)
    assert any("gre 7" in note for note in wire_section(result).notes)
    assert result.to_dict()["tunnels"] == {"gre": 7}


def test_counts_other_protocols_in_tunnels(tmp_path: Path) -> None:
    pings = [IP(src=V4[0], dst=V4[1]) / ICMP(seq=k) for k in range(100)]
    names = [IP(src=V4[0], dst=V4[1]) / UDP(dport=53) / Raw(b"x") for _ in range(6)]
    path = written(tmp_path, pcap(wrapped(WRAPS["gre"][0], [*pings, *names])))
    sentence = wire_section(wire(path)).sentence
    assert sentence == (
        "There is no TCP connection in the 106 packets: gre 106 through tunnels; inside: icmp 100, udp 6."
    )


@pytest.mark.parametrize("kind", WRAPS)
def test_tunnels_cut_off_anywhere_are_counted(kind: str, tmp_path: Path) -> None:
    frame = wrapped(WRAPS[kind][0], conversation(V4)[3:4])[0]
    cut = [Frame(START + size, frame.data[:size], len(frame.data)) for size in range(len(frame.data))]
    rows, counts, _ = all_of(written(tmp_path, pcap(cut, nano=True)))
    assert counts.packets == len(cut)
    assert [row[-1] for row in rows] == [GREETING[: len(row[-1])] for row in rows]
    assert len(rows) == len(GREETING)


@pytest.mark.parametrize(
    ("packet", "kind"),
    [
        (OUTER / UDP(sport=4789, dport=4789) / Raw(bytes(40)), "vxlan"),
        (OUTER / UDP(dport=2152) / Raw(b"\x32\x01" + bytes(30)), "gtp-u"),
        (OUTER / UDP(dport=6081) / Raw(b"\x80" + bytes(30)), "geneve"),
        (OUTER / GRE(version=3) / Raw(bytes(30)), "gre"),
        (OUTER / GRE(proto=0x880B) / Raw(b"\x00\xfd" + bytes(30)), "ppp"),
        (ETHERNET / PPPoE(code=7) / Raw(bytes(30)), "pppoe"),
        (OUTER / GRE(proto=0x6558) / Raw(bytes(INNER / Raw(bytes(40)))[:12] + b"\x08\x06" + bytes(40)), "arp"),
        (IP(src=V4[0], dst=V4[1], flags="MF", proto=4) / Raw(bytes(OUTER / Raw(bytes(90)))), "ipv4 fragment"),
    ],
)
def test_counts_undecodable_inner_packets_by_kind(packet: Packet, kind: str, tmp_path: Path) -> None:
    data = bytes(packet) if isinstance(packet, Ether) else linked(packet)
    _, counts, _ = all_of(written(tmp_path, pcap([Frame(START, data)])))
    assert (counts.other, counts.undecoded) == ({kind: 1}, {})


def test_tunnels_in_tunnels_have_an_end(tmp_path: Path) -> None:
    packet = conversation(V4)[0]
    for depth, kind in ((8, None), (9, "more than 8 tunnel headers"), (40, "more than 8 tunnel headers")):
        whole = packet
        for _ in range(depth):
            whole = OUTER.copy() / whole
        rows, counts, _ = all_of(written(tmp_path, pcap([Frame(START, linked(whole))])))
        assert counts.other == ({kind: 1} if kind else {})
        assert len(rows) == (0 if kind else 1)


def test_padding_behind_a_tunnel_is_no_payload(tmp_path: Path) -> None:
    frame = wrapped(WRAPS["pppoe"][0], conversation(V4)[2:3])[0]
    rows, _, _ = all_of(written(tmp_path, pcap([Frame(START, frame.data + bytes(20))])))
    assert [(row[12], row[-1]) for row in rows] == [(0, b"")]
