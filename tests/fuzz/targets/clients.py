"""What other load generators print: siege's lines and k6's, read or passed over, or refused with the lab's error."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.websocket.k6 import connections_of, k6_summary
from sojourn_lab.experiments.websocket.plan import ConnectionPlan
from sojourn_lab.load.plan import Plan
from sojourn_lab.load.siege import record_of
from sojourn_lab.scenario.load import ClosedLoad

from fuzz import nasty
from fuzz.refusals import refusal

PACKAGES: tuple[str, ...] = ("sojourn_lab",)
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
_SIEGE = Plan("a", "http://h", [1], ClosedLoad(concurrency=1), 0.1, 0.0, 1.0, 5.0, "c.jsonl", "s.json")
_K6 = ConnectionPlan("a", "ws://h", [1], 5.0, "c.jsonl", "s.json")


def check(data: bytes) -> None:
    """Both tools' readers."""
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines()):
        record = record_of(line, _SIEGE, number, 1767225600.0)
        assert record is None or math.isfinite(record.sent), line
    console, summary = Path(_FOLDER.name, "console"), Path(_FOLDER.name, "summary.json")
    console.write_bytes(data)
    summary.write_bytes(data.split(b"\n")[-1])
    refusal(lambda: k6_summary(_K6, 1.0, connections_of(console, "a"), summary), LabError)


def generated(rng: Random) -> bytes:
    """siege's lines, and k6's with its summary at the end."""
    number = nasty.number(rng) if rng.random() < 0.5 else f"{rng.random():.2f}"
    if rng.random() < 0.4:
        text = (
            f"HTTP/1.1 {rng.choice(('200', '504', number))}     {number} secs:       {number} bytes ==> GET  /sleep\n"
        )
        return text.encode("utf-8", "replace")
    line: dict[str, Any] = {"number": 1, "due": 1.0, "began": 1.0, "upgraded": 2.0, "sent": 2.0, "answered": 3.0}
    line |= {"lost": None, "error": None, "server": None}
    for _ in range(rng.randrange(3)):
        line[rng.choice(tuple(line))] = nasty.value(rng)
    inner: Any = 1 if rng.random() < 0.7 else nasty.value(rng)
    for key in ("count", "dropped_iterations", "metrics"):
        inner = nasty.value(rng) if rng.random() < 0.05 else {key: inner}
    return json.dumps(line).encode() + b"\n" + nasty.dumped(inner, rng)
