"""The ports and Unix sockets that an nginx configuration listens on, and the addresses of its backends."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sojourn.host.filters import Endpoint
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable
from sojourn.nginx.syntax import Directive, configuration

_PASSES = ("proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass")
_HOST = re.compile(r"(\[[^\]]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_RANGE = re.compile(r"(.*?)([0-9]{1,5})-([0-9]{1,5})")
_NUMBER = re.compile(r"[0-9]+")
_BACKLOG = re.compile(r"backlog=([0-9]{1,10})")
_MOST_PORTS = 200

T = TypeVar("T")
Resolve = Callable[[str], list[str]]


@dataclass(frozen=True)
class Listen:
    """A ``listen``. ``address``: as written, ``*`` for all. ``backlog``: the requested one, if any."""

    address: str
    port: int
    tls: bool = False
    backlog: int | None = None


@dataclass(frozen=True)
class UnixListen:
    """A ``listen unix:PATH``. ``backlog``: the requested one, if any."""

    path: str
    backlog: int | None = None


@dataclass
class Proxied:
    """Sockets of a proxy, its backends, and parts of the configuration that no packet filter can express.

    ``unix_backends``: paths of the Unix sockets of backends.
    """

    listens: list[Listen] = field(default_factory=list)
    backends: list[Endpoint] = field(default_factory=list)
    unix_listens: list[UnixListen] = field(default_factory=list)
    unix_backends: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ports(self) -> list[int]:
        """The listening ports, each once, in order."""
        return sorted({each.port for each in self.listens})

    def to_dict(self) -> dict[str, object]:
        """Return the object of ``capture --json``."""
        return {
            "listens": [vars(each) for each in self.listens],
            "backends": [str(each) for each in self.backends],
        }


def proxied_by(path: Path, resolve: Resolve | None = None) -> Proxied:
    """Return the ports and backends of a configuration.

    Raises:
        CaptureError: it cannot be read, or has neither a server nor a backend, not even at a Unix socket.
    """
    root, notes = configuration(path)
    proxied = proxied_of(root, resolve or addresses)
    proxied.notes[:0] = notes
    if not any((proxied.listens, proxied.backends, proxied.unix_listens, proxied.unix_backends)):
        raise without_ports(path, proxied)
    return proxied


def without_ports(path: Path, proxied: Proxied) -> CaptureError:
    """Return the error of a configuration without a port."""
    return CaptureError(" ".join([f"{path}: neither a listen port nor a backend.", *proxied.notes]))


def proxied_of(root: Directive, resolve: Resolve) -> Proxied:
    """Return the ports and backends of directives; ``resolve`` returns the addresses of a name."""
    reading = _Reading(Proxied(), resolve)
    upstreams = list(root.all("upstream"))
    upstream_names = {each.args[0] for each in upstreams if each.args}
    for server in root.all("server"):
        if not server.args:  # those of an upstream have an address
            reading.server(server)
    for upstream in upstreams:
        for server in upstream.all("server"):
            reading.backend(server.args[0] if server.args else "", 80, server)
    for each in root.all(*_PASSES):
        if each.args:
            reading.passed(each, upstream_names)
    reading.proxied.notes = list(dict.fromkeys(reading.proxied.notes))
    return reading.proxied


def addresses(name: str) -> list[str]:
    """Return the addresses of a host name, or the address itself; none for an unknown name."""
    try:
        results = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(each[4][0]) for each in results))


def endpoints(text: str, resolve: Resolve = addresses) -> list[Endpoint]:
    """Return the endpoints of ``HOST:PORT`` or ``[::1]:8000``, one for each address of the host.

    Raises:
        CaptureError: it is not of that form, or the host is unknown.
    """
    match = _HOST.fullmatch(text)
    if match is None or not match[1] or match[2] is None or not 0 < int(match[2]) < 65536:
        raise CaptureError(f"{text!r} is not HOST:PORT")
    host = match[1].strip("[]")
    resolved = resolve(host)
    if not resolved:
        raise CaptureError(f"{host}: no address is known for this name")
    return [Endpoint(address, int(match[2])) for address in resolved]


class _Reading:
    def __init__(self, proxied: Proxied, resolve: Resolve) -> None:
        self.proxied = proxied
        self._resolve = resolve

    def server(self, server: Directive) -> None:
        """Add a server's ports; one without ``listen`` has port 80."""
        lines = [each for each in server.block if each.name == "listen" and each.args]
        if not lines:
            self._listen(Listen("*", 80))
        for line in lines:
            self._listens(line)

    def _listens(self, line: Directive) -> None:
        text, options = line.args[0], line.args[1:]
        backlog = next((match[1] for option in options if (match := _BACKLOG.fullmatch(option))), None)
        if text.startswith("unix:"):
            self._add(self.proxied.unix_listens, UnixListen(text[5:], int(backlog) if backlog else None))
            return self._note(f"listen {text}: a socket of this machine has no packets")
        if "quic" in options or "udp" in options:
            return self._note(f"listen {text} {'quic' if 'quic' in options else 'udp'}: not TCP, not recorded")
        tls = "ssl" in options
        if "$" in text:
            return self._note(f"listen {text}: not understood; give its port with --port")
        if _NUMBER.fullmatch(text):
            address, first = "*", int(text[:6])  # six digits are no port, however many follow
            last = first
        elif (ports := _RANGE.fullmatch(text)) and (not ports[1] or ports[1].endswith(":")):
            address, first, last = ports[1].rstrip(":") or "*", int(ports[2]), int(ports[3])
        elif match := _HOST.fullmatch(text):
            address, first = match[1] or "*", int(match[2] or 80)
            last = first
        else:
            return self._note(f"listen {text}: not understood; give its port with --port")
        if not 0 < first <= last < 65536 or last - first >= _MOST_PORTS:
            return self._note(f"listen {text}: not recorded; give the ports wanted with --port")
        for port in range(first, last + 1):
            self._listen(Listen(address, port, tls, int(backlog) if backlog else None))
        return None

    def _listen(self, listen: Listen) -> None:
        if listen.tls:
            self._note(f"port {listen.port} is TLS: the TCP handshake and the timing are visible, requests are not")
        self._add(self.proxied.listens, listen)

    def passed(self, directive: Directive, upstreams: set[str]) -> None:
        """Add the target of a ``proxy_pass`` or similar directive, unless it is an upstream."""
        target = directive.args[0]
        scheme, _, rest = target.rpartition("://")
        rest = rest if rest.startswith("unix:") else rest.partition("/")[0]
        if rest in upstreams:
            pass
        elif "$" in rest:
            self._note(f"{directive.name} {target} ({directive.where}): known at run time only; give it with --backend")
        else:
            self.backend(rest, 443 if scheme in ("https", "grpcs") else 80, directive)
        if scheme in ("https", "grpcs"):
            self._note(f"{directive.name} {target}: TLS to the backend: timing only, no request")
        elif directive.name != "proxy_pass":
            self._note(f"{directive.name} {target}: not HTTP/1: connections are visible, requests are not")

    def backend(self, text: str, port: int, directive: Directive) -> None:
        """Add one server behind the proxy."""
        match = _HOST.fullmatch(text)
        if text.startswith("unix:"):
            self._add(self.proxied.unix_backends, text[5:].partition(":")[0])
            self._note(f"{directive.name} {text}: a socket of this machine has no packets")
        elif match is None or not match[1] or not 0 < int(match[2] or port) < 65536:
            self._note(f"{directive.name} {text} ({directive.where}): not understood; give it with --backend")
        else:
            resolved = self._resolve(match[1].strip("[]"))
            if not resolved:
                self._note(f"{match[1]} ({directive.where}): no address is known for this name; give it with --backend")
            endpoints = [Endpoint(address, int(match[2] or port)) for address in resolved]
            self.proxied.backends.extend(each for each in endpoints if each not in self.proxied.backends)

    @staticmethod
    def _add(entries: list[T], entry: T) -> None:
        if entry not in entries:
            entries.append(entry)

    def _note(self, text: str) -> None:
        self.proxied.notes.append(f"{printable(text, 300)}.")
