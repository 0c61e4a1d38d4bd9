"""What a user asked to have recorded, from an nginx configuration, ports and backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.host.filters import Endpoint, capture_filter
from sojourn.host.nginx_ports import Proxied, endpoints, proxied_by

_ETHERNET = "1"  # linux/if_arp.h


@dataclass
class Wanted:
    """Ports and endpoints, and what could not be told from the configuration."""

    ports: list[int] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)
    proxied: Proxied | None = None

    @property
    def notes(self) -> list[str]:
        """Sentences on what of the configuration is not recorded, or only in part."""
        return self.proxied.notes if self.proxied else []

    @property
    def backlogs(self) -> dict[int, int]:
        """Port -> the backlog its ``listen`` asks for, where it does."""
        listens = self.proxied.listens if self.proxied else []
        return {each.port: each.backlog for each in listens if each.backlog is not None}

    def filter_for(self, interface: str) -> str:
        """The filter for packets on this interface."""
        return capture_filter(self.ports, self.endpoints, vlan=may_have_tags(interface))

    @property
    def listening(self) -> dict[str, int]:
        """Name -> port of the sockets of which the kernel is asked; those of backends elsewhere are not there."""
        ports = sorted({*self.ports, *(each.port for each in self.endpoints)})
        return {f"port {port}": port for port in ports}


def wanted(nginx: Path | None, ports: Sequence[int], backends: Sequence[str]) -> Wanted:
    """What is to be recorded.

    Raises:
        CaptureError: the configuration cannot be read, a backend is not HOST:PORT, or its host is not known.
    """
    found = Wanted(list(ports))
    for each in backends:
        found.endpoints += endpoints(each)
    if nginx is not None:
        found.proxied = proxied_by(nginx)
        found.ports += found.proxied.ports
        found.endpoints += found.proxied.backends
    return found


def may_have_tags(interface: str) -> bool:
    """Whether frames on this interface may carry VLAN tags: Ethernet.

    On ``any`` libpcap has no word for tags, and needs none: the kernel has taken them off before the filter looks.
    """
    try:
        return Path("/sys/class/net", interface, "type").read_text().strip() == _ETHERNET
    except OSError:
        return False
