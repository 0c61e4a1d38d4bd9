"""Run tcpdump: its command line, and the counts it prints at the end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SNAPLEN = 1024
"""Bytes kept of a packet: the headers below (at most 120), the request line and the header lines with the ids."""

BUFFER_MEGABYTES = 16
"""Of the kernel, for packets that tcpdump has not taken yet."""


@dataclass(frozen=True)
class Ring:
    """A set of files, of which the oldest is overwritten: a number of files, each of a size in million bytes."""

    files: int
    megabytes: int

    def names(self, path: Path) -> list[Path]:
        """Return the names tcpdump gives them: a number behind ``path``, of as many digits for each."""
        digits = len(str(self.files - 1))
        return [path.with_name(f"{path.name}{number:0{digits}}") for number in range(self.files)]


@dataclass(frozen=True)
class Recording:
    """What is to be recorded, and where to.

    Attributes:
        path: the file, or what the names of the ring's files begin with.
        filter: an expression of libpcap.
        interface: ``any`` for all of them.
        snaplen: bytes kept of each packet; 0: all of them.
        packets: end after this many.
        ring: the files to record into; None: one file.
        user: the user that tcpdump switches to once its socket is open (needs root); None: no switch.
        immediate: each packet is handed over at once, not some of them together after at most a second. It costs a
            turn of the processor per packet.
    """

    path: Path
    filter: str
    interface: str = "any"
    snaplen: int = SNAPLEN
    packets: int | None = None
    ring: Ring | None = None
    user: str | None = None
    immediate: bool = False

    def command(self) -> list[str]:
        """Return the command line, which works on a machine without Sojourn, too."""
        # -p: what is not addressed to this host is of no use here. -n: no names are looked up. -U: a reader of the file
        # sees whole packets while it grows.
        command = ["tcpdump", "-p", "-n", "-U", "-i", self.interface, "-s", str(self.snaplen)]
        command += ["--time-stamp-precision=nano", "-B", str(BUFFER_MEGABYTES * 1024)]
        command += ["--immediate-mode"] if self.immediate else []
        command += ["-c", str(self.packets)] if self.packets is not None else []
        command += ["-C", str(self.ring.megabytes), "-W", str(self.ring.files)] if self.ring else []
        command += ["-Z", self.user] if self.user is not None else []
        # A name that begins with a dash would be taken for an option.
        path = str(self.path) if not str(self.path).startswith("-") else f"./{self.path}"
        return [*command, "-w", path, self.filter]

    def files(self) -> list[Path]:
        """Return the files that will be written, in their order within the ring."""
        return self.ring.names(self.path) if self.ring else [self.path]


def shell_line(command: Sequence[str], seconds: float | None = None) -> str:
    """Return the command as text for a shell, ended after ``seconds``."""
    line = shlex.join(command)
    return line if seconds is None else f"timeout --signal=INT {seconds:g} {line}"


@dataclass(frozen=True)
class Summary:
    """The counts that tcpdump prints.

    Attributes:
        captured: packets in the file or files.
        received: packets that passed the filter. On the loopback interface each is counted twice, out and in, and
            recorded once.
        dropped: packets for which there was no room in the kernel's buffer: they are missing in the file.
        interface_dropped: those the network card or its driver had no room for, where they tell.
    """

    captured: int = 0
    received: int = 0
    dropped: int = 0
    interface_dropped: int = 0


_COUNTS = re.compile(r"(\d+) packets? (captured|received by filter|dropped by kernel|dropped by interface)")
_NAMES = {
    "captured": "captured",
    "received by filter": "received",
    "dropped by kernel": "dropped",
    "dropped by interface": "interface_dropped",
}


def counts_in(line: str) -> dict[str, int]:
    """Return the counts in a line of tcpdump, by their names in `Summary`; none for any other line."""
    return {_NAMES[name]: int(count) for count, name in _COUNTS.findall(line)}
