"""Streams of packets by time, and how they are merged into one: a block of some 100,000 packets at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools, Bytes, Floats, Ints
from sojourn.perfetto.counters import COUNTERS, Counts
from sojourn.perfetto.encoding import Shape, doubles, fixed64
from sojourn.perfetto.packets import (
    ANNOTATIONS,
    DELAY,
    NUMBER,
    OUTCOME,
    REQUEST_ID,
    RESPONSE,
    SERVICE_NAME,
    SERVICE_TIME,
    STATUS,
    TIMES,
    Shapes,
)
from sojourn.perfetto.texts import Texts
from sojourn.perfetto.tracks import Tracks
from sojourn.timeline.slices import Slices
from sojourn.timeline.visits import Visits

STEP = 25_000  # packets of a stream in a block, at most
LONGEST_ID = 64  # bytes of a request id; of a longer one, the first ``CUT`` characters are written
CUT = 16
BRIEF = 0  # the variant of a slice without the values of its request


class Stream(Protocol):
    """Packets by time.

    ``at``: instant of each, µs, ascending.
    """

    at: Ints

    def packets(self, first: int, last: int) -> Iterator[tuple[Ints, Bytes]]:
        """Yield the packets from ``first`` to ``last``, those of one shape together: places from 0, and rows."""
        ...


def merged(streams: Sequence[Stream]) -> Iterator[Bytes]:
    """Yield all packets by time, in blocks; those of one instant in the order of the streams."""
    position = [0] * len(streams)
    while True:
        ahead = [stream.at[place + STEP] for stream, place in zip(streams, position, strict=True)
                 if place + STEP < len(stream.at)]  # fmt: skip
        until = [int(np.searchsorted(stream.at, min(ahead), "right")) if ahead else len(stream.at)
                 for stream in streams]  # fmt: skip
        yield _block(streams, position, until)
        if not ahead:
            return
        position = until


def _block(streams: Sequence[Stream], first: Sequence[int], last: Sequence[int]) -> Bytes:
    """Return the packets of the streams from their first places to their last ones."""
    counts = np.subtract(last, first)
    begins = np.cumsum(counts) - counts
    rows = [
        (begin + places, packets)
        for stream, begin, low, high in zip(streams, begins.tolist(), first, last, strict=True)
        if low < high
        for places, packets in stream.packets(low, high)
    ]
    sizes = np.zeros(int(counts.sum()), np.int64)
    for places, packets in rows:
        sizes[places] = packets.shape[1]
    order = np.argsort(
        np.concatenate([stream.at[low:high] for stream, low, high in zip(streams, first, last, strict=True)]),
        kind="stable",
    )
    offset = np.empty(len(order), np.int64)
    offset[order] = np.cumsum(sizes[order]) - sizes[order]
    block = np.empty(int(sizes.sum()), np.uint8)
    for places, packets in rows:
        size = packets.shape[1]
        # Windows of ``size`` bytes that begin at every byte of the block.
        windows = np.ndarray((len(block) - size + 1,), f"V{size}", block, strides=(1,))
        windows[offset[places]] = packets.view(f"V{size}").ravel()
    return block


class Clock(NamedTuple):
    """The clock of a trace.

    Attributes:
        first: the first instant, µs after the base of the visits.
        origin: what the clock shows then, ns.
    """

    first: int
    origin: int

    def of(self, at: Ints) -> Ints:
        """Return the timestamps (ns) of instants, µs after the base of the visits."""
        return (at - self.first) * 1_000 + self.origin


class Begins:
    """The begins of slices."""

    def __init__(
        self, visits: Visits, slices: Slices, texts: Texts, tracks: Tracks, shapes: Shapes, clock: Clock
    ) -> None:
        self._order = np.argsort(slices.begin, kind="stable")
        self.at = slices.begin[self._order]
        self._slices, self._texts, self._shapes, self._clock = slices, texts, shapes, clock
        self._first_lane = tracks.first_lane
        rows = visits.rows
        self._status = rows["status"].cast(pl.Int64).fill_null(-1).to_numpy()
        columns = {RESPONSE: rows["request_time"], SERVICE_TIME: _service_times(visits)}
        seconds = {which: _floats(column) for which, column in columns.items()} | {DELAY: visits.wait}
        self._times = {which: np.round(each * 1e3, 3) for which, each in seconds.items()}
        self._ids = rows["request_id"] if "request_id" in rows.columns else None
        self._id_bytes = np.zeros(len(visits), np.int64)
        if self._ids is not None:
            cut = pl.when(self._ids.str.len_bytes() > LONGEST_ID).then(self._ids.str.head(CUT)).otherwise(self._ids)
            self._ids = pl.select(cut.fill_null("")).to_series()
            self._id_bytes = self._ids.str.len_bytes().to_numpy().astype(np.int64)
        self._flow = np.zeros(len(visits), np.int64)
        victims = np.flatnonzero(slices.culprit >= 0)
        self._flow[slices.culprit[victims]] = victims + 1
        self._variant = self._variants(texts)

    def _variants(self, texts: Texts) -> Ints:
        """Return which values each request has: a bit for each, whether an arrow begins, and the bytes of its id."""
        present: dict[int, Bools | bool] = {
            NUMBER: True, OUTCOME: True, SERVICE_NAME: texts.service > 0, STATUS: self._status >= 0,
            REQUEST_ID: self._id_bytes > 0, **{which: ~np.isnan(each) for which, each in self._times.items()},
        }  # fmt: skip
        bits = sum(np.where(has, 1 << which, 0) for which, has in present.items())
        return bits + ((self._flow > 0) << len(ANNOTATIONS)) + (self._id_bytes << (len(ANNOTATIONS) + 1))

    def packets(self, first: int, last: int) -> Iterator[tuple[Ints, Bytes]]:
        """Yield the begins from ``first`` to ``last``, as ``Stream``."""
        chosen = self._order[first:last]
        request = self._slices.request[chosen]
        variant = np.where(self._slices.details[chosen], self._variant[request], BRIEF)
        order = np.argsort(variant, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(variant[order])) + 1):
            if len(places):
                yield places, self._of_variant(int(variant[places[0]]), chosen[places], request[places])

    def _of_variant(self, variant: int, chosen: Ints, request: Ints) -> Bytes:
        annotations = tuple(which for which in range(len(ANNOTATIONS)) if variant >> which & 1) or (NUMBER, OUTCOME)
        id_bytes = variant >> (len(ANNOTATIONS) + 1)
        shape = self._shapes.begin(annotations, id_bytes, flow=bool(variant >> len(ANNOTATIONS) & 1))
        values: dict[str, npt.NDArray[Any]] = {
            "time": self._clock.of(self._slices.begin[chosen]),
            "track": self._first_lane + self._slices.lane[chosen],
            "name": self._texts.names[chosen],
            "category": self._texts.categories[chosen],
            "flow": fixed64(self._flow[request]),
            ANNOTATIONS[NUMBER]: request + 1,
            ANNOTATIONS[OUTCOME]: self._texts.outcome[request] + 1,
            ANNOTATIONS[SERVICE_NAME]: self._texts.service[request],
            ANNOTATIONS[STATUS]: self._status[request],
        }
        if variant != BRIEF:
            values |= {ANNOTATIONS[which]: doubles(self._times[which][request]) for which in TIMES}
        if id_bytes and self._ids is not None:
            ids = self._ids.gather(request).str.join("").item().encode()
            values[ANNOTATIONS[REQUEST_ID]] = np.frombuffer(ids, np.uint8).reshape(-1, id_bytes)
        return shape.packets(len(chosen), values)


class Ends:
    """The ends of slices."""

    def __init__(self, slices: Slices, tracks: Tracks, shape: Shape, clock: Clock) -> None:
        order = np.argsort(slices.end, kind="stable")
        self.at = slices.end[order]
        self._track = tracks.first_lane + slices.lane[order]
        self._shape, self._clock = shape, clock

    def packets(self, first: int, last: int) -> Iterator[tuple[Ints, Bytes]]:
        """Yield the ends from ``first`` to ``last``, as ``Stream``."""
        values = {"time": self._clock.of(self.at[first:last]), "track": self._track[first:last]}
        yield np.arange(last - first), self._shape.packets(last - first, values)


class Releases:
    """The instants at which arrows end: in the lane of the waiting request, when it leaves the queue."""

    def __init__(self, slices: Slices, lane: Ints, texts: Texts, tracks: Tracks, shape: Shape, clock: Clock) -> None:
        victims = np.flatnonzero(slices.culprit >= 0)
        victims = victims[np.argsort(slices.left[victims], kind="stable")]
        self.at = slices.left[victims]
        self.names = texts.releases[slices.culprit[victims]]
        self._victims, self._track = victims, tracks.first_lane + lane[victims]
        self._shape, self._clock = shape, clock

    def packets(self, first: int, last: int) -> Iterator[tuple[Ints, Bytes]]:
        """Yield the instants from ``first`` to ``last``, as ``Stream``."""
        values: dict[str, npt.NDArray[Any]] = {
            "time": self._clock.of(self.at[first:last]),
            "track": self._track[first:last],
            "name": self.names[first:last],
            "category": np.ones(last - first, np.int64),
            "flow": fixed64(self._victims[first:last] + 1),
        }
        yield np.arange(last - first), self._shape.packets(last - first, values)


class Levels:
    """The values of counters."""

    def __init__(self, counts: Counts, tracks: Tracks, shape: Shape, clock: Clock) -> None:
        self.at = counts.at
        self._counts, self._tracks, self._shape, self._clock = counts, tracks, shape, clock

    def packets(self, first: int, last: int) -> Iterator[tuple[Ints, Bytes]]:
        """Yield the values from ``first`` to ``last``, as ``Stream``."""
        backend = self._counts.backend[first:last]
        values: dict[str, npt.NDArray[Any]] = {"time": self._clock.of(self.at[first:last])}
        for kind in range(len(COUNTERS)):
            values[f"track {kind}"] = self._tracks.counter(kind, backend)
            values[f"level {kind}"] = self._counts.level[kind, first:last]
        yield np.arange(last - first), self._shape.packets(last - first, values)


def _service_times(visits: Visits) -> pl.Series:
    """Return the service time of each request in the log, or else the length of its span."""
    rows = visits.rows
    if "span_seconds" not in rows.columns:
        return rows["service_time"]
    return pl.select(pl.coalesce(rows["service_time"], rows["span_seconds"])).to_series()


def _floats(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
