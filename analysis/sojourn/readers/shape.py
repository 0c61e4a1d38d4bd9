"""Lines of one shape, read without a JSON parser: nginx writes the same keys in the same order on every line.

The shape is taken from one line of a block, and the others are compared with it. Lines of any other form (another key,
an escape, several attempts, an unusual number, an invalid value) are read by the SQL of ``sojourn.readers.record``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
from sojourn.readers.scan import ADDRESS, BLANK, QUOTE, SECONDS, TEXT, WHOLE, gathered, scan

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
# Longer times (us) and later instants (us since 1970) are left to the SQL: doubles lose microseconds there.
LONGEST, LATEST = 10**15, 4 * 10**15


@dataclass(frozen=True)
class Shape:
    """The common parts of lines.

    Attributes:
        between: the bytes before the first value, between values, and after the last.
        ends: end of each of these in ``between``.
        stops: the byte that ends each value.
        slots: number of each value's key among the selected keys; -1: not selected.
        kinds: kind of each value.
        slot_of: key -> slot, of the selected keys in the lines.
    """

    between: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int32]
    stops: npt.NDArray[np.uint8]
    slots: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.int32]
    slot_of: dict[str, int]

    @classmethod
    def of(cls, line: str, wanted: Sequence[str]) -> Shape | None:
        """Return the shape of a line; None if it has another form or lacks keys of a request."""
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
        # Names in DuckDB are case-insensitive.
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
            stops=np.full(len(keys), QUOTE, np.uint8),
            slots=np.array([slot_of.get(key, -1) for key in keys], np.int32),
            kinds=np.array([KINDS.get(key, TEXT) for key in keys], np.int32),
            slot_of=slot_of,
        )


@dataclass(frozen=True)
class Scanned:
    """Lines of one shape; ``rows``: the valid ones, indices into ``spans`` (line, slot) and ``numbers``."""

    shape: Shape
    data: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int32]
    numbers: Ints
    rows: Ints

    def number(self, key: str) -> tuple[Ints, Bools]:
        """Return the numbers of the valid lines, and which of them are missing."""
        if key not in self.shape.slot_of:
            return np.zeros(len(self.rows), np.int64), np.ones(len(self.rows), np.bool_)
        values = self.numbers[self.shape.slot_of[key]][self.rows]
        return values, values == BLANK

    def blank(self, key: str) -> Bools:
        """Return which texts are missing, empty or -."""
        if key not in self.shape.slot_of:
            return np.ones(len(self.rows), np.bool_)
        blank: Bools = self.numbers[self.shape.slot_of[key]][self.rows] == BLANK
        return blank

    def text(self, keys: Sequence[str], null: Bools | None = None) -> pa.Array:
        """Return the texts of the valid lines (several keys joined by ``SEPARATOR``), null where ``null``."""
        slots = np.array([self.shape.slot_of.get(key, -1) for key in keys], np.int32)
        if len(keys) == 1 and slots[0] < 0:
            return pa.nulls(len(self.rows), pa.string())
        offsets, copied = gathered(self.data, self.spans, self.rows, slots, ord(SEPARATOR))
        return texts(offsets, copied, null)


def scanned(block: Block, columns: Sequence[str]) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
    """Return the records of a block that have its shape, and the positions in ``block.lines`` of the other lines.

    The table has ``columns`` as from ``records_query``, and ``number``. None: the block has no shape.
    """
    wanted = keys_needed(columns)
    tried = (Shape.of(line.as_py(), wanted) for line in block.lines[:LINES_TRIED])
    shape = next((each for each in tried if each is not None), None)
    if shape is None:
        return None
    lines, like = shape_lines(block, shape)
    every = lines.rows
    sound = is_sound(lines, with_identity=RECORD in columns)
    like[every[~sound]] = False
    usable = replace(lines, rows=every[sound])
    arrays = [COLUMN_OF.get(name, named)(usable, name) for name in columns]
    return table_of(block, usable, columns, arrays), np.flatnonzero(~like)


def shape_lines(block: Block, shape: Shape) -> tuple[Scanned, Bools]:
    """Return the lines of a block that have a shape, and whether each line has it."""
    _, offsets, data = block.lines.buffers()
    lines = np.frombuffer(offsets, np.int32)[: len(block.lines) + 1]
    bytes_ = np.frombuffer(data, np.uint8)
    spans, numbers = _scratch(len(block.lines), len(shape.slot_of))
    like = scan(bytes_, lines, shape.between, shape.ends, shape.stops, shape.slots, shape.kinds, spans, numbers)
    return Scanned(shape, bytes_, spans, numbers, np.flatnonzero(like)), like


def table_of(block: Block, lines: Scanned, columns: Sequence[str], arrays: Sequence[pa.Array]) -> pa.Table:
    """Return columns as a table, with the number of each line."""
    numbered = np.from_dlpack(block.numbers)[lines.rows]
    return pa.table([*arrays, arrow(numbered)], [*columns, "number"])


_kept = threading.local()


def _scratch(lines: int, slots: int) -> tuple[npt.NDArray[np.int32], Ints]:
    """Arrays for ``scan`` to fill, reused by each thread: allocating memory takes time."""
    if getattr(_kept, "size", 0) < lines * slots:
        _kept.size = lines * slots + lines * slots // 4
        _kept.spans, _kept.numbers = np.empty(2 * _kept.size, np.int32), np.empty(_kept.size, np.int64)
    spans = _kept.spans[: 2 * lines * slots].reshape(lines, slots, 2)
    return spans, _kept.numbers[: lines * slots].reshape(slots, lines)


def _plausible(micros: Ints) -> Bools:
    return (micros >= EARLIEST_INSTANT) & (micros < LATEST)


def is_sound(lines: Scanned, *, with_identity: bool) -> Bools:
    """Return which lines are valid records, as in ``sojourn.readers.record``."""
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


def _no_number(lines: Scanned, _: str) -> pa.Array:
    return pa.nulls(len(lines.rows), pa.int64())


def _no_text(lines: Scanned, _: str) -> pa.Array:
    return pa.nulls(len(lines.rows), pa.string())


def _tick(lines: Scanned, _: str) -> pa.Array:
    return pa.repeat(pa.scalar(0.001), len(lines.rows))


def _upstream(lines: Scanned, _: str) -> pa.Array:
    return lines.text(["upstream_addr"], lines.blank("upstream_addr"))


def _route(lines: Scanned, _: str) -> pa.Array:
    blank = lines.blank("route")
    route = lines.text(["route"], blank)
    if not blank.any():
        return route
    # Once for each different URI: most logs have far fewer of them than lines.
    uris = lines.text(["uri"]).dictionary_encode()
    path = pc.replace_substring_regex(uris.dictionary, "[?#](?s:.*)$", "")
    templates = pc.replace_substring_regex(path, ROUTE_PART, "/:id").take(uris.indices)
    return templates if blank.all() else pc.if_else(arrow(blank), templates, route)


def _whole(lines: Scanned, name: str) -> pa.Array:
    value, null = lines.number(name)
    return arrow(value, null)


def named(lines: Scanned, name: str) -> pa.Array:
    """Return a text, null where it is blank."""
    return lines.text([name], lines.blank(name))


def _verbatim(lines: Scanned, name: str) -> pa.Array:
    return lines.text([name])


def _identity(lines: Scanned, _: str) -> pa.Array:
    return lines.text(IDENTITY)


# Canonical column -> its computation from scanned lines, as in ``EXPRESSIONS``; other columns are custom keys.
COLUMN_OF: dict[str, Callable[[Scanned, str], pa.Array]] = {
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
    "proxy_queue": _no_number,
    "vantage": _no_text,
    "time_step": _tick,
    "route": _route,
    RECORD: _identity,
    **dict.fromkeys((key for key in NAME_KEYS if key != "route"), named),
    **dict.fromkeys(TEXT_KEYS, _verbatim),
    **dict.fromkeys(WHOLE_KEYS, _whole),
    **dict.fromkeys(LIST_KEYS, _verbatim),
}
