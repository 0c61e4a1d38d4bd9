"""A log and its spans through the split: it never breaks off, its identity closes, and its JSON has no NaN.

Lines of spans are recognised by ``resourceSpans``.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import sojourn
from sojourn.analyses.audit.result import IDENTITY_TOLERANCE
from sojourn.model.groups import GROUPS

from fuzz.targets import log_lines, spans

PACKAGES: tuple[str, ...] = ()
FRESH = 2  # of those a test draws: each takes a while
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")


def check(data: bytes) -> None:
    """Whatever the log holds."""
    log, reported = Path(_FOLDER.name, "access.jsonl"), Path(_FOLDER.name, "spans.jsonl")
    lines = data.splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if b"resourceSpans" not in line))
    reported.write_bytes(b"".join(line for line in lines if b"resourceSpans" in line))
    result = sojourn.split(log, spans=reported, by=GROUPS)
    outcome: dict[str, Any] = result.to_dict()
    json.dumps(outcome, allow_nan=False)
    records = outcome["records"]
    assert records["read"] == records["accepted"] + records["rejected"], records
    assert records["rejected"] == sum(records["reasons"].values()), records
    if result.requests:
        assert outcome["audit"]["identity_max_error"] <= IDENTITY_TOLERANCE, outcome["audit"]
        assert str(result)


def generated(rng: Random) -> bytes:
    """Requests close to each other, some of them odd, and spans of some of them."""
    lines: list[bytes] = []
    for number in range(rng.choice((1, 2, 5, 20, 60))):
        end = 1767225600 + rng.uniform(0, 30)
        record: dict[str, Any] = {
            **log_lines.SOUND, "time": f"{end:.3f}", "request_start": f"{end - 0.223:.3f}",
            "proxy_start": f"{end - 0.223:.3f}",
            "request_id": f"r{number}", "status": rng.choice(("200", "200", "499", "504", "101")),
            "connection": str(number),
            "worker": rng.choice(("1", "2", "-")), "route": rng.choice(("/a", "/b")),
            "upstream_addr": rng.choice(("10.0.0.1:80", "10.0.0.2:80", "-")),
        }  # fmt: skip
        if rng.random() < 0.3:
            key = rng.choice(tuple(log_lines.SOUND))
            record[key] = log_lines.a_value(key, rng)
        lines.append(json.dumps(record).encode())
        if rng.random() < 0.3:
            lines.append(spans.export(rng, f"r{number}", end))
    return b"\n".join(lines) + b"\n"
