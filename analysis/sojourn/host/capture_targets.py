"""The ports and endpoints to record, from an nginx configuration, ports and backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sojourn.host.filters import Endpoint, capture_filter
from sojourn.host.nginx_ports import Proxied, endpoints, proxied_by, without_ports

_ETHERNET = "1"  # linux/if_arp.h


@dataclass
class CaptureTargets:
    """Ports and endpoints to record, and the configuration that they come from."""

    ports: list[int] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)
    proxied: Proxied | None = None

    @property
    def notes(self) -> list[str]:
        """Sentences on parts of the configuration that are not recorded, or only partly."""
        return self.proxied.notes if self.proxied else []

    @property
    def backlogs(self) -> dict[int | str, int]:
        """Port, or path of a Unix socket -> the backlog that its ``listen`` requests, where it does."""
        listens = self.proxied.listens if self.proxied else []
        unix = self.proxied.unix_listens if self.proxied else []
        return {
            **{each.port: each.backlog for each in listens if each.backlog is not None},
            **{each.path: each.backlog for each in unix if each.backlog is not None},
        }

    def filter_for(self, interface: str) -> str:
        """Return the filter for packets on this interface."""
        return capture_filter(self.ports, self.endpoints, vlan=may_have_tags(interface))

    @property
    def listening(self) -> dict[str, int]:
        """Name -> port of the listening sockets to sample; backends on other machines have none here."""
        ports = sorted({*self.ports, *(each.port for each in self.endpoints)})
        return {f"port {port}": port for port in ports}

    @property
    def listening_unix(self) -> dict[str, str]:
        """Name -> path of the Unix sockets to sample: nginx's own and those of its backends."""
        if self.proxied is None:
            return {}
        return {
            path: path for path in (*(each.path for each in self.proxied.unix_listens), *self.proxied.unix_backends)
        }


def capture_targets(nginx: Path | None, ports: Sequence[int], backends: Sequence[str]) -> CaptureTargets:
    """Return what to record.

    Args:
        nginx: an nginx configuration, if any.
        ports: ports of the proxy.
        backends: ``HOST:PORT`` of backends.

    Raises:
        CaptureError: the configuration cannot be read, a backend is not HOST:PORT, or its host is unknown.
    """
    targets = CaptureTargets(list(ports))
    for each in backends:
        targets.endpoints += endpoints(each)
    if nginx is not None:
        targets.proxied = proxied_by(nginx)
        if not targets.proxied.listens and not targets.proxied.backends:
            raise without_ports(nginx, targets.proxied)  # packets are to be recorded
        targets.ports += targets.proxied.ports
        targets.endpoints += targets.proxied.backends
    return targets


def may_have_tags(interface: str) -> bool:
    """Return whether frames on this interface may carry VLAN tags: Ethernet.

    On ``any`` libpcap cannot match tags and need not: the kernel removes them before the filter runs.
    """
    try:
        return Path("/sys/class/net", interface, "type").read_text().strip() == _ETHERNET
    except OSError:
        return False
