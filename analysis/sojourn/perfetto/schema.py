"""Numbers of Perfetto's protobuf schema: the fields and enumerations that a trace of ``sojourn timeline`` uses.

Source: protos/perfetto/trace of Perfetto's repository (perfetto_trace.proto). A number of a published field never
changes. The tests parse every trace with the published schema.
"""

from __future__ import annotations


class Trace:
    """The file: a sequence of packets."""

    PACKET = 1


class TracePacket:
    """One packet; its events are of one sequence, which shares interned texts."""

    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    TRUSTED_PACKET_SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60
    TRACE_ATTRIBUTES = 126


class SequenceFlags:
    """What a packet says of the interned texts of its sequence."""

    INCREMENTAL_STATE_CLEARED = 1
    NEEDS_INCREMENTAL_STATE = 2


class TraceAttributes:
    """Texts about the whole trace."""

    ATTRIBUTE = 1
    KEY = 1
    STRING_VALUE = 3


class ClockSnapshot:
    """The same instant on several clocks."""

    CLOCKS = 1
    CLOCK_ID = 1
    TIMESTAMP = 2


class BuiltinClock:
    """Numbers of clocks."""

    REALTIME = 1
    BOOTTIME = 6


class TrackDescriptor:
    """A track: a lane of slices, a counter, or a parent of tracks."""

    UUID = 1
    NAME = 2
    PARENT_UUID = 5
    COUNTER = 8
    CHILD_ORDERING = 11
    SIBLING_ORDER_RANK = 12
    DESCRIPTION = 14


class ChildTracksOrdering:
    """How the children of a track are ordered."""

    EXPLICIT = 3


class CounterDescriptor:
    """The unit of a counter."""

    UNIT_NAME = 6


class TrackEvent:
    """A begin or an end of a slice, an instant, or values of counters."""

    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    EXTRA_COUNTER_VALUES = 12
    COUNTER_VALUE = 30
    EXTRA_COUNTER_TRACK_UUIDS = 31
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48


class EventType:
    """Types of events."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class DebugAnnotation:
    """A named value of an event."""

    NAME_IID = 1
    UINT_VALUE = 3
    DOUBLE_VALUE = 5
    STRING_VALUE = 6
    STRING_VALUE_IID = 17


class InternedData:
    """Texts with numbers, by which the packets that follow name them."""

    EVENT_CATEGORIES = 1
    EVENT_NAMES = 2
    DEBUG_ANNOTATION_NAMES = 3
    DEBUG_ANNOTATION_STRING_VALUES = 29

    IID = 1
    TEXT = 2
