"""Write the trace of visits: what it begins with, then its packets by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.model.instants import epoch_us, of_epoch_us
from sojourn.model.version import version
from sojourn.perfetto.counters import counts_of
from sojourn.perfetto.encoding import message, number, text, varint_width
from sojourn.perfetto.packets import SEQUENCE, Shapes, Widths
from sojourn.perfetto.schema import BuiltinClock, ClockSnapshot, SequenceFlags, Trace, TraceAttributes, TracePacket
from sojourn.perfetto.streams import Begins, Clock, Ends, Levels, Releases, merged
from sojourn.perfetto.texts import Texts
from sojourn.perfetto.tracks import Tracks, sentence_on_waits
from sojourn.timeline.classes import selected_by
from sojourn.timeline.concurrency import WAITING, intervals_of
from sojourn.timeline.services import services_of
from sojourn.timeline.slices import CATEGORIES, slices_of
from sojourn.timeline.visits import Visits

COLUMNS = ("request_time", "service_time")
"""Columns that the visits of a trace need besides those of ``sojourn.timeline.visits_of.visits_of``."""

VERSION, NOTE = "sojourn_version", "sojourn_note"  # keys of the trace's attributes
BEGIN = 1_000_000_000  # ns on the clock of the trace: its first instant; a clock at 0 may count as unset
HEAD = 64  # bytes of a file that show whether it is such a trace


@dataclass(frozen=True)
class WrittenTimeline:
    """What a trace contains.

    Attributes:
        requests: those with a known wait, which it is of.
        slices: number of slices.
        arrows: number of arrows between slices.
        tracks: number of tracks.
        begin: the first instant of the trace.
        seconds: its length.
        size: bytes.
        notes: sentences about what is left out.
    """

    requests: int
    slices: int
    arrows: int
    tracks: int
    begin: datetime
    seconds: float
    size: int
    notes: tuple[str, ...]


def write_trace(visits: Visits, out: BinaryIO, *, where: Mapping[str, object] | None = None) -> WrittenTimeline:
    """Write the timeline of visits as a Perfetto trace.

    Args:
        visits: with ``COLUMNS``.
        out: a file, or a pipe.
        where: column -> value: only the waits of these requests are drawn and counted; all hold workers.

    Raises:
        SojournError: there are no visits, or none meets ``where``.
    """
    if not len(visits):
        raise SojournError(
            "no request has a known wait, so there is no timeline: the log needs the time at which a request reached "
            "the backend and its service time (sojourn doctor says what is missing)"
        )
    services, drawn = services_of(visits), np.isin(visits.backend, visits.largest)
    chosen = selected_by(visits.rows, where or {})
    intervals = intervals_of(visits, services)
    slices = slices_of(visits, services, intervals, drawn, chosen)
    counts = counts_of(visits, intervals, visits.largest.tolist(), chosen)
    tracks, texts = Tracks(visits.largest.tolist(), slices.lanes), Texts.of(visits, services, slices)
    first = int(min(slices.begin.min(initial=_far()), counts.at.min(initial=_far()), slices.left.max()))
    last = int(max(slices.end.max(initial=first), first))
    clock = Clock(first, BEGIN)
    shapes = Shapes(
        Widths(
            time=varint_width((last - first) * 1_000 + BEGIN),
            track=varint_width(tracks.count),
            counter=varint_width(tracks.first_lane),
            level=varint_width(int(counts.level.max(initial=0))),
            name=varint_width(texts.largest_name),
            text=varint_width(texts.largest_text),
            number=varint_width(len(visits)),
            status=varint_width(max(int(visits.rows["status"].max() or 0), 0)),  # type: ignore[arg-type]
        )
    )
    wait_lane = np.zeros(len(visits), np.int64)
    waits = np.flatnonzero(slices.category == CATEGORIES.index(WAITING))
    wait_lane[slices.request[waits]] = slices.lane[waits]
    releases = Releases(slices, wait_lane, texts, tracks, shapes.release(), clock)
    streams = (
        releases,
        Ends(slices, tracks, shapes.end(), clock),
        Begins(visits, slices, texts, tracks, shapes, clock),
        Levels(counts, tracks, shapes.counters(), clock),
    )
    notes = tuple(_notes(visits, drawn, slices.unplaced))
    base = epoch_us(visits.base)
    size = 0
    names = np.union1d(texts.names, releases.names)
    # A frame of the user's own may hold instants before 1970, which the clock cannot.
    for packet in _opening(
        notes, max(base + first, 0) * 1_000, texts.interned(names), tracks.descriptors(visits.backends)
    ):
        size += out.write(packet)
    for block in merged(streams):
        size += out.write(block.data)
    return WrittenTimeline(
        requests=len(visits),
        slices=len(slices.begin),
        arrows=len(releases.at),
        tracks=tracks.count,
        begin=of_epoch_us(base + first),
        seconds=(last - first) / 1e6,
        size=size,
        notes=notes,
    )


def is_trace(path: Path) -> bool:
    """Return whether a file is a trace that ``sojourn timeline`` has written."""
    with path.open("rb") as file:
        return VERSION.encode() in file.read(HEAD)


def _far() -> int:
    return int(np.iinfo(np.int64).max)


def _opening(
    notes: Sequence[str], realtime: int, interned: Iterator[bytes], descriptors: Sequence[bytes]
) -> Iterator[bytes]:
    """Yield the packets before the events; ``realtime``: of the first instant, ns."""
    attributes = [(VERSION, version()), *((f"{NOTE}_{k}", note) for k, note in enumerate(notes, 1))]
    yield _packet(
        message(
            TracePacket.TRACE_ATTRIBUTES,
            *(
                message(
                    TraceAttributes.ATTRIBUTE,
                    text(TraceAttributes.KEY, key),
                    text(TraceAttributes.STRING_VALUE, value),
                )
                for key, value in attributes
            ),
        )
    )
    yield _packet(
        message(
            TracePacket.CLOCK_SNAPSHOT,
            *(
                message(
                    ClockSnapshot.CLOCKS,
                    number(ClockSnapshot.CLOCK_ID, which),
                    number(ClockSnapshot.TIMESTAMP, nanoseconds),
                )
                for which, nanoseconds in ((BuiltinClock.BOOTTIME, BEGIN), (BuiltinClock.REALTIME, realtime))
            ),
        )
    )
    flags = SequenceFlags.INCREMENTAL_STATE_CLEARED
    for entries in interned:
        yield _packet(
            number(TracePacket.SEQUENCE_FLAGS, flags) if flags else b"", message(TracePacket.INTERNED_DATA, entries)
        )
        flags = 0
    for descriptor in descriptors:
        yield _packet(message(TracePacket.TRACK_DESCRIPTOR, descriptor))


def _packet(*fields: bytes) -> bytes:
    return message(Trace.PACKET, *fields, number(TracePacket.TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE))


def _notes(visits: Visits, drawn: np.ndarray[tuple[int], np.dtype[np.bool_]], unplaced: int) -> Iterator[str]:
    """Yield sentences about what the trace leaves out."""
    if without := visits.left_out.get("no_wait", 0):
        yield f"{counted(without, 'request is', 'requests are')} left out: the wait is unknown"
    if others := visits.others:
        yield (
            f"{counted(others['values'], 'backend')} with {counted(int((~drawn).sum()), 'request')} "
            f"{'is' if others['values'] == 1 else 'are'} left out: only the {len(visits.largest):,} with the most "
            "requests are drawn"
        )
    if unplaced:
        yield sentence_on_waits(unplaced)
