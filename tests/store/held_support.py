"""The schedule of ``tests/vectors/held.json`` as log lines, and what it holds, per minute, backend and phase."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VECTOR: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors/held.json").read_text("utf-8"))
BEGIN: int = VECTOR["begin"]
HALF_TICK = 0.0005  # s: of an offset that is not significant, nothing is subtracted
Held = dict[tuple[int, str, str], float]
"""(Minute after ``BEGIN``, backend, phase) -> seconds."""


def lines(shift: float = 0.0) -> list[dict[str, str]]:
    """The log, in the order in which the requests ended; ``shift``: so many seconds later."""
    requests = sorted(_requests(), key=lambda request: request[1][5])
    return [_record(number, *request, BEGIN + shift) for number, request in enumerate(requests)]


def _requests() -> Iterator[tuple[str, list[Any]]]:
    """Yield (upstream, request), with instants in seconds after ``BEGIN``."""
    for backend in VECTOR["backends"]:
        for number in range(backend["times"]):
            begin = backend["first"] + number * backend["every"]
            for route, worker, *instants in backend["cycle"]:
                yield backend["upstream"], [route, worker, *(begin + instant for instant in instants)]
        for request in backend.get("extra", ()):
            yield backend["upstream"], request


def _record(number: int, upstream: str, request: list[Any], begin: float) -> dict[str, str]:
    route, worker, arrival, start, headers, ended = request
    return {
        "time": f"{begin + ended:.3f}", "request_id": f"h{number}", "service": VECTOR["service"], "route": route,
        "method": "GET", "uri": route, "status": "200", "request_time": f"{ended - arrival:.3f}",
        "request_start": f"{begin + arrival:.3f}", "upstream_addr": upstream, "upstream_status": "200",
        "upstream_connect_time": "0.000", "upstream_header_time": f"{headers - arrival:.3f}",
        "upstream_response_time": f"{ended - arrival:.3f}", "queueing_delay": f"{start - arrival:.6f}",
        "service_time": f"{headers - start:.6f}", "worker": worker, "proxy": "edge",
    }  # fmt: skip


def scheduled(*minutes: int) -> Held:
    """The seconds of the vector, of all minutes or of some."""
    return {
        (int(minute), backend["upstream"], phase): seconds
        for backend in VECTOR["backends"]
        for minute, phases in backend["held"].items()
        for phase, seconds in phases.items()
        if not minutes or int(minute) in minutes
    }


def differences(held: Held, other: Held) -> dict[tuple[int, str, str], tuple[float | None, float | None]]:
    """Where two are not the same, to the tolerance of the vector and the half millisecond of a stamp's clock."""
    return {
        key: (held.get(key), other.get(key))
        for key in held.keys() | other.keys()
        if key not in held or key not in other or abs(held[key] - other[key]) > VECTOR["tolerance"] + HALF_TICK
    }
