"""Traces of Perfetto, parsed with the published schema, as ``trace_processor`` reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published

BOOTTIME, REALTIME = 6, 1


@dataclass
class Slice:
    """A slice.

    Attributes:
        track: number of its track.
        begin, end: ns on the trace's clock; the end is None until it comes.
        name, category: texts.
        values: annotations.
        depth: number of slices around it.
        begins_flow, ends_flow: numbers of flows that begin or end at it.
    """

    track: int
    begin: int
    end: int | None
    name: str
    category: str
    values: dict[str, Any]
    depth: int
    begins_flow: list[int]
    ends_flow: list[int]

    @property
    def seconds(self) -> float:
        assert self.end is not None
        return (self.end - self.begin) / 1e9

    @property
    def phase(self) -> str:
        """The category without the outcome."""
        return self.category.partition(",")[0]


@dataclass
class ParsedTrace:
    """A trace.

    Attributes:
        tracks: number -> descriptor.
        slices: by their begins.
        levels: number of a counter -> (ns, value), by time.
        clocks: number of a clock -> ns, at the same instant.
        attributes: texts about the trace.
        times: the timestamps of all events, in the order of the file.
        packets: number of packets.
    """

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    levels: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    clocks: dict[int, int] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    packets: int = 0

    def path_of(self, track: int) -> tuple[str, ...]:
        """Return the names of a track's parents and of the track."""
        names: list[str] = []
        while track:
            names.insert(0, self.tracks[track].name)
            track = self.tracks[track].parent_uuid
        return tuple(names)

    def unix(self, nanoseconds: int) -> float:
        """Return the unix time of a timestamp, s."""
        return (nanoseconds - self.clocks[BOOTTIME] + self.clocks[REALTIME]) / 1e9

    def seconds_of(self, phases: Iterable[str]) -> float:
        """Return the sum of the lengths of the slices of some phases."""
        return sum(each.seconds for each in self.slices if each.phase in phases)

    def counter(self, backend: str, name: str) -> list[tuple[int, int]]:
        """Return (ns, value) of a counter of a backend."""
        (track,) = [uuid for uuid in self.tracks if self.path_of(uuid) == (f"backend {backend}", name)]
        return self.levels[track]


def integral(levels: list[tuple[int, int]]) -> float:
    """Return the integral of a counter until its last change, s."""
    return sum(value * (after - at) for (at, value), (after, _) in pairwise(levels)) / 1e9


def parsed(path: Path) -> ParsedTrace:
    """Parse a trace; every end must have its begin, and every number its text and its track."""
    trace = published.Trace()
    trace.ParseFromString(path.read_bytes())
    result = ParsedTrace(packets=len(trace.packet))
    texts: dict[tuple[str, int], Any] = {}
    open_slices: dict[int, list[Slice]] = defaultdict(list)
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        for clock in packet.clock_snapshot.clocks:
            result.clocks[clock.clock_id] = clock.timestamp
        for attribute in packet.trace_attributes.attribute:
            result.attributes[attribute.key] = attribute.string_value
        for kind in ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values"):
            for entry in getattr(packet.interned_data, kind):
                assert (kind, entry.iid) not in texts
                texts[kind, entry.iid] = entry.str.decode() if kind.endswith("values") else entry.name
        if packet.HasField("track_descriptor"):
            result.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            result.times.append(packet.timestamp)
            _read(packet.timestamp, packet.track_event, texts, open_slices, result)
    assert not any(open_slices.values())
    return result


def _read(
    now: int, event: Any, texts: dict[tuple[str, int], Any], open_slices: dict[int, list[Slice]], result: ParsedTrace
) -> None:
    assert event.track_uuid in result.tracks
    above = open_slices[event.track_uuid]
    if event.type == published.TrackEvent.TYPE_COUNTER:
        tracks = [event.track_uuid, *event.extra_counter_track_uuids]
        for track, value in zip(tracks, [event.counter_value, *event.extra_counter_values], strict=True):
            result.levels[track].append((now, value))
    elif event.type == published.TrackEvent.TYPE_SLICE_END:
        above.pop().end = now
    else:
        assert event.type in (published.TrackEvent.TYPE_SLICE_BEGIN, published.TrackEvent.TYPE_INSTANT)
        (category,) = event.category_iids
        new = Slice(
            event.track_uuid, now, None, texts["event_names", event.name_iid], texts["event_categories", category],
            {texts["debug_annotation_names", each.name_iid]: _value(each, texts) for each in event.debug_annotations},
            len(above), list(event.flow_ids), list(event.terminating_flow_ids),
        )  # fmt: skip
        result.slices.append(new)
        if event.type == published.TrackEvent.TYPE_INSTANT:
            new.end = now
        else:
            above.append(new)


def _value(annotation: Any, texts: dict[tuple[str, int], Any]) -> Any:
    kind = annotation.WhichOneof("value")
    value = getattr(annotation, kind)
    return texts["debug_annotation_string_values", value] if kind == "string_value_iid" else value
