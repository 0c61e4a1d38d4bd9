"""Track a capture in another thread while the caller reads the log of the same requests."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Self

from sojourn.analyses.pcap.tracker import track
from sojourn.analyses.pcap.tracking.walk import walk
from sojourn.analyses.pcap.tracking_result import TrackingResult
from sojourn.model.compilation import is_cached
from sojourn.readers.capture.batch import Batch, Counts
from sojourn.readers.capture.reader import Capture
from sojourn.readers.inputs import Source

READING, COMPILING = "reading packets", "compiling the packet reader (once, about 15 s)"


@dataclass(frozen=True)
class Tracked:
    """What a capture contains: its connections and exchanges, counts of packets, names of files and interfaces."""

    tracking: TrackingResult
    counts: Counts
    names: tuple[str, ...]
    interfaces: tuple[str, ...]


class TrackedCapture:
    """Captures whose connections are tracked from now on, as a context manager; leaving it ends the tracking.

    The log names the ports of servers, which determine the client of a connection whose SYN is not in the capture: the
    first such connection waits for ``result``. A capture that comes through a pipe is tracked by ``result``, in the
    caller's thread, and so is every capture before the code that tracks it was compiled.
    """

    def __init__(self, captures: Sequence[Source] | Source) -> None:
        """Open captures, as of ``sojourn.pcap``, and begin to track them.

        Raises:
            SojournError: a capture cannot be read at all.
        """
        self._capture = Capture([captures] if isinstance(captures, str | os.PathLike) else list(captures))
        self._servers: Future[Collection[int]] = Future()
        self._tracked: Future[Tracked] = Future()
        self._on_step: Callable[[str], None] = lambda _: None
        self._left = False
        self._begun = self._capture.regular and is_cached(walk)
        if self._begun:
            threading.Thread(target=self._track, name="sojourn-tracking").start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._servers.cancel()
        if not self._begun:
            self._capture.close()

    def result(self, servers: Collection[int], on_step: Callable[[str], None] = lambda _: None) -> Tracked:
        """Return what was tracked, after the last packet; ``servers``: ports of servers.

        Raises:
            SojournError: a capture cannot be read further.
        """
        self._on_step = on_step
        on_step(READING if is_cached(walk) else COMPILING)
        self._servers.set_result(servers)
        if not self._begun:
            self._begun = True
            self._track()
        return self._tracked.result()

    def _track(self) -> None:
        try:
            with self._capture as capture:
                tracking = track(self._batches(), capture.addresses, servers=self._servers.result)
                tracked = Tracked(tracking, capture.counts, capture.names, tuple(capture.interfaces))
        except CancelledError:
            self._tracked.cancel()
        except BaseException as error:
            self._tracked.set_exception(error)
        else:
            self._tracked.set_result(tracked)

    def _batches(self) -> Iterator[Batch]:
        """Yield the batches until the context is left; the code is compiled once the first batch was processed."""
        for number, batch in enumerate(self._capture):
            if self._left:
                raise CancelledError
            if number == 1:
                self._on_step(READING)
            yield batch
