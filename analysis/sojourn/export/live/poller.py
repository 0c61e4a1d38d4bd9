"""Ask for counts of requests several times a second, on a thread of its own."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sojourn.export.live.counts import Count, count_of
from sojourn.host.servers.address import Address, concealed, parse
from sojourn.host.servers.connection import http_text
from sojourn.host.servers.kinds import NO_ANSWER
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

EVERY = 0.2  # s between two readings
MOST_TICKS = 2_000  # of a longer time there are as many readings, further apart
PATIENCE = 1.0  # s for an answer
_TEXT = re.compile(r"(?:(?P<service>[^=:/?]+)=)?(?P<url>.+)", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """Where counts are read.

    Attributes:
        address: of the page.
        service: whose requests alone are counted; None: those of everything behind a proxy.
    """

    address: Address
    service: str | None = None

    def count(self) -> Count:
        """Return the present counts.

        Raises:
            OSError, http.client.HTTPException, ValueError: there is no answer, or none with counts.
        """
        return count_of(http_text(self.address, self.address.target or "/", PATIENCE))


def source_of(text: str) -> Source:
    """Return the source of ``[SERVICE=]URL``.

    Raises:
        SojournError: it is not of that form; the message holds no password.
    """
    match = _TEXT.fullmatch(text)
    try:
        address = parse(match["url"]) if match else None
    except ValueError:
        address = None
    if match is None or address is None or not address.scheme:
        raise SojournError(f"{concealed(text)} is not [SERVICE=]URL, such as http://127.0.0.1:8088/status")
    return Source(address, match["service"])


@dataclass(frozen=True)
class Tick:
    """The counts of all sources at one instant.

    Attributes:
        time: unix s.
        counts: of each source; None: it did not answer.
        reads: answers so far, of each source.
    """

    time: float
    counts: tuple[Count | None, ...]
    reads: tuple[int, ...]


class Poller:
    """The latest counts of some sources.

    Args:
        sources: where they are read.
        span: for which they are held, s.
    """

    def __init__(self, sources: Sequence[Source], span: float) -> None:
        self.sources = tuple(sources)
        self.every = max(EVERY, span / MOST_TICKS)
        self._ticks: deque[Tick] = deque(maxlen=round(span / self.every) + 1)
        self._reads = [0] * len(self.sources)
        self._failing = [False] * len(self.sources)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sojourn-status", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE)

    def ticks(self) -> list[Tick]:
        """Return the counts that are held, oldest first."""
        with self._lock:
            return list(self._ticks)

    def add(self, tick: Tick) -> None:
        """Hold counts."""
        with self._lock:
            self._ticks.append(tick)

    def clear(self) -> None:
        """Drop the counts that are held."""
        with self._lock:
            self._ticks.clear()

    def _run(self) -> None:
        with ThreadPoolExecutor(len(self.sources), "sojourn-status") as pool:
            due = time.monotonic()
            while not self._stop.wait(max(due - time.monotonic(), 0.0)):
                # By the schedule; never two readings at once.
                due = max(due + self.every, time.monotonic())
                wall, begun = time.time(), time.monotonic()
                counts = tuple(pool.map(self._count, range(len(self.sources))))
                # The local clock may be set meanwhile.
                self.add(Tick(wall + (time.monotonic() - begun) / 2, counts, tuple(self._reads)))

    def _count(self, number: int) -> Count | None:
        source = self.sources[number]
        try:
            count, problem = source.count(), ""
        except NO_ANSWER as error:
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            count, problem = None, printable(text)
        self._reads[number] += count is not None
        if (count is None) != self._failing[number]:
            self._failing[number] = count is None
            state = f"no counts of requests: {problem}" if problem else "counts of requests again"
            sys.stderr.write(f"status: {source.address.redacted}: {state}\n")
        return count
