"""The shapes of a trace's packets: begins and ends of slices, instants at which workers are free, counters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from sojourn.perfetto.counters import COUNTERS
from sojourn.perfetto.encoding import (
    Part,
    Shape,
    fixed_blank,
    nested,
    number,
    number_blank,
    text_blank,
)
from sojourn.perfetto.schema import DebugAnnotation, EventType, SequenceFlags, Trace, TracePacket, TrackEvent

SEQUENCE = 1  # all packets are of one sequence
# Values of a request, in the order of the schema's numbers: an index is the number less 1.
NUMBER, OUTCOME, SERVICE_NAME, STATUS, RESPONSE, DELAY, SERVICE_TIME, REQUEST_ID = range(8)
ANNOTATIONS = (
    "number", "outcome", "service", "status", "response_time_ms", "queueing_delay_ms", "service_time_ms", "request_id",
)  # fmt: skip
TEXTS, NUMBERS, TIMES = (OUTCOME, SERVICE_NAME), (NUMBER, STATUS), (RESPONSE, DELAY, SERVICE_TIME)


@dataclass(frozen=True)
class Widths:
    """Bytes of the numbers that differ between packets.

    Attributes:
        time: nanoseconds.
        track, counter: numbers of lanes and of counters.
        level: values of counters.
        name, text: numbers of names, and of outcomes and services.
        number, status: of requests.
    """

    time: int
    track: int
    counter: int
    level: int
    name: int
    text: int
    number: int
    status: int


@dataclass(frozen=True)
class Shapes:
    """The shapes of all packets of a trace."""

    widths: Widths

    @cache  # noqa: B019 - the shapes live as long as the trace is written
    def begin(self, annotations: tuple[int, ...], id_bytes: int, *, flow: bool) -> Shape:
        """Return the begin of a slice: time, track, name, category, the annotations, and ``flow``, where one begins."""
        own = [part for each in annotations for part in self._annotation(each, id_bytes)]
        flows = fixed_blank(TrackEvent.FLOW_IDS, "flow") if flow else ()
        return self._event(EventType.SLICE_BEGIN, self._named(), own, flows, interned=True)

    @cache  # noqa: B019
    def end(self) -> Shape:
        """Return the end of a slice: time, track."""
        return self._event(EventType.SLICE_END, self._lane())

    @cache  # noqa: B019
    def release(self) -> Shape:
        """Return the instant at which an arrow ends: time, track, name, category, flow."""
        flows = fixed_blank(TrackEvent.TERMINATING_FLOW_IDS, "flow")
        return self._event(EventType.INSTANT, self._named(), flows, interned=True)

    @cache  # noqa: B019
    def counters(self) -> Shape:
        """Return the values of all counters of a backend: time, and of each a track and a level."""
        tracks = [
            part for kind in range(1, len(COUNTERS))
            for part in number_blank(TrackEvent.EXTRA_COUNTER_TRACK_UUIDS, f"track {kind}", self.widths.counter)
        ]  # fmt: skip
        levels = [
            part for kind in range(1, len(COUNTERS))
            for part in number_blank(TrackEvent.EXTRA_COUNTER_VALUES, f"level {kind}", self.widths.level)
        ]  # fmt: skip
        return self._event(
            EventType.COUNTER,
            number_blank(TrackEvent.TRACK_UUID, "track 0", self.widths.counter),
            number_blank(TrackEvent.COUNTER_VALUE, "level 0", self.widths.level),
            tracks,
            levels,
        )

    def _lane(self) -> tuple[Part, ...]:
        return number_blank(TrackEvent.TRACK_UUID, "track", self.widths.track)

    def _named(self) -> tuple[Part, ...]:
        return (
            *self._lane(),
            *number_blank(TrackEvent.NAME_IID, "name", self.widths.name),
            *number_blank(TrackEvent.CATEGORY_IIDS, "category", 1),
        )

    def _annotation(self, which: int, id_bytes: int) -> tuple[Part, ...]:
        name = ANNOTATIONS[which]
        value: tuple[Part, ...]
        if which in TIMES:
            value = fixed_blank(DebugAnnotation.DOUBLE_VALUE, name)
        elif which in TEXTS:
            value = number_blank(DebugAnnotation.STRING_VALUE_IID, name, self.widths.text)
        elif which == REQUEST_ID:
            value = text_blank(DebugAnnotation.STRING_VALUE, name, id_bytes)
        else:
            width = self.widths.status if which == STATUS else self.widths.number
            value = number_blank(DebugAnnotation.UINT_VALUE, name, width)
        return nested(TrackEvent.DEBUG_ANNOTATIONS, (number(DebugAnnotation.NAME_IID, which + 1),), value)

    def _event(self, kind: int, *parts: list[Part] | tuple[Part, ...], interned: bool = False) -> Shape:
        flags = (number(TracePacket.SEQUENCE_FLAGS, SequenceFlags.NEEDS_INCREMENTAL_STATE),) if interned else ()
        event = nested(TracePacket.TRACK_EVENT, (number(TrackEvent.TYPE, kind),), *parts)
        time = number_blank(TracePacket.TIMESTAMP, "time", self.widths.time)
        sequence = (number(TracePacket.TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE),)
        return Shape(nested(Trace.PACKET, time, sequence, flags, event))
