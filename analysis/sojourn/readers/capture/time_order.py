"""Sort segments by time: small disorder is sorted, large disorder is refused.

A capture of several queues or interfaces, or merged from files, may have packets slightly out of order. Swapped halves
of a file, or concatenated files, cannot be sorted in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from sojourn.model.errors import SojournError
from sojourn.model.formatting import duration
from sojourn.readers.capture.batch import Batch

WINDOW = 1_000_000_000
"""Maximum difference (ns) by which a packet may be older than an earlier one in the file."""

MOST_SEGMENTS = 1 << 16
"""Segments in the sorting window; never twice as many are in memory."""

MOST_BYTES = 16 << 20
"""The same in bytes of the file: above it, whole batches are yielded."""

_COLUMNS = tuple(field.name for field in fields(Batch) if field.name != "buffer")


class TimeOrder:
    """The batches of one file, sorted.

    Attributes:
        earliest, latest: unix time of the first and of the last segment so far, ns; None without segments.
    """

    def __init__(self, name: str) -> None:
        self.earliest: int | None = None
        self.latest: int | None = None
        self._name = name
        self._waiting: list[Batch] = []
        self._passed: int | None = None  # time of the last segment yielded

    def batches(self, batch: Batch) -> Iterator[Batch]:
        """Add the next batch of the file, which is not empty; yield the segments that no later one can precede.

        Raises:
            SojournError: a segment is older than one before it by more than WINDOW, or follows MOST_SEGMENTS
                later ones.
        """
        before = batch.time[0] if self.latest is None else self.latest
        latest = np.maximum.accumulate(np.maximum(batch.time, before))
        late = latest - batch.time
        if late.any():
            self._refuse_far(batch, late)
            batch = self._merged(batch)
        self._waiting.append(batch)
        if self.earliest is None or batch.time[0] < self.earliest:
            self.earliest = int(batch.time[0])
        self.latest = int(latest[-1])
        yield from self._released(self.latest - WINDOW)

    def rest(self) -> Iterator[Batch]:
        """Yield the remaining segments at the end of the file."""
        yield from self._waiting
        self._waiting = []

    def _refuse_far(self, batch: Batch, late: np.ndarray) -> None:
        too_late = late > WINDOW
        if self._passed is not None:
            too_late |= batch.time < self._passed
        if too_late.any():
            which = int(np.argmax(too_late))
            seconds = float(late[which]) / 1e9
            raise SojournError(
                f"{self._name}: the packets are not in the order of time: packet {batch.number[which]:,} is "
                f"{duration(seconds)} older than one before it; sort them with: reordercap IN OUT"
            )

    def _merged(self, batch: Batch) -> Batch:
        """Return the batch merged with the waiting segments that it overlaps, in the order of time."""
        first = batch.time.min()
        parts = [batch]
        while self._waiting and self._waiting[-1].time[-1] > first:
            parts.insert(0, self._waiting.pop())
        starts = np.cumsum([0, *(len(part.buffer) for part in parts)])
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        columns["payload"] += np.repeat(starts[:-1], [len(part) for part in parts])
        whole = Batch(**columns, buffer=np.concatenate([part.buffer for part in parts]))
        return _selected(whole, np.argsort(whole.time, kind="stable"))

    def _released(self, until: int) -> Iterator[Batch]:
        """Yield segments older than ``until``, and those in excess of MOST_SEGMENTS."""
        size = sum(len(batch) for batch in self._waiting)
        octets = sum(len(batch.buffer) for batch in self._waiting)
        while self._waiting:
            batch = self._waiting[0]
            enough = size - len(batch) >= MOST_SEGMENTS or octets - len(batch.buffer) >= MOST_BYTES
            if not enough and batch.time[-1] >= until:
                break
            self._waiting.pop(0)
            size -= len(batch)
            octets -= len(batch.buffer)
            self._passed = int(batch.time[-1])
            yield batch
        if size > 2 * MOST_SEGMENTS:  # one batch, merged from several
            batch = self._waiting[0]
            part, self._waiting[0] = (
                _selected(batch, some) for some in np.split(np.arange(len(batch)), [len(batch) - MOST_SEGMENTS])
            )
            self._passed = int(part.time[-1])
            yield part


def _selected(batch: Batch, places: np.ndarray) -> Batch:
    """Return the segments at these indices, with only the part of the buffer that they need."""
    columns = {name: getattr(batch, name)[places] for name in _COLUMNS}
    begin = int(columns["payload"].min())
    end = int((columns["payload"] + columns["captured"]).max())
    columns["payload"] -= begin
    return Batch(**columns, buffer=batch.buffer[begin:end])
