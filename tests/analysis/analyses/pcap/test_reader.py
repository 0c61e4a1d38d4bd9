"""Captures in every form, decoded: the columns say what was crafted, and every packet is counted once."""

from __future__ import annotations

from pathlib import Path

import captures
import pytest
from captures import START, Frame, linked, segment
from reader_support import GREETING, V4, V6, all_of, conversation, expected, written
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from sojourn.readers.capture.batch import Counts

LINKS = [
    captures.ETHERNET, captures.NULL, captures.LOOP, captures.RAW, captures.RAW_BSD, captures.COOKED, captures.COOKED_2,
]  # fmt: skip
PCAPS = [{"big": big, **more} for big in (False, True) for more in ({}, {"nano": True}, {"modified": True})]
PCAPNGS = [
    {"big": big, **more}
    for big in (False, True)
    for more in (
        {}, {"resolution": 6}, {"resolution": 9}, {"resolution": 3}, {"resolution": 12, "offset": 1_740_000_000},
        {"resolution": 0x80 | 20}, {"resolution": 0x80 | 32, "offset": -5}, {"obsolete": True, "offset": 3600},
    )
]  # fmt: skip


@pytest.mark.parametrize("link_type", [*LINKS, captures.RAW_IPV4, captures.RAW_IPV6])
@pytest.mark.parametrize("ends", [V4, V6], ids=["ipv4", "ipv6"])
def test_every_link_layer_in_every_form_of_file(tmp_path: Path, link_type: int, ends: tuple[str, str]) -> None:
    if (link_type, ends) in ((captures.RAW_IPV4, V6), (captures.RAW_IPV6, V4)):
        ends = V4 if ends == V6 else V6
    packets = conversation(ends)
    content = captures.frames(packets, link_type)
    files = [(captures.pcap(content, link_type=link_type, **how), how) for how in PCAPS]
    files += [(captures.pcapng(content, link_type=link_type, **how), how) for how in PCAPNGS]
    # Every form with Ethernet; with the others, each time other ones of them.
    for data, how in files if link_type == captures.ETHERNET else files[link_type % 4 :: 4]:
        path = written(tmp_path, data)
        rows, counts, _ = all_of(path)
        assert counts == Counts(packets=7, segments=7), how
        # Units of 2⁻²⁰ s are no whole number of ns; what is read is the tick's own time, rounded down.
        binary = how.get("resolution", 0) >= 0x80
        times = [START + i * 1_000_000 for i in range(7)]
        if binary:
            bits = how["resolution"] & 0x7F
            times = [((t << bits) // captures.SECOND * captures.SECOND) >> bits for t in times]
        assert rows == expected(packets, interface=3 if link_type == captures.COOKED_2 else 0, times=times), how


def test_times_are_read_to_the_nanosecond(tmp_path: Path) -> None:
    packet = linked(segment())
    times = [0, START + 123_456_789, START + 999_999_999, 4_294_967_295 * captures.SECOND + 1]
    content = [Frame(t, packet) for t in times]
    for data in (captures.pcap(content, nano=True), captures.pcapng(content, resolution=9)):
        rows, _, _ = all_of(written(tmp_path, data))
        assert [row[3] for row in rows] == times
    rows, _, _ = all_of(written(tmp_path, captures.pcap(content, big=True)))
    assert [row[3] for row in rows] == [t // 1000 * 1000 for t in times]
    # 2⁻⁶³ s: more bits than a fraction of a second times 10⁹ has room for.
    data = captures.pcapng([Frame(500_000_000, packet)], resolution=0x80 | 63)
    assert [row[3] for row in all_of(written(tmp_path, data))[0]] == [500_000_000]
    # 10⁻²⁰ s, from an offset on.
    data = captures.pcapng([Frame(START + 150_000_000, packet)], resolution=20, offset=START // captures.SECOND)
    assert [row[3] for row in all_of(written(tmp_path, data))[0]] == [START + 150_000_000]


def test_times_that_cannot_be_are_counted(tmp_path: Path) -> None:
    good = Frame(START, linked(segment()))
    data = captures.section() + captures.interface(resolution=0, offset=1 << 62) + captures.interface()
    data += captures.enhanced(good) + captures.enhanced(Frame(START, good.data, interface=1))
    rows, counts, _ = all_of(written(tmp_path, data))
    assert counts.undecoded == {"time out of range": 1}
    assert [row[2] for row in rows] == [2]
    # Nanoseconds in a file that says microseconds.
    bad = bytearray(captures.pcap([good, good]))
    bad[28:32] = (1_000_000).to_bytes(4, "little")
    rows, counts, _ = all_of(written(tmp_path, bytes(bad)))
    assert counts.undecoded == {"time out of range": 1}
    assert [row[2] for row in rows] == [2]


@pytest.mark.parametrize("link_type", [captures.ETHERNET, captures.COOKED, captures.COOKED_2])
def test_vlan_tags(tmp_path: Path, link_type: int) -> None:
    tags = [(0x8100, 5), (0x88A8, 7), (0x9100, 9), (0x8100, 0x2001)]
    packets = [segment(*ends, payload=GREETING) for ends in (V4, V6) for _ in range(5)]
    content = [
        Frame(START + i * 1_000_000, linked(packet, link_type, tags=tags[: i % 5])) for i, packet in enumerate(packets)
    ]
    rows, counts, _ = all_of(written(tmp_path, captures.pcap(content, link_type=link_type)))
    assert counts == Counts(packets=10, segments=10)
    assert rows == expected(packets, interface=3 if link_type == captures.COOKED_2 else 0)


def test_cooked_headers_of_other_kinds(tmp_path: Path) -> None:
    for link_type, device in ((captures.COOKED, 2), (captures.COOKED_2, 8)):
        data = bytearray(linked(segment(), link_type))
        data[device : device + 2] = (824).to_bytes(2, "big")
        _, counts, _ = all_of(written(tmp_path, captures.pcap([Frame(START, bytes(data))], link_type=link_type)))
        assert counts.other == {"netlink": 1}


def test_more_tags_than_can_be(tmp_path: Path) -> None:
    content = [
        Frame(START, linked(segment(), tags=[(0x8100, 1)] * 8)),
        Frame(START, linked(segment(), tags=[(0x8100, 1)] * 9)),
        Frame(START, linked(segment(), tags=[(0x8100, 1)] * 2)[:20], 100),
    ]
    _, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert (counts.segments, counts.undecoded) == (1, {"more than 8 vlan tags": 1, "vlan tag cut": 1})


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize(
    ("family", "ends"), [(2, V4), (10, V6), (23, V6), (24, V6), (28, V6), (30, V6), (7, None), (0, None)]
)
def test_families_of_loopback_headers(tmp_path: Path, family: int, ends: tuple[str, str] | None, big: bool) -> None:
    packets = [segment(*(ends or V4))]
    for link_type in (captures.NULL, captures.LOOP):
        content = [Frame(START, linked(packets[0], link_type, family=family, big=big))]
        rows, counts, _ = all_of(written(tmp_path, captures.pcap(content, link_type=link_type)))
        if ends is None:
            assert counts.undecoded == {"unknown address family": 1}
        else:
            assert rows == expected(packets)


def test_padding_is_no_payload(tmp_path: Path) -> None:
    """Ethernet frames have 60 bytes at least; a frame check sequence may follow them."""
    packets = [segment(flags="A"), segment(flags="PA", payload=b"abc")]
    content = [Frame(START + i * 1_000_000, linked(p).ljust(60, b"\xaa") + b"\1\2\3\4") for i, p in enumerate(packets)]
    rows, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert rows == expected(packets)
    assert counts.cut == 0


def test_lengths_that_segmentation_offload_leaves_out(tmp_path: Path) -> None:
    four, six = segment(*V4, payload=b"x" * 5000), segment(*V6, payload=b"y" * 5000)
    bare = bytearray(linked(four)), bytearray(linked(six))
    bare[0][16:18] = bare[1][18:20] = b"\0\0"
    rows, _, _ = all_of(written(tmp_path, captures.pcap([Frame(START, bytes(b)) for b in bare])))
    assert [(row[-3], row[-1]) for row in rows] == [(5000, b"x" * 5000), (5000, b"y" * 5000)]
    # What the wire had is counted, not what was kept of it.
    rows, counts, _ = all_of(written(tmp_path, captures.pcap([Frame(START, bytes(bare[0])).cut(100)])))
    assert [(row[-3], row[-2]) for row in rows] == [(5000, 46)]
    assert counts.cut == 1


def test_lengths_on_the_wire_that_cannot_be(tmp_path: Path) -> None:
    """Without a length in the IP header, the wire's is all there is; four bytes can claim 4 GiB."""
    bare = bytearray(linked(segment(*V4, payload=b"x"))), bytearray(linked(segment(*V6, payload=b"x")))
    bare[0][16:18] = bare[1][18:20] = b"\0\0"
    content = [Frame(START, bytes(data), sent) for data in bare for sent in (2**32 - 1, 2**31, 600_000)]
    rows, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert counts.undecoded == {"bad ip length": 4}
    assert [(row[2], row[-3], row[-2]) for row in rows] == [(3, 600_000 - 54, 1), (6, 600_000 - 74, 1)]


IPV6_TCP = TCP(sport=40000, dport=80, seq=5, ack=6, flags="PA") / Raw(b"hello")


@pytest.mark.parametrize(
    "headers",
    [
        IPv6ExtHdrHopByHop(),
        IPv6ExtHdrHopByHop() / IPv6ExtHdrRouting(addresses=["2001:db8::9", "2001:db8::8"]),
        IPv6ExtHdrDestOpt(options=[]),
        IPv6ExtHdrFragment(offset=0, m=1),
        IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(offset=0, m=0) / IPv6ExtHdrDestOpt(),
        AH(payloadlen=4, nh=6, spi=1, seq=2, icv=b"\1" * 12),
    ],
    ids=lambda h: h.summary()[:60],
)
def test_extension_headers_of_ipv6(tmp_path: Path, headers) -> None:
    packet = IPv6(src=V6[0], dst=V6[1]) / headers / IPV6_TCP
    rows, counts, _ = all_of(written(tmp_path, captures.pcap([Frame(START, linked(packet))])))
    assert counts == Counts(packets=1, segments=1)
    assert rows[0][:2] == V6
    assert rows[0][4:9] == (40000, 80, 5, 6, 0x18)
    assert rows[0][-3:] == (5, 5, b"hello")


def test_extension_headers_that_cannot_be(tmp_path: Path) -> None:
    def extended(number: int) -> bytes:
        return linked(
            IPv6(src=V6[0], dst=V6[1], nh=60) / Raw((b"\x3c" + bytes(7)) * (number - 1) + b"\6" + bytes(7)) / IPV6_TCP
        )

    beyond = bytearray(extended(1))
    beyond[14 + 41] = 255
    content = [
        Frame(START, extended(15)), Frame(START, extended(17)), Frame(START, extended(2)).cut(65),
        Frame(START, extended(2)).cut(57), Frame(START, bytes(beyond)),
    ]  # fmt: skip
    _, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert counts.segments == 1
    assert counts.undecoded == {"more than 16 ipv6 extension headers": 1, "ip header cut": 2, "bad ip length": 1}


def test_options_and_authentication_of_ipv4(tmp_path: Path) -> None:
    packets = [
        IP(src=V4[0], dst=V4[1], options=[b"\x94\x04\x00\x00", b"\1" * 36]) / IPV6_TCP,
        IP(src=V4[0], dst=V4[1], proto=51) / AH(payloadlen=4, nh=6, spi=1, seq=2, icv=b"\1" * 12) / IPV6_TCP,
    ]
    rows, _, _ = all_of(written(tmp_path, captures.pcap(captures.frames(packets))))
    assert [(*row[4:9], row[-1]) for row in rows] == [(40000, 80, 5, 6, 0x18, b"hello")] * 2


def fragment(offset: int, more: bool, data: bytes) -> bytes:
    return bytes(IP(src=V4[0], dst=V4[1], proto=6, frag=offset, flags="MF" if more else 0) / Raw(data))


def test_fragments(tmp_path: Path) -> None:
    """The first fragment tells what the header tells, of its own payload; the others are counted."""
    tcp = bytes(segment(payload=b"x" * 100))[20:]
    packets = [
        fragment(0, True, tcp[:64]), fragment(8, True, tcp[64:80]), fragment(10, False, tcp[80:]),
        fragment(0, True, tcp[:16]), fragment(2, False, tcp[16:]),
        bytes(IPv6(src=V6[0], dst=V6[1]) / IPv6ExtHdrFragment(offset=5, m=0, nh=6) / Raw(tcp)),
    ]  # fmt: skip
    rows, counts, _ = all_of(written(tmp_path, captures.pcap(captures.frames(packets))))
    assert counts.other == {"ipv4 fragment": 4, "ipv6 fragment": 1}
    assert [(row[2], row[-3]) for row in rows] == [(1, 44)]


def test_counts_other_packets_by_kind(tmp_path: Path) -> None:
    ip, ip6 = IP(src=V4[0], dst=V4[1]), IPv6(src=V6[0], dst=V6[1])
    inner = segment()
    packets = [
        ip / UDP(sport=53, dport=5353) / Raw(b"?"), ip / ICMP(), ip / GRE() / inner, ip / inner, ip6 / inner,
        ip / UDP(sport=1, dport=4789) / Raw(bytes(8)) / Ether() / inner, ip / UDP(dport=6081) / Raw(b"g"),
        IP(proto=132) / Raw(bytes(20)), IP(proto=200) / Raw(bytes(20)), IPv6(nh=50) / Raw(bytes(20)),
        IPv6(nh=59), IPv6(nh=58) / Raw(bytes(8)), ip / UDP(sport=68, dport=67),
    ]  # fmt: skip
    content = captures.frames(packets)
    bridged = [bytes(Ether() / ARP()), bytes(Ether(type=0x1234)) + bytes(46), bytes(Ether(type=38)) + bytes(46)]
    content += [Frame(START, data) for data in bridged]
    _, counts, _ = all_of(written(tmp_path, captures.pcap(content)))
    assert counts.other == {
        "udp": 2, "icmp": 1, "vxlan": 1, "geneve": 1, "sctp": 1, "ip protocol 200": 1, "esp": 1,
        "ipv6 without payload": 1, "icmpv6": 1, "arp": 1, "ethertype 0x1234": 1, "802.2 frame": 1,
    }  # fmt: skip
    assert (counts.segments, counts.tunnels) == (3, {"gre": 1, "ipip": 2})
    assert counts.undecoded == {}
