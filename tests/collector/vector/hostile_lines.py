"""Lines that nginx does not write, beside some that it does."""

from __future__ import annotations

import json
from collections.abc import Sequence

LONGEST = 17_000_000  # bytes of a line, max_line_bytes of the configuration
TOO_LONG = "not sent"


def sound(number: int, end: bytes = b"\n") -> bytes:
    """A line of the log."""
    record = {
        "time": f"{1767225600 + number}.123",
        "request_time": "0.1",
        "status": "200",
        "request_id": f"sound-{number}",
    }
    return json.dumps(record).encode() + end


# A line with its end, and the reason of its refusal: "" of a good one, TOO_LONG of one that the agent does not send.
HOSTILE: list[tuple[bytes, str]] = [
    (sound(0), ""),
    (b"{broken\n", "invalid_json"),
    (b"\xff\xfe\xff x\n", "invalid_json"),
    (sound(1)[:-2] + b',"uri":"/\xff"}\n', ""),
    (b"x" * 16777216 + b"\n", "line_too_long"),
    (sound(2), ""),
    (b"y" * 16777215 + b"\n", "line_too_long"),
    (b"\x00" * 16777216 + b"\n", "line_too_long"),
    (b"z" * (LONGEST + 1) + b"\n", TOO_LONG),
    (sound(3), ""),
    (b"\x00\n", "invalid_json"),
    (b"nul \x00 within\n", "invalid_json"),
    (b"\n", "empty_line"),
    (b"  \t\n", "empty_line"),
    (sound(4, b"\r\n"), ""),
    (b"\r\n", "empty_line"),
    (b'"\\ \t\x01 \xe2\x80\xa8 {{ field }} %Y $VAR\n', "invalid_json"),
    (b"[1, 2]\n", "not_an_object"),
    (b'{"line": "x", "host": "other", "position": -1}\n', "missing_time"),
    (b"INSERT INTO requests FORMAT JSONEachRow\n", "invalid_json"),
    (sound(5), ""),
]


def log_of(lines: Sequence[tuple[bytes, str]]) -> bytes:
    """Return the log that has these lines."""
    return b"".join(line for line, _ in lines)
