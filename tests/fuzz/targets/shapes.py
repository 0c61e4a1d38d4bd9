"""Lines of one shape: what is read of them without a JSON parser is to the last column what the SQL reads.

The first line tells the shape; the others are compared with it.
"""

from __future__ import annotations

import io
import json
from random import Random
from typing import Any

from sojourn.model.frame import COLUMNS
from sojourn.readers.blocks import BlockParser, Plan
from sojourn.readers.inputs import LogInput
from sojourn.readers.lines import blocks_of_lines
from sojourn.readers.record import EXPRESSIONS, IDENTITY_TEXT, KEYS, RECORD, records_query
from sojourn.readers.shape import hashes_of, scanned

from fuzz import nasty
from fuzz.targets import log_lines

PACKAGES: tuple[str, ...] = ()
FRESH = 2  # of those a test draws: each takes a while
_COLUMNS = (*COLUMNS, "tenant", RECORD)
_BY_SQL = BlockParser(Plan(records_query(_COLUMNS, "block", {**EXPRESSIONS, RECORD: IDENTITY_TEXT}), threads=1))


def check(data: bytes) -> None:
    """Every line that is read the short way is one the SQL accepts, and reads alike."""
    for block in blocks_of_lines(LogInput("", io.BytesIO(data), None, None, None)):
        result = scanned(block, _COLUMNS)
        if result is None:
            continue
        table, others = result
        accepted = _BY_SQL.parsed("", block).accepted
        if accepted is not None:
            accepted = accepted.with_columns(hashes_of(accepted[RECORD]).alias(RECORD))
        by_number = {row["number"]: row for row in accepted.to_dicts()} if accepted is not None else {}
        assert len(table) + len(others) == len(block.lines)
        for row in table.cast(dict(accepted.schema)).to_dicts() if accepted is not None and len(table) else ():
            expected = by_number.get(row["number"])
            assert expected is not None, ("refused by the SQL", row)
            differ = {name: (row[name], expected[name]) for name in row if row[name] != expected[name]}
            assert not differ, differ


def generated(rng: Random) -> bytes:
    """Lines with the same keys in the same order, as nginx writes them, some of their values odd."""
    keys = list(log_lines.SOUND) if rng.random() < 0.7 else rng.sample([*KEYS, "tenant"], rng.randrange(3, 20))
    keys += [key for key in ("time", "request_time", "status") if key not in keys]
    if rng.random() < 0.3:
        keys.insert(
            rng.randrange(len(keys)), rng.choice(("tenant", "Tenant", "TIME", "x y", "\u00e9", "a'b", "", "status "))
        )
    lines = [_line(keys, rng, odd=rng.choice((0, 1, 1, 2, 5))) for _ in range(rng.choice((3, 300)))]
    return b"".join([_line(keys, rng, odd=rng.choice((0, 0, 1))), *lines])


def _line(keys: list[str], rng: Random, odd: int) -> bytes:
    record: dict[str, Any] = {key: log_lines.SOUND.get(key, "x") for key in keys}
    for key in rng.sample(keys, min(odd, len(keys))):
        value = log_lines.a_value(key, rng)
        record[key] = value if isinstance(value, str) else nasty.number(rng)
    if rng.random() < 0.03:
        record[rng.choice(keys)] = nasty.value(rng)
    line = json.dumps(record, ensure_ascii=rng.random() < 0.2, separators=(",", ":")).encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        line = nasty.damaged(line, rng, 1).replace(b"\n", b"")
    return line + rng.choice((b"\n", b"\n", b"\n", b"\r\n", b" \n"))
