"""Link layers: from the first byte of a captured packet to its network header.

Link types are those of https://www.tcpdump.org/linktypes.html; the numbers there, not the DLT_ values of one system.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Ints
from sojourn.readers.capture.packets import Packets, Verdicts, gathered, joined
from sojourn.readers.capture.verdicts import (
    BAD_FAMILY,
    BAD_IP_VERSION,
    IP_CUT,
    LINK_CUT,
    LINK_TYPE,
    NETLINK,
    VLAN_CUT,
    VLAN_TOO_MANY,
)

IPV4, IPV6 = 0x0800, 0x86DD
"""EtherTypes."""

_ETHERNET = np.dtype([("target", "V6"), ("source", "V6"), ("kind", ">u2")])
_COOKED = np.dtype([("type", ">u2"), ("device", ">u2"), ("address", "V10"), ("kind", ">u2")])
_COOKED_2 = np.dtype([("kind", ">u2"), ("reserved", "V2"), ("interface", ">u4"), ("device", ">u2"), ("address", "V10")])
_FAMILY = np.dtype([("family", ">u4")])
_TAG = np.dtype([("tag", ">u2"), ("kind", ">u2")])
_FIRST = np.dtype([("version", "u1")])

_TAGS = (0x8100, 0x88A8, 0x9100)
_MOST_TAGS = 8
_NETLINK_DEVICE = 824  # ARPHRD_NETLINK: not a network packet
_FAMILIES_IPV4 = (2,)
# Linux; Windows; NetBSD, OpenBSD and BSD/OS; FreeBSD and DragonFly; Darwin.
_FAMILIES_IPV6 = (10, 23, 24, 28, 30)


def network_packets(
    packets: Packets, link_types: Ints, verdicts: Verdicts, interface: npt.NDArray[np.int32]
) -> Packets:
    """Return the packets with a known network header, ``at`` on it and its EtherType in ``kind``.

    Sets the verdicts on the other packets, and in ``interface``, one per record, that of a Linux cooked header.
    """
    if not len(packets):
        return packets
    if (link_types == link_types[0]).all():
        return _untagged(_network(packets, int(link_types[0]), verdicts, interface), verdicts)
    parts = [_network(packets.where(link_types == t), int(t), verdicts, interface) for t in np.unique(link_types)]
    return _untagged(joined(parts), verdicts)


def _network(packets: Packets, link_type: int, verdicts: Verdicts, interface: npt.NDArray[np.int32]) -> Packets:
    match link_type:
        case 1:
            inner = _after(packets, _ETHERNET, verdicts)
        case 113:
            inner = _cooked(packets, _COOKED, verdicts)
        case 276:
            inner = _cooked(packets, _COOKED_2, verdicts)
            interfaces = gathered(inner.buffer, inner.at - _COOKED_2.itemsize, _COOKED_2)["interface"]
            interface[inner.index] = interfaces & 0x7FFFFFFF
        case 0 | 108:
            inner = _after_family(packets, verdicts)
        case 101 | 12 | 14:  # the last two were used by BSDs before 101
            inner = raw_packets(packets, verdicts)
        case 228:
            inner = packets.moved(0, np.full(len(packets), IPV4, np.int64))
        case 229:
            inner = packets.moved(0, np.full(len(packets), IPV6, np.int64))
        case _:
            inner = verdicts.without(packets, np.ones(len(packets), np.bool_), LINK_TYPE + link_type)
    return inner


def _after(packets: Packets, layout: np.dtype[np.void], verdicts: Verdicts) -> Packets:
    whole = verdicts.without(packets, packets.at + layout.itemsize > packets.captured, LINK_CUT)
    return whole.moved(layout.itemsize, whole.headers(layout)["kind"].astype(np.int64))


def _cooked(packets: Packets, layout: np.dtype[np.void], verdicts: Verdicts) -> Packets:
    whole = verdicts.without(packets, packets.at + layout.itemsize > packets.captured, LINK_CUT)
    network = verdicts.without(whole, whole.headers(layout)["device"] == _NETLINK_DEVICE, NETLINK)
    return network.moved(layout.itemsize, network.headers(layout)["kind"].astype(np.int64))


def _after_family(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the packets behind a loopback header, whose word has the byte order of the capturing host."""
    whole = verdicts.without(packets, packets.at + 4 > packets.captured, LINK_CUT)
    word = whole.headers(_FAMILY)["family"].astype(np.uint32)
    family = np.where(word > 0xFFFF, word.byteswap(), word)
    kind = np.select([np.isin(family, _FAMILIES_IPV4), np.isin(family, _FAMILIES_IPV6)], [IPV4, IPV6], 0)
    return verdicts.without(whole.moved(4, kind.astype(np.int64)), kind == 0, BAD_FAMILY)


def ethernet_packets(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the packets behind their Ethernet header and its VLAN tags."""
    return _untagged(_after(packets, _ETHERNET, verdicts), verdicts)


def raw_packets(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the packets that begin with an IP header of this version."""
    whole = verdicts.without(packets, packets.at >= packets.captured, IP_CUT)
    version = whole.headers(_FIRST)["version"] >> 4
    kind = np.select([version == 4, version == 6], [IPV4, IPV6], 0)
    return verdicts.without(whole.moved(0, kind.astype(np.int64)), kind == 0, BAD_IP_VERSION)


def _untagged(packets: Packets, verdicts: Verdicts) -> Packets:
    """Return the same packets with their VLAN tags (802.1Q, 802.1ad and its predecessors) behind them."""
    done: list[Packets] = []
    for _ in range(_MOST_TAGS):
        tagged = (packets.kind == _TAGS[0]) | (packets.kind == _TAGS[1]) | (packets.kind == _TAGS[2])
        if not tagged.any():
            break
        done.append(packets.where(~tagged))
        rest = packets.where(tagged)
        rest = verdicts.without(rest, rest.at + _TAG.itemsize > rest.captured, VLAN_CUT)
        packets = rest.moved(_TAG.itemsize, rest.headers(_TAG)["kind"].astype(np.int64))
    else:
        packets = verdicts.without(packets, np.isin(packets.kind, _TAGS), VLAN_TOO_MANY)
    return joined([*done, packets])
