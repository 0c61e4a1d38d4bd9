"""Which server listens at a backend's address: the process on this machine, or what it answers to a request."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from sojourn.doctor.app_servers import AppServer, server_of_headers, server_of_processes

PATIENCE_S = 2.0  # for each backend to connect, and to answer
MOST_ASKED = 20
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):([0-9]{1,5})")
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})")
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


def plain_address(address: str) -> str:
    """Return an address as nginx logs it, whichever way a configuration writes it."""
    if (path := unix_path(address)) is not None:
        return f"unix:{path}"
    if address.startswith("localhost"):
        address = address.replace("localhost", "127.0.0.1", 1)
    return address if re.search(r":[0-9]+$", address) else f"{address}:80"


def servers_at(addresses: Iterable[str], *, here: bool, ask: bool) -> dict[str, AppServer]:
    """Return the servers at some addresses, as far as they are known.

    Args:
        addresses: as nginx logs them.
        here: the addresses are of this machine's own nginx: its processes are looked at.
        ask: send ``HEAD /`` to each, up to ``MOST_ASKED``.
    """
    named = list(dict.fromkeys(addresses))
    known = listening_servers(named) if here else {}
    for address in named[:MOST_ASKED] if ask else ():
        process, answer = known.get(address, AppServer()), answering_server(address)
        best = process if process.name or not answer.name else answer
        known[address] = replace(best, language=answer.language or process.language)
    return {address: server for address, server in known.items() if server != AppServer()}


def listening_servers(addresses: Iterable[str]) -> dict[str, AppServer]:
    """Return the servers of processes that listen at addresses of this machine; an address without one is left out.

    Of another user's processes only root sees which sockets they hold.
    """
    wanted = set(addresses)
    inodes = {inode: address for address in wanted for inode in _inodes(address)}
    commands: dict[str, list[str]] = {}
    for process in _PROC.glob("[0-9]*") if inodes else ():
        for address in {inodes[each] for each in _held(process) if each in inodes}:
            commands.setdefault(address, []).append(_command(process))
    return {address: server_of_processes(each) for address, each in commands.items()}


def _inodes(address: str) -> Iterable[str]:
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


def _held(process: Path) -> set[str]:
    """The inodes of a process's sockets; none where another user's process does not show them, or it has ended."""
    found = set()
    try:
        for entry in os.scandir(process / "fd"):
            if match := _SOCKET.fullmatch(os.readlink(entry.path)):
                found.add(match[1])
    except OSError:
        return found
    return found


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def answering_server(address: str) -> AppServer:
    """Return the server that answers ``HEAD /`` at an address, by its headers; an unknown one where none answers."""
    try:
        connection = _connected(address)
        if connection is None:
            return AppServer()
        try:
            connection.request("HEAD", "/", headers={"Host": "localhost", "Connection": "close"})
            headers = connection.getresponse().getheaders()
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return AppServer()
    return server_of_headers({name.lower(): value for name, value in headers})


def _connected(address: str) -> HTTPConnection | None:
    path, match = unix_path(address), _HOST_AND_PORT.fullmatch(address)
    if path is not None:
        connection = HTTPConnection("localhost", timeout=PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_S)
        connection.sock.connect(path)
        return connection
    return HTTPConnection(match[1].strip("[]"), int(match[2]), timeout=PATIENCE_S) if match else None
