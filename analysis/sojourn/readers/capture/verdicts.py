"""The verdict on each packet as a number, and its text."""

from __future__ import annotations

import numpy as np

from sojourn.model.arrays import Codes
from sojourn.readers.capture.batch import Counts

SEGMENT = 0
"""The verdict on a decoded packet."""

# A verdict is a family times 65,536 plus a value whose meaning depends on the family.
_STEP = 1 << 16
ETHERTYPE, PROTOCOL, OTHER, LINK_TYPE, UNDECODED = (family * _STEP for family in range(1, 6))

_OTHERS = (
    "ipv4 fragment", "ipv6 fragment", "802.2 frame", "netlink", "vxlan", "geneve", "gtp-u", "ipv6 without payload",
    "ppp", "more than 8 tunnel headers",
)  # fmt: skip
(
    IPV4_FRAGMENT, IPV6_FRAGMENT, LLC_FRAME, NETLINK, VXLAN, GENEVE, GTP_U, NO_NEXT_HEADER, PPP,
    TUNNELS_TOO_MANY,
) = (OTHER + i for i in range(len(_OTHERS)))  # fmt: skip

_REASONS = (
    "link header cut", "vlan tag cut", "more than 8 vlan tags", "unknown address family", "ip header cut",
    "bad ip version", "bad ip header length", "bad ip length", "more than 16 ipv6 extension headers", "tcp header cut",
    "bad tcp header length", "no time (simple packet block)", "time out of range", "interface not described",
    "bad length in its block", "tunnel header cut",
)  # fmt: skip
(
    LINK_CUT, VLAN_CUT, VLAN_TOO_MANY, BAD_FAMILY, IP_CUT,
    BAD_IP_VERSION, BAD_IP_HEADER, BAD_IP_LENGTH, EXTENSIONS_TOO_MANY, TCP_CUT,
    BAD_TCP_HEADER, NO_TIME, BAD_TIME, NO_INTERFACE,
    BAD_BLOCK, TUNNEL_CUT,
) = (UNDECODED + i for i in range(len(_REASONS)))  # fmt: skip

_ETHERTYPES = {
    0x0806: "arp", 0x6558: "transparent bridging", 0x8035: "rarp", 0x809B: "appletalk", 0x8137: "ipx", 0x8847: "mpls",
    0x8848: "mpls", 0x8863: "pppoe", 0x8864: "pppoe", 0x888E: "eapol", 0x88CC: "lldp", 0x88E5: "macsec", 0x88F7: "ptp",
}  # fmt: skip
_PROTOCOLS = {
    1: "icmp", 2: "igmp", 4: "ipip", 17: "udp", 33: "dccp", 41: "ipv6 in ip", 47: "gre", 50: "esp", 58: "icmpv6",
    89: "ospf", 97: "etherip", 103: "pim", 108: "ipcomp", 112: "vrrp", 115: "l2tp", 132: "sctp", 136: "udp-lite",
    137: "mpls in ip",
}  # fmt: skip


def count_into(counts: Counts, verdicts: Codes) -> None:
    """Add one verdict per packet to the counts: every packet to exactly one of segments, other and undecoded."""
    failed = verdicts[verdicts != SEGMENT]
    counts.packets += len(verdicts)
    counts.segments += len(verdicts) - len(failed)
    for code, packets in zip(*np.unique(failed, return_counts=True), strict=True):
        kinds = counts.undecoded if code >= LINK_TYPE else counts.other
        word = _word(int(code))
        kinds[word] = kinds.get(word, 0) + int(packets)


def _word(code: int) -> str:
    value = code % _STEP
    match code - value:
        case family if family == ETHERTYPE:
            return _ETHERTYPES.get(value, f"ethertype 0x{value:04x}")
        case family if family == PROTOCOL:
            return _PROTOCOLS.get(value, f"ip protocol {value}")
        case family if family == OTHER:
            return _OTHERS[value]
        case family if family == LINK_TYPE:
            return f"link type {value}"
    return _REASONS[value]
