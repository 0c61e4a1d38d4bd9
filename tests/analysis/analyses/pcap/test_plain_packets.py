"""Usual packets decoded in one pass are what the layers make of them, whatever is wrong with some."""

from __future__ import annotations

import random
from dataclasses import fields
from pathlib import Path

import captures
import numpy as np
import pytest
from captures import segment
from reader_support import GREETING, V4, V6, all_of, conversation, written
from scapy.layers.inet import IP
from sojourn.model.arrays import Bools, Bytes
from sojourn.model.errors import SojournError
from sojourn.readers.capture import reader
from sojourn.readers.capture.addresses import Addresses
from sojourn.readers.capture.plain_packets import plain_segments
from sojourn.readers.capture.records import Records
from sojourn.readers.capture.transport import Columns

LINKS = (captures.ETHERNET, captures.COOKED, captures.COOKED_2, captures.RAW, captures.RAW_IPV4)
HEADERS = 54  # bytes of a packet before its payload
ROUNDS = 60


def by_layers(buffer: Bytes, records: Records, addresses: Addresses) -> tuple[Columns, Bools, int]:
    """Leave every record to the layers."""
    nothing = Records(*(getattr(records, field.name)[:0] for field in fields(records)))
    return plain_segments(buffer, nothing, addresses)[0], np.ones(len(records.at), np.bool_), 0


def decoded(path: Path) -> object:
    try:
        return all_of(path)[:2]
    except SojournError as error:
        return str(error)


def both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    usual = decoded(path)
    with monkeypatch.context() as layers:
        layers.setattr(reader, "plain_segments", by_layers)
        return usual, decoded(path)


@pytest.mark.parametrize("link_type", LINKS)
def test_layers_decode_usual_packets_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link_type: int) -> None:
    left = []

    def counted(buffer: Bytes, records: Records, addresses: Addresses) -> tuple[Columns, Bools, int]:
        columns, unusual, cut = plain_segments(buffer, records, addresses)
        left.append(int(unusual.sum()))
        return columns, unusual, cut

    path = written(tmp_path, captures.pcap(captures.frames(conversation(V4), link_type), link_type=link_type))
    usual, layers = both_ways(path, monkeypatch)
    assert usual == layers
    monkeypatch.setattr(reader, "plain_segments", counted)
    assert len(all_of(path)[0]) == 7
    assert left == [0]


@pytest.mark.parametrize("link_type", LINKS)
def test_changed_headers_are_decoded_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link_type: int) -> None:
    packets = [*conversation(V4), segment(*V4, 1, 2, "PA", GREETING, options=[("NOP", None)] * 4)]
    packets += [] if link_type == captures.RAW_IPV4 else conversation(V6)[:2]
    packets += [IP(src=V4[0], dst=V4[1], options=[b"\1\1\1\1"]) / segment(*V4, 3, 4, "A")[IP].payload]
    frames = captures.frames(packets, link_type)
    edits = random.Random(link_type)
    different = set()
    for number in range(ROUNDS):
        changed = []
        for frame in frames:
            data = bytearray(frame.data)
            place = edits.randrange(min(HEADERS, len(data)))
            data[place] = edits.choice(
                (0, 1, 0x20, 0x41, 0x44, 0x45, 0x46, 0x54, 0xFF, data[place] ^ 1 << edits.randrange(8))
            )
            edited = captures.Frame(frame.time, bytes(data))
            changed.append(edited.cut(edits.randrange(1, 2 * HEADERS)) if number % 4 == 0 else edited)
        usual, layers = both_ways(written(tmp_path, captures.pcap(changed, link_type=link_type)), monkeypatch)
        assert usual == layers, number
        different.add(repr(usual))
    assert len(different) == ROUNDS
