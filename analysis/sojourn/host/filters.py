"""Build the packet filter, in the language of pcap-filter(7), and as a function of Ethernet frames.

TCP of the ports the proxy listens on, and of each backend's address and port, in both directions. Of IPv6, packets with
extension headers are not matched (the language looks at the first header only), nor later fragments of either version.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from sojourn.model.errors import CaptureError
from sojourn.model.formatting import address_and_port

_VLAN, _IPV4, _IPV6, _TCP = {b"\x81\x00", b"\x88\xa8"}, b"\x08\x00", b"\x86\xdd", 6


class Endpoint(NamedTuple):
    """An address and a port of a listening server."""

    address: str
    port: int

    def __str__(self) -> str:
        """Return ``10.0.0.1:8000`` or ``[::1]:8000``."""
        return address_and_port(self.address, self.port)


def capture_filter(ports: Iterable[int], endpoints: Iterable[Endpoint] = (), *, vlan: bool = False) -> str:
    """Return the filter for TCP of these ports on any address, and of these endpoints.

    Args:
        ports: ports of which every packet is recorded.
        endpoints: of these only packets from or to the address. Left out where ``ports`` has the port already.
        vlan: also frames with one VLAN tag. The keyword ``vlan`` shifts every offset that follows it, so the terms are
            repeated behind it, at the end. On the interface ``any`` there is no tag to look at and no need to.

    Raises:
        CaptureError: there is nothing to record, or a port or address is invalid.
    """
    listened = sorted(set(ports))
    also = sorted({each for each in endpoints if each.port not in listened}, key=_order)
    for port in (*listened, *(each.port for each in also)):
        if not 0 < port < 65536:
            raise CaptureError(f"{port} is not a port: give 1 to 65535")
    terms = [f"port {port}" for port in listened]
    terms += [f"(host {_address(each.address)} and port {each.port})" for each in also]
    if not terms:
        raise CaptureError("nothing to record: give --port, --backend or --nginx")
    text = terms[0].strip("()") if len(terms) == 1 else f"({' or '.join(terms)})"
    plain = f"tcp and {text}"
    return f"({plain}) or (vlan and {plain})" if vlan else plain


def _order(endpoint: Endpoint) -> tuple[int, str, int]:
    return (":" in endpoint.address, endpoint.address, endpoint.port)


def _address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise CaptureError(f"{text!r} is not an address") from None
    # A zone (fe80::1%eth0) says which interface, which no packet contains.
    return str(address).partition("%")[0]


def frame_selector(ports: Collection[int], endpoints: Collection[Endpoint] = ()) -> Callable[[bytes], bool]:
    """Return whether a frame is TCP from or to one of the ports, or one of the endpoints.

    For the sniffer, without libpcap; as ``capture_filter``, without IPv6 extension headers and later fragments.
    """
    ports = frozenset(ports)
    packed = {(ipaddress.ip_address(address.partition("%")[0]).packed, port) for address, port in endpoints}

    def is_selected(frame: bytes) -> bool:
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

    return is_selected
