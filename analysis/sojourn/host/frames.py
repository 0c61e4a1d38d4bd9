"""Select Ethernet frames without libpcap, for the sniffer."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection

from sojourn.host.filters import Endpoint

_VLAN, _IPV4, _IPV6, _TCP = {b"\x81\x00", b"\x88\xa8"}, b"\x08\x00", b"\x86\xdd", 6


def wanted_frame(ports: Collection[int], endpoints: Collection[Endpoint] = ()) -> Callable[[bytes], bool]:
    """Return whether a frame is TCP from or to one of the ports, or one of the endpoints.

    As the filters of `sojourn.host.filters.capture_filter`: no IPv6 extension headers, no later fragments.
    """
    ports = frozenset(ports)
    packed = {(ipaddress.ip_address(address.partition("%")[0]).packed, port) for address, port in endpoints}

    def wanted(frame: bytes) -> bool:
        at = 12
        while frame[at : at + 2] in _VLAN:
            at += 4
        kind, at = frame[at : at + 2], at + 2
        if kind == _IPV4 and len(frame) >= at + 20 and frame[at + 9] == _TCP:
            if int.from_bytes(frame[at + 6 : at + 8]) & 0x1FFF:
                return False
            source, target = frame[at + 12 : at + 16], frame[at + 16 : at + 20]
            at += (frame[at] & 15) * 4
        elif kind == _IPV6 and len(frame) >= at + 40 and frame[at + 6] == _TCP:
            source, target = frame[at + 8 : at + 24], frame[at + 24 : at + 40]
            at += 40
        else:
            return False
        if len(frame) < at + 4:
            return False
        begin, end = int.from_bytes(frame[at : at + 2]), int.from_bytes(frame[at + 2 : at + 4])
        return begin in ports or end in ports or (source, begin) in packed or (target, end) in packed

    return wanted
