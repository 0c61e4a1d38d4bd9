"""A recorder of packets: tcpdump, ready when entered, and with everything in the file when left.

What is lost elsewhere and not here: packets before tcpdump has opened its socket (entering waits for "listening on"),
and those the kernel still holds when tcpdump ends (leaving waits until they are written).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from sojourn.host.filters import Endpoint, capture_filter
from sojourn.host.limits import PRIVATE, existing_refused, no_room, waited
from sojourn.host.privileges import tcpdump_path, user_for
from sojourn.host.tcpdump import SNAPLEN, Recording, Ring, Summary, counts_in
from sojourn.model.errors import CaptureError
from sojourn.model.formatting import printable

_POLL_S = 0.05
# The kernel hands over packets block by block: a block that is full, or one that is a second old. Its timer looks once
# a second, so a packet may take two.
_BLOCK_S = 2.2
_PACKET_S = 0.3
_KILL_S = 10.0
# Ends tcpdump when the program that started it is gone: then the pipe closes with nothing said.
_GUARD = 'read -r _ || { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = tcpdump ] && kill -TERM "$1"; }'

Starter = Callable[[Sequence[str], int], "subprocess.Popen[bytes]"]


class Recorder:
    """Records packets into ``path`` while the block lasts.

    >>> with Recorder("run/capture.pcap", ports=[8080], hosts=[Endpoint("127.0.0.1", 8000)]) as recorder:
    ...     ...
    >>> recorder.summary.dropped
    0

    It runs in the network namespace of the thread that enters it, or in another by ``prefix``
    (``["nsenter", "--net=/proc/123/ns/net"]``: a command that ends in becoming the one behind it).

    Args:
        path: the file, or what the names of the ring's files begin with.
        ports: ports to record on any address.
        hosts: addresses and ports to record.
        filter: an expression of libpcap instead of ports and hosts.
        interface: ``any`` for all of them.
        snaplen: bytes kept of a packet, 0 for all.
        packets: end after this many.
        ring: record into a ring of files; None: into one file.
        overwrite: files that are there may be replaced.
        immediate: each packet is handed over at once; for short recordings of little, which then end at once, too. The
            kernel's buffer then has room for so few packets as ``snaplen`` goes into it.
        user: the user that tcpdump switches to from root. None: one that may write into the folder
            (`sojourn.host.privileges.user_for`).
        prefix: words in front of the command, which run it in another network namespace.
        start: starts the command with the file descriptor given as its stderr.
        patience: seconds that tcpdump may take to begin.

    Raises:
        CaptureError: when entered, for whatever keeps tcpdump from recording; when left, where it had to be killed.
            Leaving never hides another exception.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ports: Iterable[int] = (),
        hosts: Iterable[Endpoint] = (),
        filter: str | None = None,  # noqa: A002 - what it is called everywhere
        interface: str = "any",
        snaplen: int = SNAPLEN,
        packets: int | None = None,
        ring: Ring | None = None,
        overwrite: bool = False,
        immediate: bool = False,
        user: str | None = None,
        prefix: Sequence[str] = (),
        start: Starter | None = None,
        patience: float = 15.0,
    ) -> None:
        self.recording = Recording(
            Path(path),
            capture_filter(ports, hosts) if filter is None else filter,
            interface,
            snaplen,
            packets,
            ring,
            user_for(Path(path).parent) if user is None else user,
            immediate,
        )
        self.summary = Summary()
        self.trouble: str | None = None
        """Why the recording is not whole, when something other than the kernel's drops is to blame."""
        self._overwrite = overwrite
        self._prefix = list(prefix)
        self._start = start or _started
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._messages: list[str] = []
        self._listening = threading.Event()
        self._ended = threading.Event()

    @classmethod
    def of(cls, recording: Recording, *, overwrite: bool = False) -> Self:
        """Return the recorder of a described recording."""
        return cls(
            recording.path,
            filter=recording.filter,
            interface=recording.interface,
            snaplen=recording.snaplen,
            packets=recording.packets,
            ring=recording.ring,
            user=recording.user,
            immediate=recording.immediate,
            overwrite=overwrite,
        )

    # ---- life

    def __enter__(self) -> Self:
        existing_refused(self.recording.files(), self._overwrite)
        read, write = os.pipe()
        try:
            program, *options = self.recording.command()
            self._process = self._start([*self._prefix, tcpdump_path() or program, *options], write)
        except BaseException as error:
            os.close(read)
            if isinstance(error, OSError):
                reason = "tcpdump is not installed" if isinstance(error, FileNotFoundError) else error.strerror
                raise CaptureError(f"tcpdump cannot be started: {reason}") from None
            raise
        finally:
            os.close(write)
        threading.Thread(target=self._listen, args=(os.fdopen(read, "rb"),), daemon=True).start()
        try:
            self._guard = _guarded(self._process.pid)
            self._wait_until_it_listens()
        except BaseException:
            self._end(kill=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except CaptureError:
            if error is None:
                raise

    def stop(self) -> Summary:
        """End the recording once everything that was on the wire before is written. May be called again."""
        if self._process is not None:
            if self._process.poll() is None:
                self._wait_until_handed_over()
            self._end()
        return self.summary

    def stop_now(self) -> None:
        """End the recording without waiting for packets that the kernel still holds."""
        self._end()

    def wait(self, seconds: float | None = None, *, interrupted: Callable[[], bool] = lambda: False) -> bool:
        """Wait until tcpdump ends by itself, ``seconds`` are over, there is no room left, or ``interrupted`` is true.

        Returns whether tcpdump has ended. Why it should not have, or that there is no more room, is `trouble`.
        """
        self.trouble = waited(self._ended, self.recording.path.parent, seconds, interrupted)
        process = self._process
        if self._ended.is_set() and process is not None and process.wait(_KILL_S):
            self.trouble = f"tcpdump ended: {self._reason()}"
        return self._ended.is_set()

    def files(self) -> list[Path]:
        """Return the files written so far, those of a ring in its order."""
        return [path for path in self.recording.files() if path.exists()]

    # ---- its parts

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                text = line.decode("utf-8", "replace").strip()
                counts = counts_in(text)
                if counts:
                    # One object replaced by another: a reader sees all of the old or all of the new.
                    self.summary = Summary(**{**vars(self.summary), **counts})
                elif "listening on" in text:
                    self._listening.set()
                elif text:
                    self._messages.append(text)
        self._ended.set()
        self._listening.set()

    def _wait_until_it_listens(self) -> None:
        if not self._listening.wait(self._patience):
            raise CaptureError(f"tcpdump did not begin within {self._patience:g} s")
        if self._ended.is_set() and not (self.recording.packets and self.summary.captured):
            raise CaptureError(f"tcpdump cannot record: {self._reason()}")

    def _wait_until_handed_over(self) -> None:
        """Wait until tcpdump has taken all received packets from the kernel, at most for a block's longest life."""
        time.sleep(_POLL_S)  # what was sent a moment ago may not have been received yet
        before = self._counted()
        longest = _PACKET_S if self.recording.immediate else _BLOCK_S
        each = 2 if self.recording.interface == "lo" else 1
        deadline = time.monotonic() + longest
        now = before
        while now is not None and before is not None and time.monotonic() < deadline and not self._ended.is_set():
            if now.captured * each + now.dropped >= before.received:
                return
            time.sleep(_POLL_S)
            now = self._counted()

    def _counted(self) -> Summary | None:
        """Return what tcpdump counts at this moment; None without an answer."""
        if self._process is None:
            return None
        old = self.summary
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 1.0
        while self.summary is old and not self._ended.is_set() and time.monotonic() < deadline:
            time.sleep(0.002)
        return None if self.summary is old else self.summary

    def _end(self, *, kill: bool = False) -> None:
        process, guard = self._process, self._guard
        if process is not None:
            with contextlib.suppress(OSError):
                process.terminate()
            try:
                process.wait(1.0 if kill else _KILL_S)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    process.kill()
                    process.wait(_KILL_S)
                if not kill:
                    self.trouble = "tcpdump did not end and was killed: the last packets may be missing"
            self._ended.wait(_KILL_S)
        if guard is not None:
            with contextlib.suppress(OSError):
                guard.communicate(b"\n", _KILL_S)
            self._guard = None
        self.trouble = self.trouble or (None if kill else no_room(self.recording.path.parent))
        if self.trouble and "killed" in self.trouble:
            raise CaptureError(f"{self.recording.path}: {self.trouble}")

    def _reason(self) -> str:
        self._ended.wait(_KILL_S)
        messages = [
            text for text in self._messages if not text.startswith(("tcpdump: data link type", "dropped privs"))
        ]
        reason = re.sub(r"^tcpdump: ", "", " ".join(messages[-3:])) if messages else "without a message"
        if "Permission denied" in reason and self.recording.path.suffix != ".pcap":
            reason += " (AppArmor of Debian and Ubuntu lets it write names that end in .pcap only)"
        return printable(reason, 400)


def _started(command: Sequence[str], stderr: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={**os.environ, "LC_ALL": "C"},
        # Ctrl-C is for us, who then end it without loss.
        start_new_session=True,
        umask=PRIVATE,
    )


def _guarded(process: int) -> subprocess.Popen[bytes]:
    """Start a program that outlives this one, however it ends, until tcpdump has ended."""
    return subprocess.Popen(
        ["sh", "-c", _GUARD, "sh", str(process)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
