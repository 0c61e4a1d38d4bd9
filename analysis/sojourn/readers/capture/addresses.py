"""Addresses as small numbers: the same address has the same number in every batch of a capture."""

from __future__ import annotations

import socket
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sojourn.model.compilation import compiled

_FIRST_SLOTS = 1 << 10
_EMPTY = -1

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int32]


class Addresses:
    """All addresses so far; ``texts``: the addresses as text, in the order of their first packets."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._ipv4 = _Table(self.texts, lambda _, lower: socket.inet_ntop(socket.AF_INET, lower.to_bytes(4)))
        self._ipv6 = _Table(
            self.texts, lambda upper, lower: socket.inet_ntop(socket.AF_INET6, (upper << 64 | lower).to_bytes(16))
        )

    def of_ipv4(self, addresses: npt.NDArray[np.uint32]) -> Positions:
        """Return positions in ``texts``, one per address."""
        lower = addresses.astype(np.uint64)
        return self._ipv4.positions(np.zeros_like(lower), lower)

    def of_ipv6(self, addresses: Words) -> Positions:
        """Return positions in ``texts``, one per address; n × 2 words, the upper one first."""
        return self._ipv6.positions(np.ascontiguousarray(addresses[:, 0]), np.ascontiguousarray(addresses[:, 1]))


class _Table:
    """A hash table with open addressing, from two words to a position in ``texts``."""

    def __init__(self, texts: list[str], text: Callable[[int, int], str]) -> None:
        self._texts = texts
        self._text = text
        self._count = 0
        self._clear(_FIRST_SLOTS)

    def _clear(self, slots: int) -> None:
        self._upper, self._lower = np.zeros(slots, np.uint64), np.zeros(slots, np.uint64)
        self._position = np.full(slots, _EMPTY, np.int32)

    def positions(self, upper: Words, lower: Words) -> Positions:
        indices = np.empty(len(upper), np.int32)
        new = np.empty(len(upper), np.int64)
        done = added = 0
        while True:
            begin = len(self._texts)
            done, added = _looked_up(
                upper, lower, done, self._upper, self._lower, self._position, self._count, begin, indices, new
            )
            self._count += added
            self._texts += [self._text(int(upper[i]), int(lower[i])) for i in new[:added]]
            if done == len(upper):
                return indices
            old = self._upper, self._lower, self._position
            self._clear(4 * len(self._position))
            _put_again(*old, self._upper, self._lower, self._position)


@compiled
def _slot(upper, lower, slots):  # type: ignore[no-untyped-def]
    """Return the first slot of the search by multiplicative hashing (Knuth, TAOCP 3, section 6.4)."""
    mixed = (upper ^ (lower * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(slots - 1))


@compiled
def _looked_up(  # type: ignore[no-untyped-def]
    upper, lower, done, table_upper, table_lower, position, count, next_position, positions, new
):
    """Fill ``positions`` from ``done`` on, add new addresses to the table; return where it stopped and their number."""
    slots = len(position)
    added = 0
    for i in range(done, len(upper)):
        slot = _slot(upper[i], lower[i], slots)
        while position[slot] != _EMPTY and (table_upper[slot] != upper[i] or table_lower[slot] != lower[i]):
            slot = (slot + 1) & (slots - 1)
        if position[slot] == _EMPTY:
            if 2 * (count + added + 1) > slots:
                return i, added
            table_upper[slot], table_lower[slot], position[slot] = upper[i], lower[i], next_position + added
            new[added] = i
            added += 1
        positions[i] = position[slot]
    return len(upper), added


@compiled
def _put_again(old_upper, old_lower, old_position, upper, lower, position):  # type: ignore[no-untyped-def]
    slots = len(position)
    for i in range(len(old_position)):
        if old_position[i] != _EMPTY:
            slot = _slot(old_upper[i], old_lower[i], slots)
            while position[slot] != _EMPTY:
                slot = (slot + 1) & (slots - 1)
            upper[slot], lower[slot], position[slot] = old_upper[i], old_lower[i], old_position[i]
