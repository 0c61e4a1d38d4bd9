"""Open the same connections with k6, and convert its output to the records of the lab's own generator."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.experiments.websocket.plan import Connection, ConnectionPlan, ConnectionSummary, ServerTimes
from sojourn_lab.load.generator.summary import quantiles_of
from sojourn_lab.load.plan import Window
from sojourn_lab.resources import resource_file


class Line(msgspec.Struct):
    """One connection as lab/k6/websocket.js reports it; instants in unix ms."""

    number: int
    due: float
    began: float
    upgraded: float | None = None
    sent: float | None = None
    answered: float | None = None
    lost: float | None = None
    error: str | None = None
    server: ServerTimes | None = None


class Count(msgspec.Struct):
    """A counter of k6; a metric that did not occur is missing."""

    count: int = 0


class Metrics(msgspec.Struct):
    """The metric that is read from k6's summary: connections it could not begin because all users were busy."""

    dropped_iterations: Count = msgspec.field(default_factory=Count)


class Summary(msgspec.Struct):
    """The summary that k6 writes at its end."""

    metrics: Metrics


def why_k6_unavailable() -> str | None:
    """Return why k6 cannot open the connections, None if it can."""
    return None if shutil.which("k6") else "k6 is not installed, or not on PATH"


def k6_hold(plan: ConnectionPlan, capacity: float) -> float:
    """Return how long after the ramp k6 should hold its connections, s: until the queue is gone, and then `hold`.

    k6 needs it beforehand. What came beyond the capacity C by the end of a ramp to R in T seconds is
    (R - C)²·T / (2R), and takes that by C to be served. Half as much again and a second, for good measure.
    """
    beyond = max(0.0, plan.rate - capacity) ** 2 * plan.ramp / (2.0 * plan.rate)
    return 1.0 + 1.5 * beyond / capacity + plan.hold


def k6_command(plan: ConnectionPlan, hold: float, console: Path, summary: Path) -> list[str]:
    """Return the command with which k6 executes the plan, its lines going to `console`."""
    # A virtual user for every connection: k6 does not make any in time while it makes users.
    expected = math.ceil(plan.rate * plan.ramp / 2.0) + 10
    variables = {
        "URL": plan.url,
        "CASE": plan.case,
        "RATE": repr(plan.rate),
        "RAMP": repr(plan.ramp),
        "HOLD": repr(hold),
        "CONNECTIONS": str(expected),
    }
    settings = [part for key, value in variables.items() for part in ("-e", f"{key}={value}")]
    return [
        *("k6", "run", "--quiet", "--no-usage-report", "--no-color", "--log-format", "raw"),
        # An empty address: no server of its own, which would want a fixed port.
        *("--address", "", "--console-output", str(console), "--summary-export", str(summary)),
        *settings,
        str(resource_file("k6", "websocket.js")),
    ]


def connections_of(console: Path, case: str) -> list[Connection]:
    """Return the connections of k6's lines; LabError for other output."""
    try:
        decoder = msgspec.json.Decoder(Line)
        lines = [decoder.decode(line) for line in console.read_bytes().splitlines() if line.startswith(b"{")]
    except (OSError, ValueError) as error:
        raise LabError(f"k6 did not write what it should: {error}") from None
    return [_connection(line, case) for line in sorted(lines, key=lambda each: each.number)]


def _connection(line: Line, case: str) -> Connection:
    def seconds(milliseconds: float | None) -> float | None:
        return None if milliseconds is None else milliseconds / 1000.0

    return Connection(
        case,
        line.number,
        line.due / 1000.0,
        line.began / 1000.0,
        upgraded=seconds(line.upgraded),
        sent=seconds(line.sent),
        answered=seconds(line.answered),
        lost=seconds(line.lost),
        error=line.error if line.error or line.answered else "no answer",
        server=line.server,
    )


def k6_summary(plan: ConnectionPlan, hold: float, connections: list[Connection], summary: Path) -> ConnectionSummary:
    """Return the summary, from the lines and from k6's own summary; LabError if it made no connection."""
    if not connections:
        raise LabError("k6 made no connection")
    try:
        dropped = msgspec.json.decode(summary.read_bytes(), type=Summary).metrics.dropped_iterations.count
    except (OSError, ValueError) as error:
        raise LabError(f"k6 left no summary: {error}") from None
    first = connections[0]
    # From the intended instant of one connection back to the start of the ramp.
    since = first.intended - math.sqrt(2.0 * (first.number + 1) * plan.ramp / plan.rate)
    settled = max((each.answered for each in connections if each.answered is not None), default=since + plan.ramp)
    return ConnectionSummary(
        window=Window(since, since + plan.ramp),
        settled=max(settled, since + plan.ramp),
        ended=since + plan.ramp + hold,
        offered=len(connections) + dropped,
        late=quantiles_of(each.began - each.intended for each in connections),
        dropped=dropped,
    )
