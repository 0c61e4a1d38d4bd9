"""Lines of text in a format of nginx's, read without regular expressions: literals, and values up to the next one.

Lines of any other form (an escape, several attempts, a blank within a value) are read by the SQL of
``sojourn.readers.formats.record_sql``, whose rules these are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from sojourn.model.arrays import Bools, Ints
from sojourn.model.frame import APP, WHOLE
from sojourn.readers import scan
from sojourn.readers.arrow import series
from sojourn.readers.formats.fields import DURATIONS, INSTANTS
from sojourn.readers.formats.line_format import UPSTREAM, LineFormat
from sojourn.readers.formats.record_sql import NOT_ANSWERED
from sojourn.readers.formats.template import Variable, variables
from sojourn.readers.lines import Block
from sojourn.readers.record import LIST_KEYS, RECORD, TIMES
from sojourn.readers.shape import (
    COLUMN_OF,
    KINDS,
    Scanned,
    Shape,
    filled_text,
    is_sound,
    no_time,
    none,
    others_of,
    same,
    shape_lines,
    table_of,
)

KEY_OF = {
    "end": "time",
    "connect": "upstream_connect_time",
    "header": "upstream_header_time",
    "response": "upstream_response_time",
}
CLOCKS = {"s": scan.SECONDS, "clf": scan.CLOCK}  # of the instants that are read here
OF_ONE_ATTEMPT = {
    scan.ATTEMPT_TIMES: scan.SECONDS,
    scan.RESPONSE_TIMES: scan.SECONDS,
    scan.ATTEMPT_ADDRESSES: scan.ADDRESS,
}
WORDS = ("method", "uri", "protocol")  # of the request


def scanned_text(block: Block, columns: Sequence[str], log: LineFormat) -> tuple[pl.DataFrame, Ints] | None:
    """Return the records of a block that have the format, and the positions in the block of the other lines.

    The table has ``columns`` as from ``scanned``, and ``number``. None: the format or a column is not read here.
    """
    shape = _shape_of(log)
    if shape is None or (RECORD in columns and log.has("connection") and not log.has("request_id")):
        return None
    lines, like = shape_lines(block, shape)
    if "request" in shape.slot_of:
        into = np.array([shape.slot_of[f"request_{word}"] for word in WORDS], np.int32)
        scan.split_words(lines.data, lines.spans, lines.rows, shape.slot_of["request"], into, lines.numbers)
        own = {word: shape.slot_of[f"request_{word}"] for word in WORDS} | shape.slot_of
        lines = replace(lines, shape=replace(shape, slot_of=own))
    sound = is_sound(lines, with_identity=RECORD in columns and log.has("request_id"))
    for key in (f"upstream_{name}_time" for name in TIMES):
        if key in lines.shape.slot_of:  # nginx writes - where it has none
            begin, end = lines.spans[:, lines.shape.slot_of[key], :][lines.rows].T
            sound &= begin < end
    like[lines.rows[~sound]] = False
    usable = replace(lines, rows=lines.rows[sound])
    table = table_of(block, usable, {name: _column(usable, name, log) for name in columns})
    return table, others_of(block, like)


@functools.lru_cache(maxsize=64)
def _shape_of(log: LineFormat) -> Shape | None:
    """Return the shape of a format's lines; None if it has parts that only a regular expression divides."""
    others = log.first("proxy_queue", "llm_total", "llm_inference")
    if log.json or log.prefix or not log.lists or log.vantage == APP or others:
        return None
    if any(variable.field.optional or variable.field.quoted for variable in log.variables):
        return None
    parts = list(log.parts)
    between = [b""]
    values: list[Variable] = []
    for part in parts:
        if isinstance(part, str):
            between[-1] += part.encode()
            continue
        if values and not between[-1]:
            return None
        values.append(part)
        between.append(b"")
    first = {variable.field.name: variable for variable in variables(parts)}
    slot_of: dict[str, int] = {}
    slots, kinds = [], []
    for value in values:
        kind, is_first = _kind(value), first[value.field.name] is value
        if kind is None:
            return None
        if is_first:
            slot_of[KEY_OF.get(value.field.name, value.field.name)] = len(slot_of)
        slots.append(len(slot_of) - 1 if is_first else -1)
        kinds.append(kind)
    if not {"time", "request_time", "status"} <= slot_of.keys():
        return None
    if "body_bytes_sent" in slot_of:
        slot_of.setdefault("bytes_sent", slot_of["body_bytes_sent"])
    count = len(set(slot_of.values()))
    if "request" in slot_of:
        slot_of |= {f"request_{word}": count + number for number, word in enumerate(WORDS)}
    return Shape(
        between=np.frombuffer(b"".join(between), np.uint8),
        ends=np.cumsum([len(part) for part in between], dtype=np.int32),
        stops=np.array([*(part[0] for part in between[1:-1]), _last_stop(between[-1], values[-1])], np.uint8),
        slots=np.array(slots, np.int32),
        kinds=np.array(kinds, np.int32),
        slot_of=slot_of,
    )


def _last_stop(after: bytes, value: Variable) -> int:
    """Return the byte that ends the last value of a line; without a literal after it, the end of the line."""
    if after:
        return after[0]
    return scan.LINE_FEED if value.field.pattern in ("", ".*?") else scan.CARRIAGE_RETURN


def _kind(value: Variable) -> int | None:
    """Return the kind of a value; None if it is not read here."""
    field = value.field
    if field.name in INSTANTS:
        return CLOCKS.get(field.unit)
    if field.name in DURATIONS and field.unit != "s":
        return None
    if field.name == "body_bytes_sent":
        return scan.WHOLE
    kind = KINDS.get(KEY_OF.get(field.name, field.name), scan.TEXT)
    return OF_ONE_ATTEMPT.get(kind, kind)


def _column(lines: Scanned, name: str, log: LineFormat) -> pl.Series:
    if name == RECORD and not log.has("request_id"):
        return none(lines, pl.UInt64)
    if name in _OWN:
        return _OWN[name](lines, log)
    return COLUMN_OF.get(name, filled_text)(lines, name)


def _answered(lines: Scanned) -> Bools:
    return ~np.isin(lines.number("status")[0], NOT_ANSWERED)


def _header(lines: Scanned, log: LineFormat) -> pl.Series:
    if log.vantage == WHOLE:
        values, null = lines.number("request_time")
        return series(values, null | ~_answered(lines) | ~_proxied(lines, log))
    if log.has("header"):
        return series(*lines.number("upstream_header_time"))
    values, null = lines.number("upstream_response_time")
    return series(values, null | ~_answered(lines))


def _response(lines: Scanned, log: LineFormat) -> pl.Series:
    if log.vantage == WHOLE:
        values, null = lines.number("request_time")
        return series(values, null | ~_proxied(lines, log))
    return series(*lines.number(_timed(log)))


def _timed(log: LineFormat) -> str:
    """Return the key whose value says how long the backend took."""
    if log.has("upstream_addr"):
        return "upstream_response_time"
    return KEY_OF[log.first(*UPSTREAM) or "response"]


def _proxied(lines: Scanned, log: LineFormat) -> Bools:
    """Return which requests went to a backend; all, where the log does not say it."""
    if log.has("upstream_addr"):
        return ~lines.blank("upstream_addr")
    return np.ones(len(lines.rows), np.bool_) if log.vantage == WHOLE else ~lines.blank(_timed(log))


def _connect(lines: Scanned, log: LineFormat) -> pl.Series:
    value, null = lines.number("upstream_connect_time")
    return series(value, null | (log.vantage == WHOLE))


def _texts(key: str) -> Callable[[Scanned, LineFormat], pl.Series]:
    """Return the computation of the text of an upstream time."""

    def column(lines: Scanned, log: LineFormat) -> pl.Series:
        last = key == "upstream_response_time"
        if log.vantage == WHOLE:
            return same(lines, "-") if last else none(lines, pl.String)
        if last and not log.has("upstream_addr"):
            return lines.text([_timed(log)], lines.blank(_timed(log)))
        if key == "upstream_header_time" and not log.has("header"):
            if not log.has("response"):
                return none(lines, pl.String)
            return lines.text(["upstream_response_time"], ~_answered(lines))
        return lines.text([key])

    return column


_OWN: dict[str, Callable[[Scanned, LineFormat], pl.Series]] = {
    "header": _header,
    "response": _response,
    "attempts": lambda lines, log: series(_proxied(lines, log).astype(np.int16)),
    **dict.fromkeys(("retries", "redirects", "redirected"), lambda lines, _: no_time(lines)),
    "upstream": lambda lines, _: filled_text(lines, "upstream_addr"),
    "connect": _connect,
    **{key: _texts(key) for key in LIST_KEYS if key.endswith("_time")},
    "vantage": lambda lines, log: same(lines, log.vantage),
    "time_step": lambda lines, log: same(lines, log.step),
}
