"""Encode protobuf messages: single ones, and thousands of one shape at once.

Packets of one shape have one size: a number that differs between them is a varint of a fixed width, with continuation
bits in front of zeros where a shorter one would do. Protobuf allows up to 10 bytes for it, and its parsers accept them
(https://protobuf.dev/programming-guides/encoding, "Base 128 Varints").
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sojourn.model.arrays import Bytes, Ints

VARINT, FIXED64, LENGTH = 0, 1, 2  # wire types


@dataclass(frozen=True)
class Blank:
    """A part of a shape that differs between its packets.

    Attributes:
        name: of its values.
        width: bytes.
        is_varint: whether the values are numbers, written as varints; otherwise they are rows of ``width`` bytes.
    """

    name: str
    width: int
    is_varint: bool = True


Part = bytes | Blank


def varint(value: int, width: int = 1) -> bytes:
    """Return a number of at least 0 as a varint of ``width`` bytes, or more if it needs more."""
    encoded = bytearray()
    while value > 0x7F or len(encoded) + 1 < width:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_width(largest: int) -> int:
    """Return the number of bytes of the varint of a number of at least 0."""
    return len(varint(largest))


def number(field: int, value: int) -> bytes:
    """Return a field with a number of at least 0."""
    return varint(field << 3 | VARINT) + varint(value)


def text(field: int, value: str) -> bytes:
    """Return a field with a text; half of a surrogate pair becomes a question mark."""
    return message(field, value.encode("utf-8", "replace"))


def message(field: int, *parts: bytes) -> bytes:
    """Return a field with a message of these fields."""
    content = b"".join(parts)
    return varint(field << 3 | LENGTH) + varint(len(content)) + content


def number_blank(field: int, name: str, width: int) -> tuple[Part, ...]:
    """Return a field with a number that differs."""
    return (varint(field << 3 | VARINT), Blank(name, width))


def fixed_blank(field: int, name: str) -> tuple[Part, ...]:
    """Return a field with 8 bytes that differ: a double, or a number of type fixed64."""
    return (varint(field << 3 | FIXED64), Blank(name, 8, is_varint=False))


def text_blank(field: int, name: str, width: int) -> tuple[Part, ...]:
    """Return a field with a text of ``width`` bytes that differs."""
    return (varint(field << 3 | LENGTH) + varint(width), Blank(name, width, is_varint=False))


def nested(field: int, *parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return a field with a message of these fields, of which some differ."""
    content = [part for each in parts for part in each]
    return (varint(field << 3 | LENGTH) + varint(size_of(content)), *content)


def size_of(parts: Sequence[Part]) -> int:
    """Return the number of bytes of parts."""
    return sum(len(part) if isinstance(part, bytes) else part.width for part in parts)


def fixed64(values: Ints) -> Bytes:
    """Return the bytes of numbers of type fixed64, n × 8."""
    return values.astype("<u8").view(np.uint8).reshape(-1, 8)


def doubles(values: npt.NDArray[np.float64]) -> Bytes:
    """Return the bytes of doubles, n × 8."""
    return values.astype("<f8").view(np.uint8).reshape(-1, 8)


def double(value: float) -> bytes:
    """Return the bytes of a double."""
    return struct.pack("<d", value)


class Shape:
    """Packets that differ in some of their bytes."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.size = size_of(parts)
        self._constant = bytearray(self.size)
        self._blanks: list[tuple[int, Blank]] = []
        place = 0
        for part in parts:
            if isinstance(part, bytes):
                self._constant[place : place + len(part)] = part
                place += len(part)
            else:
                self._blanks.append((place, part))
                place += part.width

    def packets(self, count: int, values: Mapping[str, npt.NDArray[Any]]) -> Bytes:
        """Return packets, one a row.

        Args:
            count: number of packets.
            values: name of a blank -> its values: numbers, or rows of bytes.
        """
        rows = np.empty((count, self.size), np.uint8)
        rows[:] = np.frombuffer(bytes(self._constant), np.uint8)
        for place, blank in self._blanks:
            if not blank.is_varint:
                rows[:, place : place + blank.width] = values[blank.name]
                continue
            left = values[blank.name].astype(np.uint64)
            for k in range(blank.width):
                low = left.astype(np.uint8) & 0x7F
                rows[:, place + k] = low | 0x80 if k + 1 < blank.width else low
                left >>= np.uint64(7)
        return rows
