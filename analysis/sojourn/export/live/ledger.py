"""When the requests of the log began and ended, by service, and until when the log is complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sojourn.export.settings import LONGEST_LAG, MINUTE
from sojourn.model.arrays import Bools, Floats

TAIL = 0.95
LATEST = 5.0  # s after which a request of another service that has not ended is not waited for

ALL = "\0"
"""In place of a service: the requests of all of them. No label value of a log is it."""


@dataclass(frozen=True)
class Passed:
    """Requests that ended; n of them.

    Attributes:
        begin, end: unix s, n.
        is_open: whether a request remains open by its nature, n: it was upgraded, as a WebSocket is.
    """

    begin: Floats
    end: Floats
    is_open: Bools

    @classmethod
    def of(cls, each: Iterable[Passed]) -> Passed:
        """Return several together."""
        begin, end, is_open = zip(*((one.begin, one.end, one.is_open) for one in each), strict=True)
        return cls(np.concatenate(begin), np.concatenate(end), np.concatenate(is_open))

    def lasting(self) -> Passed:
        """Return those that are counted as in progress: no long polls, and none that remain open."""
        inside = ~self.is_open & (self.end - self.begin <= LONGEST_LAG)
        return Passed(self.begin[inside], self.end[inside], self.is_open[inside])


class _Chunk:
    """The requests of one reading.

    Attributes:
        ends: of all, sorted, unix s.
        begun, ended: of those that count as in progress, each sorted, unix s.
        longest, tail: the longest of these, and how long nearly all last, s.
    """

    def __init__(self, passed: Passed) -> None:
        lasting = passed.lasting()
        lasted = lasting.end - lasting.begin
        self.ends, self.begun, self.ended = np.sort(passed.end), np.sort(lasting.begin), np.sort(lasting.end)
        self.longest = float(lasted.max(initial=0.0))
        self.tail = float(np.quantile(lasted, TAIL)) if len(lasted) else 0.0


class Ledger:
    """Requests that ended, by service; None stands for those that went to no backend.

    Args:
        span: for which they are held, s.
    """

    def __init__(self, span: float) -> None:
        self._span = span
        self._chunks: dict[str | None, deque[_Chunk]] = {}
        self._last: dict[str | None, float] = {}
        self._read: float | None = None
        self._first = np.inf  # the earliest end that was read since the last reading
        self._delays: deque[tuple[float, float]] = deque()

    def add(self, passed: Mapping[str | None, Passed]) -> None:
        """Hold requests by service."""
        if not passed:
            return
        chunks = {service: _Chunk(requests) for service, requests in passed.items()}
        alone = next(iter(chunks.values())) if len(chunks) == 1 else None
        for service, chunk in {**chunks, ALL: alone or _Chunk(Passed.of(passed.values()))}.items():
            self._chunks.setdefault(service, deque()).append(chunk)
            self._last[service] = max(self._last.get(service, 0.0), float(chunk.ends[-1]))
            self._first = min(self._first, float(chunk.ends[0]))

    def read(self, wall: float, *, complete: bool) -> None:
        """Learn that the log was read at ``wall``, unix s; ``complete``: all of it that had been written."""
        # A line that an earlier reading did not have was written after it.
        if self._read is not None:
            self._delays.append((wall, max(self._read - self._first, 0.0)))
        while self._delays and self._delays[0][0] < wall - MINUTE:
            self._delays.popleft()
        if complete:
            self._read = wall
        self._first = np.inf
        for chunks in self._chunks.values():
            while chunks and chunks[0].ends[-1] < wall - self._span:
                chunks.popleft()

    @property
    def complete_until(self) -> float | None:
        """Until when every request that ended has been read, unix s; None before the first reading."""
        delay = max((seconds for _, seconds in self._delays), default=0.0)
        return None if self._read is None else self._read - delay

    @property
    def last(self) -> float | None:
        """The end of the latest request, unix s."""
        return self._last.get(ALL)

    def last_of_app(self, service: str) -> float:
        """Return the end of the latest request to a backend, unix s, of a service or of ``ALL``; -inf: none ended."""
        ends = (end for name, end in self._last.items() if name not in (None, ALL) and service in (name, ALL))
        return max(ends, default=-np.inf)

    def longest(self, since: float) -> float:
        """Return the longest response of the requests that ended after an instant (unix s), s, without open ones."""
        chunks = self._chunks.get(ALL, ())
        return max((chunk.longest for chunk in chunks if chunk.ends[-1] > since), default=0.0)

    def others_since(self, service: str, instant: float) -> bool:
        """Return whether a request of another service, or to no backend, ended after an instant (unix s)."""
        return any(last > instant for name, last in self._last.items() if name not in (service, ALL))

    def tail_of_others(self, service: str) -> float:
        """Return how long nearly all requests of other services last, s; ``LATEST`` at most."""
        others = (chunks for name, chunks in self._chunks.items() if name not in (service, ALL))
        return min(max((chunk.tail for chunks in others for chunk in chunks), default=0.0), LATEST)

    def ended(self, service: str, at: Floats) -> Floats:
        """Return how many requests of a service ended until each instant (unix s), less a constant."""
        total = np.zeros(len(at))
        for chunk in self._chunks.get(service, ()):
            total += np.searchsorted(chunk.ends, at, "right")
        return total

    def present(self, service: str, at: Floats) -> Floats:
        """Return how many requests of a service were in progress at each instant (unix s), if they have ended."""
        total = np.zeros(len(at))
        for chunk in self._chunks.get(service, ()):
            total += np.searchsorted(chunk.begun, at, "right")
            total -= np.searchsorted(chunk.ended, at, "right")
        return total
