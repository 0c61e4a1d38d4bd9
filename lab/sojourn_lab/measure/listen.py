"""How many connections wait in a listening socket's accept queue, a few times a second.

The queue may hold limit + 1 connections. The query of the kernel: sojourn.host.sock_diag.
"""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from typing import NamedTuple

from sojourn.host.lines_file import LinesFile
from sojourn.host.sock_diag import listening_sockets
from sojourn.model.errors import KernelUnavailableError

from sojourn_lab.errors import LabError
from sojourn_lab.measure.sampling import SamplerThread

PERIOD = 0.25
"""Seconds between samples. A dump of a few listening sockets takes well under a millisecond."""


class Depth(NamedTuple):
    """Connections waiting in an accept queue, and the limit of its backlog."""

    depth: int
    limit: int


class ListenQueueError(LabError):
    """The kernel does not provide the figure: not Linux, or netlink is not permitted."""


def listen_depths() -> dict[int, Depth]:
    """Return the accept queue of every listening TCP socket over IPv4 in this network namespace, by port.

    Raises ListenQueueError with the reason if the kernel cannot be queried.
    """
    try:
        sockets = listening_sockets((socket.AF_INET,))
    except KernelUnavailableError as error:
        raise ListenQueueError(f"unavailable: {error}") from None
    depths: dict[int, Depth] = {}
    for each in sockets:
        # Several sockets may share a port (other addresses, SO_REUSEPORT): keep the fullest.
        depths[each.port] = max(depths.get(each.port, Depth(-1, 0)), Depth(each.depth, each.limit))
    return depths


class ListenSampler(SamplerThread):
    """A thread that writes the depth of some ports to a file of JSON lines, every `period` seconds.

    A line is `{"time": unix s, "socket": name, "port": n, "depth": n, "limit": n}`; where the kernel
    cannot be queried the file holds one line `{"unavailable": reason}`. With `keep` the content of the
    file is kept; beyond `max_bytes` the file becomes `<name>.1`, in place of an older one, and a new one begins.
    """

    def __init__(
        self,
        path: Path,
        ports: dict[str, int],
        period: float = PERIOD,
        *,
        keep: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__("listen-sampler")
        self._path = path
        self._ports = ports
        self._period = period
        self._keep = keep
        self._max_bytes = max_bytes
        self.unavailable: str | None = None
        """Why there are no samples, or no more of them."""
        self.failed: str | None = None
        """Why there are no more of them, where the file is to blame."""
        self.last_seen = time.monotonic()
        """When one of the ports was there the last time, in monotonic seconds; the start, before that."""

    def _run(self) -> None:
        try:
            self._sample()
        except OSError as error:
            self.unavailable = self.failed = f"{self._path.name}: {error.strerror}"

    def _sample(self) -> None:
        out = LinesFile(self._path, keep=self._keep, max_bytes=self._max_bytes)
        try:
            due = time.monotonic()
            while True:
                try:
                    depths = listen_depths()
                except ListenQueueError as error:
                    self.unavailable = str(error)
                    out.write({"unavailable": str(error)})
                    return
                now = round(time.time(), 6)
                if not depths.keys().isdisjoint(self._ports.values()):
                    self.last_seen = time.monotonic()
                for name, port in self._ports.items():
                    if port in depths:
                        out.write({"time": now, "socket": name, "port": port, **depths[port]._asdict()})
                out.rotated()
                due = max(due + self._period, time.monotonic())
                if self._end.wait(due - time.monotonic()):
                    return
        finally:
            with contextlib.suppress(OSError):  # what could not be written was said
                out.close()
