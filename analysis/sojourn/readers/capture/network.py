"""Network layers: IPv4 with its options, IPv6 with its extension headers, up to the TCP header.

Sources: RFC 791 (IPv4), RFC 8200 (IPv6), RFC 4302 (the authentication header).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sojourn.model.arrays import Bools, Codes
from sojourn.readers.capture.packets import Packets, Verdicts, joined
from sojourn.readers.capture.verdicts import (
    BAD_IP_HEADER,
    BAD_IP_LENGTH,
    BAD_IP_VERSION,
    EXTENSIONS_TOO_MANY,
    IP_CUT,
    IPV4_FRAGMENT,
    IPV6_FRAGMENT,
)

IPV4_HEADER = np.dtype(
    [
        ("version", "u1"), ("service", "u1"), ("length", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"),
        ("protocol", "u1"), ("checksum", ">u2"), ("source", ">u4"), ("target", ">u4"),
    ]
)  # fmt: skip
IPV6_HEADER = np.dtype(
    [
        ("version", "u1"), ("flow", "V3"), ("length", ">u2"), ("next", "u1"), ("hops", "u1"),
        ("source", ">u8", 2), ("target", ">u8", 2),
    ]
)  # fmt: skip
_EXTENSION = np.dtype([("next", "u1"), ("length", "u1"), ("fragment", ">u2")])

_TCP, _FRAGMENT, _AUTHENTICATION = 6, 44, 51
# Hop-by-hop, routing, destination options, mobility, host identity, shim: length in units of 8 bytes after the first 8.
_OPTIONS = (0, 43, 60, 135, 139, 140)
_CARRIERS = (4, 41, 47, 97, 137)  # of whole packets, which are not in a first fragment
_EXTENSIONS = (*_OPTIONS, _FRAGMENT, _AUTHENTICATION)
_MOST_EXTENSIONS = 16

_MORE_FRAGMENTS, _OFFSET = 0x2000, 0x1FFF
_LEAST_TCP = 20
_LONGEST = 1 << 20  # of packets joined by segmentation offload; a larger length on the wire is an error


def tcp_over_ipv4(packets: Packets, verdicts: Verdicts) -> tuple[Packets, Packets]:
    """Return the TCP packets over IPv4, and the others; ``at``: behind the IP header, ``sent``: end of the datagram.

    Of a fragmented datagram only the first fragment is used, if it has the TCP header.
    """
    whole = verdicts.without(packets, packets.at + IPV4_HEADER.itemsize > packets.captured, IP_CUT)
    header = whole.headers(IPV4_HEADER)
    version = header["version"]
    size = (version & 0x0F).astype(np.int64) * 4
    length = header["length"].astype(np.int64)
    # Segmentation offload leaves a length of 0 in the header: the packet has the length on the wire.
    end = np.where(length == 0, whole.sent, whole.at + length)
    fragment = header["fragment"]
    later = (fragment & _OFFSET) != 0
    first = (fragment & _MORE_FRAGMENTS) != 0
    headless = first & ((end < whole.at + size + _LEAST_TCP) | np.isin(header["protocol"], _CARRIERS))
    reasons = [
        (version >> 4 != 4, BAD_IP_VERSION),
        (size < IPV4_HEADER.itemsize, BAD_IP_HEADER),
        ((end < whole.at + size) | (end > whole.sent) | (end > whole.at + _LONGEST), BAD_IP_LENGTH),
        (whole.at + size > whole.captured, IP_CUT),
        (later | headless, IPV4_FRAGMENT),
    ]
    kind = header["protocol"].astype(np.int64)
    after = replace(whole, at=whole.at + size, sent=end, kind=kind, network=whole.at)
    failed = _first_reason(reasons)
    whole = verdicts.without(after, failed != 0, failed)
    return _tcp_and_others(_past_extensions(whole, (_AUTHENTICATION,), verdicts))


def tcp_over_ipv6(packets: Packets, verdicts: Verdicts) -> tuple[Packets, Packets]:
    """Return the same as ``tcp_over_ipv4``, over IPv6."""
    whole = verdicts.without(packets, packets.at + IPV6_HEADER.itemsize > packets.captured, IP_CUT)
    header = whole.headers(IPV6_HEADER)
    length = header["length"].astype(np.int64)
    # 0 is a jumbogram, or segmentation offload again.
    end = np.where(length == 0, whole.sent, whole.at + IPV6_HEADER.itemsize + length)
    wrong = (end > whole.sent) | (end > whole.at + _LONGEST)
    failed = _first_reason([(header["version"] >> 4 != 6, BAD_IP_VERSION), (wrong, BAD_IP_LENGTH)])
    kind = header["next"].astype(np.int64)
    after = replace(whole, at=whole.at + IPV6_HEADER.itemsize, sent=end, kind=kind, network=whole.at)
    whole = verdicts.without(after, failed != 0, failed)
    return _tcp_and_others(_past_extensions(whole, _EXTENSIONS, verdicts))


def _first_reason(reasons: list[tuple[Bools, int]]) -> Codes:
    """Return the code of the first condition that holds, per packet; 0 if none holds."""
    conditions, codes = zip(*reasons, strict=True)
    if not np.logical_or.reduce(conditions).any():
        return np.zeros(len(conditions[0]), np.int32)
    return np.select(conditions, codes, 0).astype(np.int32)


def _past_extensions(packets: Packets, extensions: tuple[int, ...], verdicts: Verdicts) -> Packets:
    """Return the same packets with ``at`` behind these extension headers, if they have any."""
    done: list[Packets] = []
    for _ in range(_MOST_EXTENSIONS):
        extended = np.isin(packets.kind, extensions) & (packets.kind != _TCP)
        if not extended.any():
            break
        done.append(packets.where(~extended))
        packets = _past_one(packets.where(extended), verdicts)
    else:
        packets = verdicts.without(packets, np.isin(packets.kind, extensions), EXTENSIONS_TOO_MANY)
    return joined([*done, packets])


def _past_one(packets: Packets, verdicts: Verdicts) -> Packets:
    whole = verdicts.without(packets, packets.at + 8 > packets.sent, BAD_IP_LENGTH)
    whole = verdicts.without(whole, whole.at + 8 > whole.captured, IP_CUT)
    header = whole.headers(_EXTENSION)
    units = header["length"].astype(np.int64)
    size = np.select([whole.kind == _FRAGMENT, whole.kind == _AUTHENTICATION], [8, (units + 2) * 4], (units + 1) * 8)
    later = (whole.kind == _FRAGMENT) & (header["fragment"] >> 3 != 0)
    failed = _first_reason(
        [
            (later, IPV6_FRAGMENT),
            (whole.at + size > whole.sent, BAD_IP_LENGTH),
            (whole.at + size > whole.captured, IP_CUT),
        ]
    )
    return verdicts.without(whole.moved(size, header["next"].astype(np.int64)), failed != 0, failed)


def _tcp_and_others(packets: Packets) -> tuple[Packets, Packets]:
    others = packets.kind != _TCP
    if not others.any():
        return packets, packets.where(others)
    return packets.where(~others), packets.where(others)
