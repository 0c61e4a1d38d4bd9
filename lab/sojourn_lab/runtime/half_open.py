"""Connections that are begun and never completed: they fill a SYN queue (RFC 4987).

SYNs from unused addresses, a bounded number of them, and nowhere but inside a network namespace that the
run made for itself: what is sent there cannot leave it.
"""

from __future__ import annotations

import ipaddress
import random
import socket
import struct

from sojourn.model.extras import install_command

from sojourn_lab.errors import LabError
from sojourn_lab.runtime.namespace import UNANSWERED, own_namespace
from sojourn_lab.scenario.case import MOST_HALF_OPEN

_RTM_NEWROUTE, _REQUEST_ACK_CREATE = 24, 0x1 | 0x4 | 0x400
_TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST = 254, 4, 253, 1
_RTA_DST, _RTA_OIF = 1, 4


class HalfOpen:
    """Begins connections inside one network namespace, the one it is made in; `outside` is the number of the machine's.

    Each has an address and port of its own. LabError for more than `MOST_HALF_OPEN`, or outside it.
    """

    def __init__(self, outside: int) -> None:
        self._outside = outside
        self._namespace = own_namespace()
        self._refuse_outside()
        _route_to_nowhere(UNANSWERED)
        self._sources = [str(each) for each in ipaddress.ip_network(UNANSWERED).hosts()]
        self.sent = 0

    def begin(self, host: str, port: int, count: int) -> None:
        """Send `count` SYNs to a port; the SYN-ACKs are never answered."""
        self._refuse_outside()
        load_scapy()
        from scapy.layers.inet import IP, TCP  # noqa: PLC0415 - for the few that need it

        if self.sent + count > MOST_HALF_OPEN:
            raise LabError(f"{self.sent + count} half-open connections exceed the limit of {MOST_HALF_OPEN}")
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            for number in range(self.sent, self.sent + count):
                source = self._sources[number % len(self._sources)]
                syn = TCP(
                    sport=20_000 + number,
                    dport=port,
                    flags="S",
                    seq=random.getrandbits(32),
                    options=[("MSS", 1460)],
                )
                raw.sendto(bytes(IP(src=source, dst=host) / syn), (host, port))
        self.sent += count

    def _refuse_outside(self) -> None:
        if own_namespace() == self._outside or own_namespace() != self._namespace:
            raise LabError("half-open connections are made inside a network namespace of the run's own, never outside")


def load_scapy() -> None:
    """Import scapy, which takes a third of a second, before the load begins; LabError without it."""
    try:
        import scapy.layers.inet  # noqa: F401, PLC0415
    except ImportError:
        raise LabError(f"half-open connections are made with scapy: {install_command('lab')}") from None


def _route_to_nowhere(network: str) -> None:
    """Route a network to the loopback: without a route the kernel drops SYNs from there at once.

    Packets to addresses that are not local are dropped on the loopback, and no reset comes back. LabError if the
    kernel refuses.
    """
    net = ipaddress.ip_network(network)
    attributes = struct.pack("=HH4s", 8, _RTA_DST, net.network_address.packed)
    attributes += struct.pack("=HHI", 8, _RTA_OIF, socket.if_nametoindex("lo"))
    route = struct.pack(
        "=8BI", socket.AF_INET, net.prefixlen, 0, 0, _TABLE_MAIN, _PROTOCOL_STATIC, _SCOPE_LINK, _UNICAST, 0
    )
    header = struct.pack("=IHHII", 16 + len(route) + len(attributes), _RTM_NEWROUTE, _REQUEST_ACK_CREATE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.settimeout(2.0)
        netlink.send(header + route + attributes)
        (code,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if code != 0:
        raise LabError(f"the unused addresses could not be routed: error {-code} of the kernel")
