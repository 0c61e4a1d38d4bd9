"""Lines of one shape, read without a JSON parser: nginx writes the same keys in the same order on every line.

The shape is taken from one line of a block, and the others are compared with it. Lines of any other form (another key,
an unusual number or escape, an invalid value) are read by the SQL of ``sojourn.readers.record``.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.arrays import Bools, Ints
from sojourn.readers import scan
from sojourn.readers.arrow import series, texts
from sojourn.readers.lines import Block
from sojourn.readers.record import (
    DROPPED,
    EARLIEST_INSTANT,
    FROM_CACHE,
    IDENTITY,
    INSTEAD_OF_ID,
    LIST_KEYS,
    NAME_KEYS,
    RECORD,
    ROUTE_PART,
    SEPARATOR,
    STARTS,
    TEXT_KEYS,
    TIMES,
    WHOLE_KEYS,
    keys_needed,
)

REQUIRED = ("time", "request_time", "status")
KINDS = {
    **dict.fromkeys(("time", "request_time", *STARTS, "queueing_delay", "service_time"), scan.SECONDS),
    **dict.fromkeys((f"upstream_{name}_time" for name in TIMES), scan.ATTEMPT_TIMES),
    "upstream_response_time": scan.RESPONSE_TIMES,
    **dict.fromkeys(("status", *WHOLE_KEYS), scan.WHOLE),
    "upstream_addr": scan.ATTEMPT_ADDRESSES,
}
CACHE_STATUS = "upstream_cache_status"
LINES_TRIED = 10
LATEST = 4 * 10**15  # us since 1970: later instants are left to the SQL, for doubles lose microseconds there
MOST_ATTEMPTS = 32767
SPACE = r"[ \t\r\n]*"
KEY = rf'{SPACE}"[^"\\]*"{SPACE}:{SPACE}"'
FIRST_KEY, NEXT_KEY = re.compile(rf"{SPACE}\{{{KEY}"), re.compile(rf'"{SPACE},{KEY}')
VALUE, END = re.compile(r'(?:[^"\\]|\\.)*'), re.compile(rf'"{SPACE}\}}{SPACE}')


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
        escapes: whether values may hold the escapes of JSON.
    """

    between: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int32]
    stops: npt.NDArray[np.uint8]
    slots: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.int32]
    slot_of: dict[str, int]
    escapes: bool = False

    @classmethod
    def of(cls, line: str, selected: Sequence[str]) -> Shape | None:
        """Return the shape of a line; None if it has another form or lacks keys of a request."""
        line = line.rstrip("\r\n")
        try:
            pairs = json.loads(line, object_pairs_hook=list)
        except ValueError:
            return None
        if not isinstance(pairs, list) or not all(isinstance(p, tuple) and isinstance(p[1], str) for p in pairs):
            return None
        between = _between(line)
        if between is None or len(between) != len(pairs) + 1:
            return None
        keys = [key for key, _ in pairs]
        # Names in DuckDB are case-insensitive.
        if len({key.lower() for key in keys}) < len(keys) or not set(REQUIRED) <= set(keys):
            return None
        lower = {key.lower(): key for key in selected}
        if any(lower.get(key.lower(), key) != key for key in keys):
            return None
        slot_of = {key: slot for slot, key in enumerate(key for key in keys if key in set(selected))}
        return cls(
            between=np.frombuffer(b"".join(between), np.uint8),
            ends=np.cumsum([len(part) for part in between], dtype=np.int32),
            escapes=True,
            stops=np.full(len(keys), scan.QUOTE, np.uint8),
            slots=np.array([slot_of.get(key, -1) for key in keys], np.int32),
            kinds=np.array([KINDS.get(key, scan.TEXT) for key in keys], np.int32),
            slot_of=slot_of,
        )


def _between(line: str) -> list[bytes] | None:
    """Return what is before, between and after the texts of a JSON object of texts; None if keys hold escapes."""
    between = []
    part = FIRST_KEY.match(line)
    while part:
        between.append(part[0].encode())
        value = VALUE.match(line, part.end())
        at = value.end() if value else len(line)
        part = NEXT_KEY.match(line, at)
    end = END.fullmatch(line, at) if between else None
    return [*between, end[0].encode()] if end else None


@dataclass(frozen=True)
class Scanned:
    """Lines of one shape.

    Attributes:
        shape: the shape.
        data: bytes of all lines of the block.
        spans: line, slot -> begin and end of the value; the last slot is the address of the last attempt.
        numbers: slot, line -> as from ``scan``.
        of_attempts: ``ATTEMPTS`` and ``BEFORE``, line -> the number.
        rows: the valid lines, indices into these.
    """

    shape: Shape
    data: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int32]
    numbers: Ints
    of_attempts: Ints
    rows: Ints

    def number(self, key: str) -> tuple[Ints, Bools]:
        """Return the numbers of the valid lines, and which of them are missing."""
        if key not in self.shape.slot_of:
            return np.zeros(len(self.rows), np.int64), np.ones(len(self.rows), np.bool_)
        values = self.numbers[self.shape.slot_of[key]][self.rows]
        return values, values == scan.BLANK

    def blank(self, key: str) -> Bools:
        """Return which texts are missing, empty or -."""
        if key not in self.shape.slot_of:
            return np.ones(len(self.rows), np.bool_)
        blank: Bools = self.numbers[self.shape.slot_of[key]][self.rows] == scan.BLANK
        return blank

    def text(self, keys: Sequence[str], null: Bools | None = None) -> pl.Series:
        """Return the texts of the valid lines (several keys joined by ``SEPARATOR``), null where ``null``."""
        if len(keys) == 1 and keys[0] not in self.shape.slot_of:
            return none(self, pl.String)
        return self._gathered([self.shape.slot_of.get(key, -1) for key in keys], null)

    @cached_property
    def from_cache(self) -> Bools:
        """Return which answers, or their headers, came from the cache of nginx."""
        blank = self.blank(CACHE_STATUS)
        if blank.all():
            return ~blank
        status = self.text([CACHE_STATUS], blank)
        return np.asarray(status.is_in(FROM_CACHE).fill_null(value=False), np.bool_)

    def last_address(self) -> pl.Series:
        """Return the address of the last attempt; null without one."""
        return self._gathered([self.spans.shape[1] - 1], self.blank("upstream_addr"))

    def _gathered(self, slots: Sequence[int], null: Bools | None) -> pl.Series:
        if self._is_one(slots, null):
            one = replace(self, rows=self.rows[:1])._copied(slots, None if null is None else null[:1])
            return one.new_from_index(0, len(self.rows))
        return self._copied(slots, null)

    def _is_one(self, slots: Sequence[int], null: Bools | None) -> bool:
        """Return whether all valid lines have one text, as nearly every block has of a service, a proxy, a stamp."""
        if len(slots) > 1 or not len(self.rows) or (null is not None and null.any() and not null.all()):
            return False
        return bool(scan.all_equal(self.data, scan.words_of(self.data), self.spans, self.rows, slots[0]))

    def _copied(self, slots: Sequence[int], null: Bools | None) -> pl.Series:
        slot_numbers = np.array(slots, np.int32)
        offsets, copied = scan.gathered(self.data, self.spans, self.numbers, self.rows, slot_numbers, ord(SEPARATOR))
        return texts(offsets, copied, null)


def scanned(block: Block, columns: Sequence[str]) -> tuple[pl.DataFrame, Ints] | None:
    """Return the records of a block that have its shape, and the positions in the block of the other lines.

    The table has ``columns`` as from ``records_query``, the identity as a hash (``hashes_of``), and ``number``. None:
    the block has no shape.
    """
    selected = keys_needed(columns)
    tried = (Shape.of(line, selected) for line in block.lines_at(block.positions[:LINES_TRIED]))
    shape = next((each for each in tried if each is not None), None)
    if shape is None:
        return None
    lines, like = shape_lines(block, shape)
    every = lines.rows
    sound = is_sound(lines, with_identity=RECORD in columns)
    like[every[~sound]] = False
    usable = replace(lines, rows=every[sound])
    table = table_of(block, usable, {name: COLUMN_OF.get(name, filled_text)(usable, name) for name in columns})
    return table, others_of(block, like)


def shape_lines(block: Block, shape: Shape) -> tuple[Scanned, Bools]:
    """Return the lines of a block that have a shape, and whether each line has it."""
    spans, numbers, of_attempts = _scratch(len(block.ends) - 1, len(shape.slot_of))
    like = scan.scan(
        block.data, scan.words_of(block.data), block.ends, shape.between, scan.words_of(shape.between), shape.ends,
        shape.stops, shape.slots, shape.kinds, shape.escapes, spans, numbers, of_attempts,
    )  # fmt: skip
    if block.accepted is not None:
        like[np.setdiff1d(np.arange(len(like)), block.accepted)] = False
    return Scanned(shape, block.data, spans, numbers, of_attempts, np.flatnonzero(like)), like


def others_of(block: Block, like: Bools) -> Ints:
    """Return the positions in a block of the lines that are neither ``like`` its shape nor refused."""
    others = np.flatnonzero(~like)
    return others if block.accepted is None else np.intersect1d(others, block.accepted, assume_unique=True)


def table_of(block: Block, lines: Scanned, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
    """Return columns as a table, with the number of each line."""
    return pl.DataFrame({**columns, "number": series(block.first + lines.rows)})


_reused = threading.local()


def _scratch(lines: int, slots: int) -> tuple[npt.NDArray[np.int32], Ints, Ints]:
    """Arrays for ``scan`` to fill, reused by each thread: allocating memory takes time."""
    needed = lines * (slots + 1)
    if getattr(_reused, "size", 0) < needed:
        _reused.size = needed + needed // 4
        _reused.spans, _reused.numbers = np.empty(2 * _reused.size, np.int32), np.empty(_reused.size, np.int64)
    if getattr(_reused, "lines", 0) < lines:
        _reused.lines = lines + lines // 4
        _reused.of_attempts = np.empty(2 * _reused.lines, np.int64)
    spans = _reused.spans[: 2 * needed].reshape(lines, slots + 1, 2)
    numbers = _reused.numbers[: lines * slots].reshape(slots, lines)
    return spans, numbers, _reused.of_attempts[: 2 * lines].reshape(2, lines)


def _plausible(micros: Ints) -> Bools:
    return (micros >= EARLIEST_INSTANT) & (micros < LATEST)


def is_sound(lines: Scanned, *, with_identity: bool) -> Bools:
    """Return which lines are valid records, as in ``sojourn.readers.record``."""
    time, no_time = lines.number("time")
    response, no_response = lines.number("request_time")
    status, no_status = lines.number("status")
    begin, end = lines.spans[:, lines.shape.slot_of["status"], :][lines.rows].T
    sound = ~(no_time | no_response | no_status) & _plausible(time) & (response >= 0)
    sound &= (
        _plausible(time - np.where(no_response, 0, response)) & (status >= 100) & (status <= 999) & (end - begin <= 3)
    )
    for key in STARTS:
        value, blank = lines.number(key)
        sound &= blank | _plausible(value)
    for key in (*(f"upstream_{name}_time" for name in TIMES), "service_time"):
        value, blank = lines.number(key)
        sound &= blank | ((value >= 0) & (value < scan.LONGEST))
    delay, no_delay = lines.number("queueing_delay")
    sound &= no_delay | (np.abs(delay) < scan.LONGEST)
    if with_identity:
        sound &= ~lines.blank("request_id") | np.logical_and.reduce([~lines.blank(key) for key in INSTEAD_OF_ID])
    return np.asarray(sound, np.bool_)


def _instant(micros: Ints, null: Bools) -> pl.Series:
    return series(micros, null).cast(pl.Datetime("us"))


def _start(lines: Scanned, _: str) -> pl.Series:
    value, null = lines.number("time")
    return _instant(value - lines.number("request_time")[0], null)


def _proxy_start(lines: Scanned, _: str) -> pl.Series:
    own, no_own = lines.number("proxy_start")
    sent, not_sent = lines.number("request_start")
    return _instant(np.where(no_own, sent, own), no_own & not_sent)


def _attempts(lines: Scanned, _: str) -> pl.Series:
    return series(np.minimum(lines.of_attempts[scan.ATTEMPTS][lines.rows], MOST_ATTEMPTS).astype(np.int16))


def no_time(lines: Scanned) -> pl.Series:
    """Return zeros, one per line."""
    return series(np.zeros(len(lines.rows), np.int64))


def _number_of(key: str) -> Callable[[Scanned, str], pl.Series]:
    def column(lines: Scanned, _: str) -> pl.Series:
        return series(*lines.number(key))

    return column


def _of_app(key: str) -> Callable[[Scanned, str], pl.Series]:
    def column(lines: Scanned, _: str) -> pl.Series:
        value, blank = lines.number(key)
        return series(value, blank | lines.from_cache)

    return column


def _worker(lines: Scanned, name: str) -> pl.Series:
    return lines.text([name], lines.blank(name) | lines.from_cache)


def none(lines: Scanned, dtype: type[pl.DataType]) -> pl.Series:
    """Return nulls, one per line."""
    return pl.Series([None], dtype=dtype).new_from_index(0, len(lines.rows))


def same(lines: Scanned, value: object) -> pl.Series:
    """Return one value for all lines."""
    return pl.Series([value]).new_from_index(0, len(lines.rows))


def _route(lines: Scanned, _: str) -> pl.Series:
    blank = lines.blank("route")
    route = lines.text(["route"], blank)
    if not blank.any():
        return route
    # Once for each different URI: most logs have far fewer of them than lines.
    uri = pl.DataFrame({"uri": lines.text(["uri"])})
    path = pl.col("uri").str.replace(r"(?s)[?#].*$", "")
    templates = uri.unique().with_columns(template=path.str.replace_all(ROUTE_PART, "/:id"))
    of_uri = uri.join(templates, on="uri", how="left", nulls_equal=True, maintain_order="left")["template"]
    return of_uri if blank.all() else pl.select(pl.when(series(blank)).then(of_uri).otherwise(route)).to_series()


def filled_text(lines: Scanned, name: str) -> pl.Series:
    """Return a text, null where it is blank."""
    return lines.text([name], lines.blank(name))


def _verbatim(lines: Scanned, name: str) -> pl.Series:
    return lines.text([name])


def _identity(lines: Scanned, _: str) -> pl.Series:
    slots = np.array([lines.shape.slot_of.get(key, -1) for key in IDENTITY], np.int32)
    if slots[0] < 0:  # in a text, a first value that is missing is empty
        return hashes_of(lines.text(IDENTITY))
    hashes, escaped = scan.identities(lines.data, lines.spans, lines.numbers, lines.rows, slots)
    if escaped.any():
        hashes[escaped] = hashes_of(replace(lines, rows=lines.rows[escaped]).text(IDENTITY)).to_numpy()
    return series(hashes)


def hashes_of(identity: pl.Series) -> pl.Series:
    """Return the hash of each identity (``IDENTITY_TEXT``), as of scanned lines; null where it is null."""
    texts_of = identity.fill_null("").cast(pl.Binary)
    offsets = np.concatenate([[0], np.cumsum(texts_of.bin.size().to_numpy(), dtype=np.int64)])
    data = np.frombuffer(b"".join(texts_of), np.uint8)
    return series(scan.text_identities(data, offsets, ord(SEPARATOR)), identity.is_null().to_numpy())


# Canonical column -> its computation from scanned lines, as in ``EXPRESSIONS``; other columns are custom keys.
COLUMN_OF: dict[str, Callable[[Scanned, str], pl.Series]] = {
    "time": lambda lines, _: _instant(*lines.number("time")),
    "start": _start,
    "request_start": lambda lines, _: _instant(*lines.number("request_start")),
    "proxy_start": _proxy_start,
    "status": lambda lines, _: series(lines.number("status")[0].astype(np.int16)),
    "attempts": _attempts,
    "upstream": lambda lines, _: lines.last_address(),
    "retries": lambda lines, _: series(lines.of_attempts[scan.BEFORE][lines.rows]),
    # A line with an internal redirect is not read here.
    **dict.fromkeys(("redirects", "redirected"), lambda lines, _: no_time(lines)),
    "request_time": _number_of("request_time"),
    **{name: _number_of(f"upstream_{name}_time") for name in TIMES},
    "app_queueing_delay": _of_app("queueing_delay"),
    "app_service_time": _of_app("service_time"),
    "app_garbled": lambda lines, _: same(lines, False),
    "proxy_queue": lambda lines, _: none(lines, pl.Int64),
    "vantage": lambda lines, _: none(lines, pl.String),
    "time_step": lambda lines, _: same(lines, 0.001),
    DROPPED: lambda lines, _: none(lines, pl.String),
    "route": _route,
    RECORD: _identity,
    **dict.fromkeys((key for key in NAME_KEYS if key != "route"), filled_text),
    "worker": _worker,
    **dict.fromkeys(TEXT_KEYS, _verbatim),
    **{key: _number_of(key) for key in WHOLE_KEYS},
    **dict.fromkeys(LIST_KEYS, _verbatim),
}
