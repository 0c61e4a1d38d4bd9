"""Packets of one shape are what the published schema reads, whatever numbers they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published
from sojourn.perfetto import schema
from sojourn.perfetto.encoding import (
    Shape,
    doubles,
    fixed64,
    fixed_blank,
    message,
    nested,
    number,
    number_blank,
    text,
    text_blank,
    varint,
    varint_width,
)
from sojourn.timeline.lanes import lowest_free

NUMBERS = st.integers(0, 2**63 - 1)


@given(NUMBERS, st.integers(1, 10))
def test_a_padded_varint_is_the_same_number(value: int, width: int) -> None:
    field = schema.TracePacket.TIMESTAMP << 3
    packet = published.TracePacket.FromString(varint(field) + varint(value, width))
    assert packet.timestamp == value
    assert len(varint(value, width)) == max(width, varint_width(value)) <= 10


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(allow_nan=False), st.text(min_size=3, max_size=3)), min_size=1))
def test_packets_of_one_shape_hold_their_values(rows: list[tuple[int, int, float, str]]) -> None:
    rows = [row for row in rows if len(row[3].encode("utf-8", "replace")) == 3]
    annotation = (
        *number_blank(schema.DebugAnnotation.NAME_IID, "iid", 10),
        *fixed_blank(schema.DebugAnnotation.DOUBLE_VALUE, "double"),
    )
    event = nested(
        schema.TracePacket.TRACK_EVENT,
        fixed_blank(schema.TrackEvent.FLOW_IDS, "flow"),
        text_blank(published.TrackEvent.CATEGORIES_FIELD_NUMBER, "label", 3),
        nested(schema.TrackEvent.DEBUG_ANNOTATIONS, annotation),
    )
    times = number_blank(schema.TracePacket.TIMESTAMP, "time", 9)
    shape = Shape(nested(schema.Trace.PACKET, times, event))
    ids, flows, values, texts = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    encoded = b"".join(each.encode("utf-8", "replace") for each in texts)
    packets = shape.packets(
        len(rows),
        {
            "time": np.array(ids, np.int64),
            "iid": np.array(ids, np.int64),
            "flow": fixed64(np.array(flows, np.int64)),
            "double": doubles(np.array(values, np.float64)),
            "label": np.frombuffer(encoded, np.uint8).reshape(-1, 3),
        },
    )
    trace = published.Trace.FromString(packets.tobytes())
    assert packets.shape == (len(rows), shape.size)
    assert [packet.timestamp for packet in trace.packet] == ids
    assert [packet.track_event.debug_annotations[0].name_iid for packet in trace.packet] == ids
    assert [packet.track_event.flow_ids[0] for packet in trace.packet] == flows
    assert [packet.track_event.debug_annotations[0].double_value for packet in trace.packet] == values
    labels = [packet.track_event.categories[0].encode() for packet in trace.packet]
    assert b"".join(labels) == encoded


def test_single_messages_hold_their_values() -> None:
    descriptor = message(
        schema.TracePacket.TRACK_DESCRIPTOR,
        number(schema.TrackDescriptor.UUID, 300),
        text(schema.TrackDescriptor.NAME, "half \ud800"),
    )
    packet = published.TracePacket.FromString(descriptor)
    assert (packet.track_descriptor.uuid, packet.track_descriptor.name) == (300, "half ?")


@pytest.mark.parametrize(
    "name",
    ["Trace", "TracePacket", "TraceAttributes", "ClockSnapshot", "TrackDescriptor", "CounterDescriptor", "TrackEvent",
     "DebugAnnotation", "InternedData"],
)  # fmt: skip
def test_numbers_of_fields_are_the_published_ones(name: str) -> None:
    declared = {field: value for field, value in vars(getattr(schema, name)).items() if field.isupper()}
    numbers = {field.name.upper(): field.number for field in getattr(published, name).DESCRIPTOR.fields}
    assert any(field in numbers for field in declared)
    for field, value in declared.items():
        assert numbers.get(field, value) == value, field


@pytest.mark.parametrize(
    ("name", "enumeration", "prefix"),
    [
        ("SequenceFlags", published.TracePacket.SequenceFlags, "SEQ_"),
        ("BuiltinClock", published.BuiltinClock, "BUILTIN_CLOCK_"),
        ("ChildTracksOrdering", published.TrackDescriptor.ChildTracksOrdering, ""),
        ("EventType", published.TrackEvent.Type, "TYPE_"),
    ],
)
def test_numbers_of_enumerations_are_the_published_ones(name: str, enumeration: Any, prefix: str) -> None:
    declared = {f"{prefix}{each}": value for each, value in vars(getattr(schema, name)).items() if each.isupper()}
    assert declared
    assert declared == {each: enumeration.Value(each) for each in declared}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=30).map(sorted),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_each_interval_gets_the_lowest_lane_that_is_free(spans: list[tuple[int, int]], most: int | None) -> None:
    begin = np.array([first for first, _ in spans], np.int64)
    end = begin + np.array([length for _, length in spans], np.int64)
    until: dict[int, int] = {}
    for first, last, lane in zip(begin.tolist(), end.tolist(), lowest_free(begin, end, most).tolist(), strict=True):
        expected = next(k for k in range(len(spans) + 1) if until.get(k, 0) <= first)
        assert lane == (-1 if most is not None and expected >= most else expected)
        until[lane] = last
