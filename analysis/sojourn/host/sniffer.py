"""Recording without tcpdump: scapy's sockets and its writer (``sojourn[capture]``).

Every packet passes through Python, which takes some 10 µs of a processor, several times what tcpdump does: for want of
something better.
scapy is under the GPL and is loaded only on request.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sojourn.host.filters import Endpoint, frame_selector
from sojourn.host.limits import PRIVATE, existing_refused, waited
from sojourn.host.tcpdump import BUFFER_MEGABYTES, SNAPLEN, Summary
from sojourn.model.errors import CaptureError
from sojourn.model.extras import install_command

_ETHERNET_AND_LOOPBACK = {1, 772}  # linux/if_arp.h
_ETHERNET = 1  # DLT_EN10MB
_LARGEST = 0x40000
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
_TURN_S = 0.1


class ScapyRecorder:
    """Does what `sojourn.host.recorder.Recorder` does, without a ring of files, more slowly and in this process.

    Interfaces that are neither Ethernet nor loopback are left out with ``any``; ``notes`` list them. Where the filter
    cannot be compiled (no libpcap) packets are chosen in Python, by ports and addresses.

    Raises:
        CaptureError: when entered: scapy is missing, or the kernel gives no packets.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ports: Collection[int],
        hosts: Collection[Endpoint] = (),
        filter: str,  # noqa: A002 - what it is called everywhere
        interface: str = "any",
        snaplen: int = SNAPLEN,
        packets: int | None = None,
        overwrite: bool = False,
    ) -> None:
        self.path = Path(path)
        self.summary = Summary()
        self.trouble: str | None = None
        self.notes: list[str] = []
        self._filter, self._interface = filter, interface
        self._snaplen = snaplen or _LARGEST
        self._packets = packets
        self._overwrite = overwrite
        self._is_selected: Callable[[bytes], bool] | None = None
        self._fallback = frame_selector(ports, hosts)
        self._sockets: list[Any] = []
        self._ended, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="sniffer", daemon=True)

    def __enter__(self) -> Self:
        existing_refused([self.path], self._overwrite)
        # It warns of interfaces, which is said here in its own words.
        logging.getLogger("scapy").setLevel(logging.ERROR)
        try:
            scapy = importlib.import_module("scapy.arch.linux")
            self._utils: Any = importlib.import_module("scapy.utils")
        except ImportError:
            raise CaptureError(
                f"neither tcpdump nor scapy is installed: apt-get install tcpdump, or {install_command('capture')}"
            ) from None
        try:
            self._open(scapy)
            if not self._sockets:
                raise OSError("no interface is up")
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666 & ~PRIVATE))
            self._writer = self._utils.RawPcapWriter(
                str(self.path), linktype=_ETHERNET, nano=True, snaplen=self._snaplen, bufsz=1 << 16
            )
            self._writer.write_header(None)
        except OSError as error:
            self._close()
            raise CaptureError(f"scapy cannot record: {error.strerror or error}") from None
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> Summary:
        """End the recording once the packets the kernel holds are written. May be called again."""
        self._stop.set()
        self._thread.join()
        return self.summary

    stop_now = stop

    def wait(self, seconds: float | None = None, *, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Wait as `sojourn.host.recorder.Recorder.wait` does."""
        full = waited(self._ended, self.path.parent, seconds, interrupted)
        self.trouble = self.trouble or full
        return self._ended.is_set()

    def files(self) -> list[Path]:
        """Return the file, once it exists."""
        return [self.path] if self.path.exists() else []

    def _open(self, scapy: Any) -> None:
        listening = _listening_socket(scapy)
        for name in self._names():
            try:
                opened = self._opened(listening, name)
            except OSError as error:
                if self._interface == "any" and error.errno == errno.ENETDOWN:
                    continue
                raise
            self._sockets.append(opened)
            if opened.ins.getsockname()[3] not in _ETHERNET_AND_LOOPBACK:
                if self._interface != "any":
                    raise CaptureError(f"{name} is neither Ethernet nor loopback: record it with tcpdump")
                self._sockets.pop().close()
                self.notes.append(f"Interface {name} is neither Ethernet nor loopback and is left out.")
        if self._is_selected:
            self.notes.append("No libpcap: packets are chosen in Python, which is slower still.")

    def _opened(self, listening: Any, name: str) -> Any:
        try:
            opened = listening(iface=name, promisc=False, filter=self._filter)
        except OSError:
            raise
        except Exception:  # scapy's own, for a filter that it cannot compile
            opened = listening(iface=name, promisc=False, nofilter=1)
            self._is_selected = self._fallback
        try:
            opened.ins.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_MEGABYTES << 20)
        except OSError:  # takes CAP_NET_ADMIN; without it as much as net.core.rmem_max allows
            opened.ins.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_MEGABYTES << 20)
        _dropped(opened)  # before the filter was there the small buffer took everything: what it lost is no loss
        return opened

    def _names(self) -> list[str]:
        return [name for _, name in socket.if_nameindex()] if self._interface == "any" else [self._interface]

    def _run(self) -> None:
        try:
            stopping = False
            # One more turn after the request to end takes the rest.
            while not stopping and self.summary.captured != self._packets:
                stopping = self._stop.is_set()
                for each in select.select(self._sockets, [], [], 0 if stopping else _TURN_S)[0]:
                    self._take(each)
            self._count_drops()
            self._writer.close()
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}; what was recorded before is kept"
            with contextlib.suppress(OSError):
                self._writer.f.close()
        finally:
            self._close()
            self._ended.set()

    def _take(self, each: Any) -> None:
        """Take all packets that a socket holds, for a bounded time."""
        captured = self.summary.captured
        until = time.monotonic() + 1.0
        while time.monotonic() < until and captured != self._packets and select.select([each], [], [], 0)[0]:
            _, frame, at = each.recv_raw(_LARGEST)
            if frame and (self._is_selected is None or self._is_selected(frame)):
                seconds, fraction = divmod(at or time.time(), 1)
                packet = frame[: self._snaplen]
                # scapy's time is a float, which resolves present-day instants to a quarter of a microsecond.
                self._writer._write_packet(packet, None, int(seconds), int(fraction * 1e9), len(packet), len(frame))
                captured += 1
        self.summary = Summary(captured, captured)

    def _count_drops(self) -> None:
        dropped = sum(map(_dropped, self._sockets))
        self.summary = Summary(self.summary.captured, self.summary.captured + dropped, dropped)

    def _close(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets = []


def _dropped(opened: Any) -> int:
    """Return the packets that a socket dropped since the last call; 0 where the kernel does not count them."""
    with contextlib.suppress(OSError):
        return int(struct.unpack("II", opened.ins.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1])
    return 0


def _listening_socket(scapy: Any) -> Any:
    class OnceOnLoopback(scapy.L2ListenSocket):  # type: ignore[misc] # scapy is typed only in part
        """On loopback a packet passes twice, on its way out and in; once is enough."""

        def recv_raw(self, x: int = _LARGEST) -> tuple[Any, bytes | None, float | None]:
            frame, address, at = self._recv_raw(self.ins, x)
            if address[0] == "lo" and address[2] == socket.PACKET_OUTGOING:
                return None, None, None
            return self.LL, frame, at

    return OnceOnLoopback
