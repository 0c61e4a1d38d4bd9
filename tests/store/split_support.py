"""A log and a store that was loaded from it, and the comparison of what is said of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))

# The path comes first.
import sojourn
from analysis_support import BASE, line
from simulator import BAD_LINES, EPOCH, Settings, as_lines, simulated_log
from sojourn.model.groups import GROUPS

__all__ = [
    "BAD_LINES", "BASE", "EPOCH", "Settings", "as_lines", "assert_same_split", "differences", "export", "line",
    "simulated_log", "without_duplicates",
]  # fmt: skip

TOLERANCE = 1e-6


def assert_same_split(
    log: Path, dsn: str, *, spans: Path | None = None, records: bool = True, **arguments: object
) -> int:
    """The split of a log is that of the store it was loaded into; of a part (``records=False``), in one grouping.

    Returns:
        The number of requests.
    """
    by = GROUPS if records else GROUPS[:1]
    wanted = sojourn.split(log, spans=[spans] if spans else (), by=by, **arguments).to_dict()  # type: ignore[arg-type]
    result = sojourn.split(dsn, by=by, **arguments)  # type: ignore[arg-type]
    stored = result.to_dict()
    if not records:  # a store does not know which part of a log its refused lines are of
        for each in (wanted, stored):
            del each["records"]
            each["audit"]["checks"] = [check for check in each["audit"]["checks"] if check["name"] != "refused"]
    assert list(differences(without_duplicates(wanted), without_duplicates(stored))) == []
    return result.requests


def without_duplicates(shown: dict[str, Any]) -> dict[str, Any]:
    """A split's JSON but for the records that came twice: a store drops them before they can be counted."""
    audit = {name: value for name, value in shown["audit"].items() if name != "duplicates"}
    audit["checks"] = [check for check in audit["checks"] if check["name"] != "duplicates"]
    return {**shown, "audit": audit}


def export(
    request_id: str | None, start: float, seconds: float, *, trace: str = "", parent: str = "", **attributes: object
) -> bytes:
    """An OTLP/JSON line with one SERVER span; instants are seconds after ``BASE``."""
    values: dict[str, object] = {f"queueing.{name}": value for name, value in attributes.items() if name != "route"}
    if "route" in attributes:
        values["http.route"] = attributes["route"]
    if request_id is not None:
        values["http.request.header.x-request-id"] = request_id
    listed = [
        {"key": key, "value": {"stringValue" if isinstance(value, str) else "doubleValue": value}}
        for key, value in values.items()
    ]
    begin = round((BASE + start) * 1e6) * 1000
    span = {
        "traceId": trace, "spanId": f"{hash((request_id, start, parent)) & 0xFFFFFFFF:016x}", "parentSpanId": parent,
        "name": "GET", "kind": 2, "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + round(seconds * 1e6) * 1000), "attributes": listed,
    }  # fmt: skip
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode() + b"\n"


def differences(one: object, other: object, path: str = "") -> Iterator[str]:
    """Where two JSON objects differ by more than ``TOLERANCE``."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from differences(one.get(key, "nothing"), other.get(key, "nothing"), f"{path}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from differences(first, second, f"{path}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > TOLERANCE * max(1, abs(one)):
            yield f"{path}: {one} is not {other}"
    elif one != other:
        yield f"{path}: {one!r} is not {other!r}"
