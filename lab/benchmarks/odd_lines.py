"""Odd lines of a real log: retried, abandoned and timed-out requests, escapes, text beyond ASCII, damaged lines.

Both generators put them into their logs in these parts, so that a reader is not measured on lines that are all alike.
"""

from __future__ import annotations

import json

# Kind -> thousandths of the lines; every other line is usual.
ODD = {"retried": 10, "abandoned": 5, "timed out": 5, "escaped": 5, "not ASCII": 5, "damaged": 1}
THOUSAND = 1000
ESCAPED, NOT_ASCII = '?q="blue shoes"', "?q=größe"  # appended to the URI
OTHER_BACKEND = "10.1.9.9:8080"  # of the attempt before
REFUSED_AFTER = "0.001"  # s, until the other backend answers 502


def kind_of(number: int) -> str | None:
    """Return the kind of a line by a number that is random among ``THOUSAND``; None: a usual line."""
    for kind, thousandths in ODD.items():
        if number < thousandths:
            return kind
        number -= thousandths
    return None


def odd_line(record: dict[str, str], kind: str | None) -> str:
    """Return the record of an answered request as a line of a kind of ``ODD``, as nginx writes it; None: unchanged."""
    if kind == "retried":
        retried = {
            "upstream_addr": OTHER_BACKEND,
            "upstream_status": "502",
            "upstream_connect_time": REFUSED_AFTER,
            "upstream_header_time": REFUSED_AFTER,
            "upstream_response_time": REFUSED_AFTER,
        }
        record = {**record, **{key: f"{before}, {record[key]}" for key, before in retried.items()}}
    elif kind in {"abandoned", "timed out"}:
        status = {"status": "499", "upstream_status": "-"} if kind == "abandoned" else {"status": "504"}
        nothing = dict.fromkeys(("queueing_delay", "service_time", "worker"), "")
        record = {**record, "upstream_status": "504", **status, "upstream_header_time": "-", **nothing}
    elif kind in {"escaped", "not ASCII"}:
        record = {**record, "uri": record["uri"] + (ESCAPED if kind == "escaped" else NOT_ASCII)}
    line = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
    return line[: len(line) // 2] if kind == "damaged" else line
