"""Lines of one shape, read without a JSON parser: nginx writes the same keys in the same order on every line.

A line of a block tells the shape, and the others are compared with it. What a line means stays with the SQL of
``sojourn.readers.record``: a line that is otherwise in any way (another key, an escape, several attempts, a number
written unusually, a value to refuse) is left to it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.readers.arrow import arrow, texts
from sojourn.readers.lines import Block
from sojourn.readers.record import (
    EARLIEST_INSTANT,
    IDENTITY,
    LIST_KEYS,
    NAME_KEYS,
    RECORD,
    ROUTE_PART,
    SEPARATOR,
    TEXT_KEYS,
    TIMES,
    WHOLE_KEYS,
    keys_needed,
)
from sojourn.readers.scan import ADDRESS, BLANK, SECONDS, TEXT, WHOLE, gathered, scan

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

REQUIRED = ("time", "request_time", "status")
STARTS = ("request_start", "proxy_start")
KINDS = {
    **dict.fromkeys(("time", "request_time", *STARTS, "queueing_delay", "service_time"), SECONDS),
    **dict.fromkeys((f"upstream_{name}_time" for name in TIMES), SECONDS),
    **dict.fromkeys(("status", *WHOLE_KEYS), WHOLE),
    "upstream_addr": ADDRESS,
}
LINES_TRIED = 10
# What is longer (us), and what is later (us since 1970), is left to the SQL: doubles lose their microseconds there.
LONGEST, LATEST = 10**15, 4 * 10**15


@dataclass(frozen=True)
class Shape:
    """What lines have in common.

    Attributes:
        between: what stands before the first value, between two, and after the last.
        ends: where each of these ends in ``between``.
        slots: per value, the number of its key among those wanted; -1: not wanted.
        kinds: per value, how it is read.
        slot_of: key -> slot, of the wanted keys that the lines have.
    """

    between: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.int32]
    slot_of: dict[str, int]

    @classmethod
    def of(cls, line: str, wanted: Sequence[str]) -> Shape | None:
        """The shape of a line; None where it is not a plain one, or a request could not be read from it."""
        line = line.rstrip("\r\n")
        try:
            pairs = json.loads(line, object_pairs_hook=list)
        except ValueError:
            return None
        if not isinstance(pairs, list) or not all(isinstance(p, tuple) and isinstance(p[1], str) for p in pairs):
            return None
        if "\\" in line or line != "{" + ",".join(f'"{key}":"{value}"' for key, value in pairs) + "}":
            return None
        keys = [key for key, _ in pairs]
        # DuckDB takes names for the same that differ in case.
        if len({key.lower() for key in keys}) < len(keys) or not set(REQUIRED) <= set(keys):
            return None
        lower = {key.lower(): key for key in wanted}
        if any(lower.get(key.lower(), key) != key for key in keys):
            return None
        slot_of = {key: slot for slot, key in enumerate(key for key in keys if key in set(wanted))}
        between = [f'{"{" if number == 0 else chr(34) + ","}"{key}":"'.encode() for number, key in enumerate(keys)]
        between.append(b'"}')
        return cls(
            between=np.frombuffer(b"".join(between), np.uint8),
            ends=np.cumsum([len(part) for part in between], dtype=np.int32),
            slots=np.array([slot_of.get(key, -1) for key in keys], np.int32),
            kinds=np.array([KINDS.get(key, TEXT) for key in keys], np.int32),
            slot_of=slot_of,
        )


@dataclass(frozen=True)
class Scanned:
    """Lines of one shape; ``rows``: those of them that are sound, in ``spans`` (line, slot) and ``numbers``."""

    shape: Shape
    data: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int32]
    numbers: Ints
    rows: Ints

    def number(self, key: str) -> tuple[Ints, Bools]:
        """Numbers of the sound lines, and where there is none."""
        if key not in self.shape.slot_of:
            return np.zeros(len(self.rows), np.int64), np.ones(len(self.rows), np.bool_)
        values = self.numbers[self.shape.slot_of[key]][self.rows]
        return values, values == BLANK

    def blank(self, key: str) -> Bools:
        """Where a text is missing, empty or -."""
        if key not in self.shape.slot_of:
            return np.ones(len(self.rows), np.bool_)
        blank: Bools = self.numbers[self.shape.slot_of[key]][self.rows] == BLANK
        return blank

    def text(self, keys: Sequence[str], null: Bools | None = None) -> pa.Array:
        """Texts of the sound lines (of several keys in one, ``SEPARATOR`` between them), null where ``null``."""
        slots = np.array([self.shape.slot_of.get(key, -1) for key in keys], np.int32)
        if len(keys) == 1 and slots[0] < 0:
            return pa.nulls(len(self.rows), pa.string())
        offsets, copied = gathered(self.data, self.spans, self.rows, slots, ord(SEPARATOR))
        return texts(offsets, copied, null)


def scanned(block: Block, columns: Sequence[str]) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
    """The records of a block that are of its shape, and the positions in ``block.lines`` of the other lines.

    The table has ``columns`` as ``records_query`` gives them, and ``number``. None: the block has no shape.
    """
    wanted = keys_needed(columns)
    tried = (Shape.of(line.as_py(), wanted) for line in block.lines[:LINES_TRIED])
    shape = next((shape_found for shape_found in tried if shape_found is not None), None)
    if shape is None:
        return None
    _, offsets, data = block.lines.buffers()
    lines = np.frombuffer(offsets, np.int32)[: len(block.lines) + 1]
    bytes_ = np.frombuffer(data, np.uint8)
    spans, numbers = _scratch(len(block.lines), len(shape.slot_of))
    like = scan(bytes_, lines, shape.between, shape.ends, shape.slots, shape.kinds, spans, numbers)
    every = np.flatnonzero(like)
    sound = _sound(Scanned(shape, bytes_, spans, numbers, every), RECORD in columns)
    like[every[~sound]] = False
    shape_founds = Scanned(shape, bytes_, spans, numbers, every[sound])
    arrays = [_COLUMNS.get(name, _named)(shape_founds, name) for name in columns]
    numbered = np.from_dlpack(block.numbers)[shape_founds.rows]
    return pa.table([*arrays, arrow(numbered)], [*columns, "number"]), np.flatnonzero(~like)


_kept = threading.local()


def _scratch(lines: int, slots: int) -> tuple[npt.NDArray[np.int32], Ints]:
    """Arrays for ``scan`` to fill. A thread has them for itself and again: fresh memory takes its time, too."""
    if getattr(_kept, "size", 0) < lines * slots:
        _kept.size = lines * slots + lines * slots // 4
        _kept.spans, _kept.numbers = np.empty(2 * _kept.size, np.int32), np.empty(_kept.size, np.int64)
    spans = _kept.spans[: 2 * lines * slots].reshape(lines, slots, 2)
    return spans, _kept.numbers[: lines * slots].reshape(slots, lines)


def _plausible(micros: Ints) -> Bools:
    return (micros >= EARLIEST_INSTANT) & (micros < LATEST)


def _sound(lines: Scanned, with_identity: bool) -> Bools:
    """Which lines are records without a doubt, as in ``sojourn.readers.record``."""
    time, no_time = lines.number("time")
    response, not_taken = lines.number("request_time")
    status, no_status = lines.number("status")
    begin, end = lines.spans[:, lines.shape.slot_of["status"], :][lines.rows].T
    sound = ~(no_time | not_taken | no_status) & _plausible(time) & (response >= 0)
    sound &= (
        _plausible(time - np.where(not_taken, 0, response)) & (status >= 100) & (status <= 999) & (end - begin <= 3)
    )
    for key in STARTS:
        value, blank = lines.number(key)
        sound &= blank | _plausible(value)
    for key in (*(f"upstream_{name}_time" for name in TIMES), "service_time"):
        value, blank = lines.number(key)
        sound &= blank | ((value >= 0) & (value < LONGEST))
    delay, no_delay = lines.number("queueing_delay")
    sound &= no_delay | (np.abs(delay) < LONGEST)
    if with_identity:
        sound &= ~lines.blank("request_id")
    return np.asarray(sound, np.bool_)


def _instant(micros: Ints, null: Bools) -> pa.Array:
    return arrow(micros, null).cast(pa.timestamp("us"))


def _time(lines: Scanned, _: str) -> pa.Array:
    return _instant(*lines.number("time"))


def _start(lines: Scanned, _: str) -> pa.Array:
    value, null = lines.number("time")
    return _instant(value - lines.number("request_time")[0], null)


def _request_start(lines: Scanned, _: str) -> pa.Array:
    return _instant(*lines.number("request_start"))


def _proxy_start(lines: Scanned, _: str) -> pa.Array:
    own, no_own = lines.number("proxy_start")
    sent, not_sent = lines.number("request_start")
    return _instant(np.where(no_own, sent, own), no_own & not_sent)


def _attempts(lines: Scanned, _: str) -> pa.Array:
    if "upstream_addr" in lines.shape.slot_of:
        return arrow((~lines.blank("upstream_addr")).astype(np.int16))
    if "upstream_response_time" not in lines.shape.slot_of:
        return arrow(np.zeros(len(lines.rows), np.int16))
    begin, end = lines.spans[:, lines.shape.slot_of["upstream_response_time"], :][lines.rows].T
    return arrow((end > begin).astype(np.int16))


def _micros_of(key: str) -> Callable[[Scanned, str], pa.Array]:
    def column(lines: Scanned, _: str) -> pa.Array:
        value, null = lines.number(key)
        return arrow(value, null)

    return column


def _status(lines: Scanned, _: str) -> pa.Array:
    return arrow(lines.number("status")[0].astype(np.int16))


def _zero(lines: Scanned, _: str) -> pa.Array:
    return arrow(np.zeros(len(lines.rows), np.int64))


def _false(lines: Scanned, _: str) -> pa.Array:
    return arrow(np.zeros(len(lines.rows), np.bool_))


def _upstream(lines: Scanned, _: str) -> pa.Array:
    return lines.text(["upstream_addr"], lines.blank("upstream_addr"))


def _route(lines: Scanned, _: str) -> pa.Array:
    blank = lines.blank("route")
    route = lines.text(["route"], blank)
    if not blank.any():
        return route
    path = pc.replace_substring_regex(lines.text(["uri"]), "[?#](?s:.*)$", "")
    return pc.if_else(arrow(blank), pc.replace_substring_regex(path, ROUTE_PART, "/:id"), route)


def _whole(lines: Scanned, name: str) -> pa.Array:
    value, null = lines.number(name)
    return arrow(value, null)


def _named(lines: Scanned, name: str) -> pa.Array:
    return lines.text([name], lines.blank(name))


def _verbatim(lines: Scanned, name: str) -> pa.Array:
    return lines.text([name])


def _identity(lines: Scanned, _: str) -> pa.Array:
    return lines.text(IDENTITY)


# Canonical column -> what makes it of scanned lines, as ``EXPRESSIONS`` do; others are keys of the user's own.
_COLUMNS: dict[str, Callable[[Scanned, str], pa.Array]] = {
    "time": _time,
    "start": _start,
    "request_start": _request_start,
    "proxy_start": _proxy_start,
    "status": _status,
    "attempts": _attempts,
    "upstream": _upstream,
    "retries": _zero,
    "request_time": _micros_of("request_time"),
    **{name: _micros_of(f"upstream_{name}_time") for name in TIMES},
    "app_queueing_delay": _micros_of("queueing_delay"),
    "app_service_time": _micros_of("service_time"),
    "app_garbled": _false,
    "route": _route,
    RECORD: _identity,
    **dict.fromkeys((key for key in NAME_KEYS if key != "route"), _named),
    **dict.fromkeys(TEXT_KEYS, _verbatim),
    **dict.fromkeys(WHOLE_KEYS, _whole),
    **dict.fromkeys(LIST_KEYS, _verbatim),
}
