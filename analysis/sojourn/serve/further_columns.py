"""Keys that a user added to the log format, such as a tenant: the page compares their values, too."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sojourn.model.errors import SojournError
from sojourn.model.frame import is_extra
from sojourn.readers.compression import DAMAGE
from sojourn.readers.inputs import opened_inputs
from sojourn.readers.record import KEYS

BEGINNING = 1 << 18  # bytes of a log that are looked at
MOST = 16  # columns


def further_columns(sources: Sequence[str]) -> tuple[str, ...]:
    """Return keys in the first lines of logs that no canonical column has, in alphabetical order.

    Args:
        sources: as of a command; standard input is not read.
    """
    keys: set[str] = set()
    try:
        inputs = opened_inputs([source for source in sources if source != "-"])
    except SojournError:  # reading reports it
        return ()
    try:
        for log in inputs.logs:
            for line in log.stream.read(BEGINNING).split(b"\n")[:-1]:
                keys.update(_keys_of(line))
    except (*DAMAGE, OSError):  # reading reports it
        return ()
    finally:
        inputs.close()
    return tuple(sorted(keys))[:MOST]


def _keys_of(line: bytes) -> set[str]:
    """Return the further keys of a record; empty if the line is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    if not isinstance(record, dict) or not {"time", "request_time"} <= record.keys():
        return set()
    return {key for key, value in record.items() if key not in KEYS and is_extra(key) and isinstance(value, str)}
