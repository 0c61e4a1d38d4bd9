"""Tunnels: from the outer packet to the network header of the inner packet.

Sources: RFC 2784, 2890 and 2637 (GRE, and as PPTP has it), RFC 2003 (IP in IP), RFC 4213 (6in4), RFC 3378 (EtherIP),
RFC 7348 (VXLAN), draft-ietf-nvo3-vxlan-gpe, RFC 8926 (Geneve), 3GPP TS 29.281 (GTP-U), RFC 3032, 4385 and 7510 (MPLS),
RFC 2516 and 1661 (PPPoE, PPP), draft-foschiano-erspan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sojourn.model.arrays import Bools, Ints
from sojourn.readers.capture.link import IPV4, IPV6, ethernet_packets, raw_packets
from sojourn.readers.capture.packets import Packets, Verdicts, joined
from sojourn.readers.capture.verdicts import (
    ETHERTYPE,
    GENEVE,
    GTP_U,
    LLC_FRAME,
    NO_NEXT_HEADER,
    PPP,
    PROTOCOL,
    SEGMENT,
    TUNNEL_CUT,
    VXLAN,
)

MOST_LAYERS = 8
"""Maximum number of nested tunnel headers; packets with more are not decoded."""

_ETHERTYPES_FROM = 0x0600  # below it, the field is the length of a frame of IEEE 802.2
_BRIDGED, _PPP, _ERSPAN_2, _ERSPAN_3 = 0x6558, 0x880B, 0x88BE, 0x22EB
_MPLS, _MPLS_MULTICAST, _PPPOE = 0x8847, 0x8848, 0x8864
_NO_NEXT, _UDP = 59, 17

_WORD = np.dtype([("value", ">u4")])
_HALF = np.dtype([("value", ">u2")])
_GRE = np.dtype([("flags", ">u2"), ("kind", ">u2"), ("key", ">u2")])
_UDP_HEADER = np.dtype([("source", ">u2"), ("target", ">u2"), ("length", ">u2"), ("checksum", ">u2")])
_GTP = np.dtype([("flags", "u1"), ("type", "u1"), ("length", ">u2"), ("tunnel", ">u4"), ("rest", "V3"), ("next", "u1")])
_PPPOE_HEADER = np.dtype([("version", "u1"), ("code", "u1"), ("session", ">u2"), ("length", ">u2")])

_MOST_LABELS = 8
_MOST_GTP_EXTENSIONS = 4

Opener = Callable[[Packets, Verdicts], Packets]


def inside_link(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the inner packets of tunnels with their EtherType in ``kind``; other packets get their verdict."""
    codes = np.where(packets.kind < _ETHERTYPES_FROM, LLC_FRAME, ETHERTYPE + packets.kind)
    return _opened(packets, packets.kind, _OF_ETHERTYPE, codes, verdicts)


def inside_ip(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the inner packets of tunnels with their IP protocol in ``kind``; other packets get their verdict."""
    codes = np.where(packets.kind == _NO_NEXT, NO_NEXT_HEADER, PROTOCOL + packets.kind)
    datagrams = (packets.kind == _UDP) & (
        packets.at + _UDP_HEADER.itemsize <= np.minimum(packets.captured, packets.sent)
    )
    if not datagrams.any():
        return _opened(packets, packets.kind, _OF_PROTOCOL, codes, verdicts)
    others = packets.where(~datagrams) if not datagrams.all() else _none(packets)
    inner = [_opened(others, others.kind, _OF_PROTOCOL, codes[~datagrams], verdicts)]
    udp = packets.where(datagrams)
    header = udp.headers(_UDP_HEADER)
    ports = np.array(list(_OF_PORT))
    target, source = header["target"].astype(np.int64), header["source"].astype(np.int64)
    port = np.where(np.isin(target, ports), target, np.where(np.isin(source, ports), source, 0))
    codes = np.full(len(udp), PROTOCOL + _UDP)
    for number, (_, _, code) in _OF_PORT.items():
        codes[port == number] = code
    udp = replace(udp, sent=np.minimum(udp.sent, udp.at + np.maximum(header["length"].astype(np.int64), 8)))
    openers = {number: (name, opener) for number, (name, opener, _) in _OF_PORT.items()}
    inner.append(_opened(udp.moved(_UDP_HEADER.itemsize, udp.kind), port, openers, codes, verdicts))
    return joined(inner)


def _opened(
    packets: Packets, kinds: Ints, openers: dict[int, tuple[str, Opener]], codes: Ints, verdicts: Verdicts
) -> Packets:
    """Return the inner packets, opened by kind; a packet of another kind gets its code."""
    if not len(packets):
        return packets
    packets = replace(packets, captured=np.minimum(packets.captured, packets.sent))
    # A packet that its opener does not understand keeps its verdict.
    verdicts.codes[packets.index] = codes
    parts = [_none(packets)]
    for kind, (name, opener) in openers.items():
        chosen = kinds == kind
        if chosen.any():
            inner = opener(packets.where(chosen), verdicts)
            verdicts.codes[inner.index] = SEGMENT
            verdicts.enter(name, len(inner))
            parts.append(inner)
    return joined(parts)


def _none(packets: Packets) -> Packets:
    return packets.where(np.zeros(len(packets), np.bool_)) if len(packets) else packets


def _only(packets: Packets, understood: Bools) -> Packets:
    return packets.where(understood) if understood.any() else _none(packets)


def _there(packets: Packets, size: int | Ints, verdicts: Verdicts) -> Bools:
    """Return which packets have this many more bytes; packets captured in part are counted as cut."""
    end = packets.at + size
    verdicts.codes[packets.index[(end > packets.captured) & (end <= packets.sent)]] = TUNNEL_CUT
    return end <= packets.captured


def _whole(packets: Packets, size: int, verdicts: Verdicts) -> Packets:
    """Return the packets that have this many more bytes."""
    return _only(packets, _there(packets, size, verdicts))


def _past(packets: Packets, size: int | Ints, kind: int | Ints, verdicts: Verdicts) -> Packets:
    """Return the packets behind a header of that size, where the next header is of that kind."""
    kinds = np.broadcast_to(np.asarray(kind, np.int64), packets.at.shape)
    return _only(packets.moved(size, kinds), _there(packets, size, verdicts))


# --- over a link ----------------------------------------------------------------------------------------------


def _erspan_2(packets: Packets, verdicts: Verdicts) -> Packets:
    return ethernet_packets(_past(packets, 8, _BRIDGED, verdicts), verdicts)


def _erspan_3(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 12, verdicts)
    last = packets.moved(8, packets.kind).headers(_WORD)["value"]
    return ethernet_packets(_past(packets, np.where(last & 1, 20, 12), _BRIDGED, verdicts), verdicts)


def _mpls(packets: Packets, verdicts: Verdicts) -> Packets:
    done = [_none(packets)]
    for _ in range(_MOST_LABELS):
        packets = _whole(packets, 4, verdicts)
        bottom = (packets.headers(_WORD)["value"] & 0x100) != 0
        packets = packets.moved(4, packets.kind)
        done.append(_only(packets, bottom))
        packets = _only(packets, ~bottom)
    inner = _whole(joined(done), 4, verdicts)
    nibble = inner.headers(_WORD)["value"] >> 28
    kind = np.select([nibble == 4, nibble == 6], [IPV4, IPV6], _BRIDGED)
    # An Ethernet frame comes behind a control word, which begins with 0.
    return _past(inner, np.where(nibble == 0, 4, 0), kind, verdicts)


def _pppoe(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, _PPPOE_HEADER.itemsize, verdicts)
    header = packets.headers(_PPPOE_HEADER)
    end = packets.at + _PPPOE_HEADER.itemsize + header["length"].astype(np.int64)
    ended = replace(packets, sent=np.minimum(packets.sent, end), captured=np.minimum(packets.captured, end))
    return _ppp(_past(_only(ended, header["code"] == 0), _PPPOE_HEADER.itemsize, _PPP, verdicts), verdicts)


def _ppp(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 2, verdicts)
    framed = packets.headers(_HALF)["value"] == 0xFF03
    packets = _whole(_past(packets, np.where(framed, 2, 0), _PPP, verdicts), 2, verdicts)
    value = packets.headers(_HALF)["value"].astype(np.int64)
    short = (value >> 8) & 1 == 1  # the protocol is compressed to its second byte
    protocol = np.where(short, value >> 8, value)
    kind = np.select([protocol == 0x21, protocol == 0x57, protocol == 0x281], [IPV4, IPV6, _MPLS], 0)
    return verdicts.without(packets.moved(np.where(short, 1, 2), kind), kind == 0, PPP)


_OF_ETHERTYPE: dict[int, tuple[str, Opener]] = {
    _BRIDGED: ("ethernet", ethernet_packets),
    _ERSPAN_2: ("erspan", _erspan_2),
    _ERSPAN_3: ("erspan", _erspan_3),
    _MPLS: ("mpls", _mpls),
    _MPLS_MULTICAST: ("mpls", _mpls),
    _PPPOE: ("pppoe", _pppoe),
    _PPP: ("ppp", _ppp),
}

# --- over IP --------------------------------------------------------------------------------------------------


def _gre(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 4, verdicts)
    header = packets.headers(_GRE)
    flags, kind = header["flags"].astype(np.int64), header["kind"].astype(np.int64)
    checksum, routing, key, number, acknowledged = (
        (flags & bit) != 0 for bit in (0x8000, 0x4000, 0x2000, 0x1000, 0x80)
    )
    of_pptp = ((flags & 7) == 1) & (kind == _PPP) & key
    understood = (((flags & 7) == 0) & ~routing) | (of_pptp & number)
    size = 4 + 4 * (checksum.astype(np.int64) + key + number + (of_pptp & acknowledged))
    kind = np.where((kind == _ERSPAN_2) & ~number, _BRIDGED, kind)  # ERSPAN of the first type has no header of its own
    end = np.where(of_pptp, packets.at + size + header["key"].astype(np.int64), packets.sent)
    packets = replace(packets, sent=np.minimum(packets.sent, end), captured=np.minimum(packets.captured, end))
    return _past(_only(packets, understood), size[understood], kind[understood], verdicts)


def _as(kind: int, size: int = 0) -> Opener:
    """Return the packets of one kind, behind a header of that size."""
    return lambda packets, verdicts: _past(packets, size, kind, verdicts)


def _vxlan(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 8, verdicts)
    numbered = (packets.headers(_WORD)["value"] & 0x08000000) != 0
    return _past(_only(packets, numbered), 8, _BRIDGED, verdicts)


def _vxlan_gpe(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 8, verdicts)
    following = packets.headers(_WORD)["value"] & 0xFF
    kind = np.select([following == 1, following == 2, following == 3], [IPV4, IPV6, _BRIDGED], 0)
    return _past(_only(packets, kind != 0), 8, kind[kind != 0], verdicts)


def _geneve(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 8, verdicts)
    value = packets.headers(_WORD)["value"].astype(np.int64)
    understood = value >> 30 == 0
    size, kind = 8 + 4 * ((value >> 24) & 0x3F), value & 0xFFFF
    return _past(_only(packets, understood), size[understood], kind[understood], verdicts)


def _gtp_u(packets: Packets, verdicts: Verdicts) -> Packets:
    packets = _whole(packets, 8, verdicts)
    header = packets.headers(_GTP)
    of_user = (header["flags"] >> 4 == 3) & (header["type"] == 0xFF)  # version 1, and a packet of a user
    packets, header = _only(packets, of_user), header[of_user]
    optional, extended = (header["flags"] & 7) != 0, (header["flags"] & 4) != 0
    following = np.where(extended, header["next"], 0)
    packets = _past(packets, np.where(optional, 12, 8), following, verdicts)
    done = [_none(packets)]
    for _ in range(_MOST_GTP_EXTENSIONS):
        done.append(_only(packets, packets.kind == 0))
        packets = _whole(_only(packets, packets.kind != 0), 4, verdicts)
        units = (packets.headers(_WORD)["value"] >> 24).astype(np.int64)
        packets = _past(_only(packets, units > 0), 4 * units[units > 0], packets.kind[units > 0], verdicts)
        after = packets.moved(-1, packets.kind).headers(_HALF)["value"] >> 8
        packets = packets.moved(0, after.astype(np.int64))
    return raw_packets(joined([*done, _only(packets, packets.kind == 0)]), verdicts)


_OF_PROTOCOL: dict[int, tuple[str, Opener]] = {
    4: ("ipip", _as(IPV4)),
    41: ("ipv6 in ip", _as(IPV6)),
    47: ("gre", _gre),
    97: ("etherip", _as(_BRIDGED, 2)),
    137: ("mpls in ip", _as(_MPLS)),
}

# Port of UDP -> the tunnel over it, and the verdict on what it is not; 8472 is Linux's port of VXLAN from before 4789.
_OF_PORT: dict[int, tuple[str, Opener, int]] = {
    4789: ("vxlan", _vxlan, VXLAN),
    8472: ("vxlan", _vxlan, VXLAN),
    4790: ("vxlan", _vxlan_gpe, VXLAN),
    6081: ("geneve", _geneve, GENEVE),
    2152: ("gtp-u", _gtp_u, GTP_U),
    6635: ("mpls in udp", _as(_MPLS), PROTOCOL + _UDP),
}
