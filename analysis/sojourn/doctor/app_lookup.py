"""Find the server behind a backend's address: the process on this machine, or the headers of its response."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from sojourn.doctor.app_servers import AppServer, server_of_headers, server_of_processes

PATIENCE_S = 2.0  # for each backend to connect, and to answer
MOST_REQUESTS = 20  # backends that get one
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):([0-9]{1,5})")
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_HIGHEST_PORT = 65535
_PROC = Path("/proc")
_TCP_LISTEN, _UNIX_LISTEN = "0A", "00010000"
_SOCKET = re.compile(r"socket:\[([0-9]+)\]")


def local_port(address: str) -> int | None:
    """Return the port of an address on this machine; None for any other address."""
    match = _LOCAL.fullmatch(address)
    return int(match[1]) if match else None


def unix_path(address: str) -> str | None:
    """Return the path of a unix socket's address, with or without ``unix:``; None for any other address."""
    path = address.removeprefix("unix:").partition(":")[0]
    return path if path.startswith("/") else None


def plain_address(address: str, default_port: int = 80) -> str:
    """Return an address of a configuration as nginx logs it."""
    if (path := unix_path(address)) is not None:
        return f"unix:{path}"
    address = re.sub(r"^localhost(?=:|$)", "127.0.0.1", address)
    return address if re.search(r":[0-9]+$", address) else f"{address}:{default_port}"


def servers_at(addresses: Iterable[str], *, on_this_machine: bool, ask: bool) -> dict[str, AppServer]:
    """Return the known servers at some addresses.

    Args:
        addresses: as nginx logs them.
        on_this_machine: the addresses are of this machine's own nginx: look at its processes.
        ask: send ``HEAD /`` to each, up to ``MOST_REQUESTS``.
    """
    distinct = list(dict.fromkeys(addresses))
    servers = listening_servers(distinct) if on_this_machine else {}
    for address in distinct[:MOST_REQUESTS] if ask else ():
        process, answer = servers.get(address, AppServer()), answering_server(address)
        best = process if process.name or not answer.name else answer
        servers[address] = replace(best, language=answer.language or process.language)
    return {address: server for address, server in servers.items() if server != AppServer()}


def listening_servers(addresses: Iterable[str]) -> dict[str, AppServer]:
    """Return the servers of processes that listen at addresses of this machine; an address without one is left out."""
    processes = listening_processes(addresses)
    return {address: server_of_processes([*map(command_of, several)]) for address, several in processes.items()}


def listening_processes(addresses: Iterable[str]) -> dict[str, list[Path]]:
    """Return the processes (their folders in /proc) that listen at addresses of this machine.

    Of another user's processes only root sees which sockets they hold.
    """
    # Several addresses may share a socket: 127.0.0.1:80 and [::1]:80.
    by_inode: dict[str, list[str]] = {}
    for address in dict.fromkeys(addresses):
        for inode in set(_listening_inodes(address)):
            by_inode.setdefault(inode, []).append(address)
    processes: dict[str, list[Path]] = {}
    for process in _PROC.glob("[0-9]*") if by_inode else ():
        for address in {address for inode in _socket_inodes(process) for address in by_inode.get(inode, ())}:
            processes.setdefault(address, []).append(process)
    return processes


def _listening_inodes(address: str) -> Iterator[str]:
    if (port := local_port(address)) is not None:
        for cells in (line.split() for name in ("tcp", "tcp6") for line in _lines(_PROC / "net" / name)):
            if len(cells) > 9 and cells[3] == _TCP_LISTEN and cells[1].endswith(f":{port:04X}"):
                yield cells[9]
    elif (path := unix_path(address)) is not None:
        for cells in (line.split(maxsplit=7) for line in _lines(_PROC / "net" / "unix")):
            if len(cells) > 7 and cells[3] == _UNIX_LISTEN and os.path.realpath(cells[7]) == os.path.realpath(path):
                yield cells[6]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []


def _socket_inodes(process: Path) -> set[str]:
    """Return the inodes of a process's sockets; empty if it has ended, or is hidden because of its user."""
    inodes = set()
    with suppress(OSError), os.scandir(process / "fd") as entries:
        for entry in entries:
            with suppress(OSError):  # closed meanwhile
                if match := _SOCKET.fullmatch(os.readlink(entry.path)):
                    inodes.add(match[1])
    return inodes


def words_of(process: Path) -> list[str]:
    """Return the words of the command of a process (its folder in /proc); none of one that has ended or is hidden."""
    try:
        text = (process / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0")


def command_of(process: Path) -> str:
    """Return the command of a process (its folder in /proc) as one text; empty if it has ended or is hidden."""
    return " ".join(words_of(process)).strip()


def answering_server(address: str) -> AppServer:
    """Return the server that answers ``HEAD /`` at an address, by its headers; an unknown one without an answer."""
    try:
        connection = _connection_to(address)
        if connection is None:
            return AppServer()
        try:
            connection.connect()
            connection.request("HEAD", "/", headers={"Host": "localhost", "Connection": "close"})
            headers = connection.getresponse().getheaders()
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return AppServer()
    return server_of_headers({name.lower(): value for name, value in headers})


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self._path)


def _connection_to(address: str) -> HTTPConnection | None:
    if (path := unix_path(address)) is not None:
        return _UnixConnection(path)
    match = _HOST_AND_PORT.fullmatch(address)
    if match is None or not 0 < int(match[2]) <= _HIGHEST_PORT:
        return None
    return HTTPConnection(match[1].strip("[]"), int(match[2]), timeout=PATIENCE_S)
