"""`python -m sojourn_lab.load.siege PLAN.json`: offer a closed loop with siege, as the article did.

siege prints the duration of every request, in steps of 10 ms, when it ends. The instant at which the line arrives
counts as the end of the request, so the client's figures have an error of some hundredths of a second; the split,
computed from nginx's log, is exact. siege has no think time and no different service times.
"""

from __future__ import annotations

import math
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from sojourn_lab.errors import LabError
from sojourn_lab.load.generator.program import announce
from sojourn_lab.load.generator.summary import summary_of
from sojourn_lab.load.plan import ClientRecord, Plan, Window
from sojourn_lab.scenario.load import ClosedLoad

LINE = re.compile(r"HTTP/\S+ +([0-9]{3}) +([0-9]{1,9}(?:\.[0-9]{1,9})?) secs: +([0-9]{1,18}) bytes ==> GET ")
"""What siege prints of a request: status, seconds, bytes."""

MOST = 255
"""siege's own limit of users; more need an entry in its configuration."""


def why_impossible(plan: Plan) -> str | None:
    """Return why siege cannot offer the load of a plan; None if it can."""
    load = plan.load
    if not isinstance(load, ClosedLoad) or load.think_time or load.from_concurrency is not None:
        return "siege offers a closed loop without think time and nothing else"
    if plan.routes or plan.distribution != "constant" or plan.retries is not None:
        return "siege asks for one URL, again and again: no routes, no drawn service times, no retries"
    if load.concurrency > MOST:
        return f"siege has at most {MOST} users"
    return None if shutil.which("siege") else "siege is not installed"


def siege_command(plan: Plan, settings: Path) -> list[str]:
    """Return the command; its output is line-buffered, so that each line arrives when it is written."""
    if not isinstance(plan.load, ClosedLoad):
        raise TypeError(f"not a closed load: {plan.load!r}")
    # siege counts the seconds of the clock and may end up to one early; what comes after the window does not count.
    seconds = math.ceil(plan.warmup + plan.duration) + 1
    query = f"?dependency={plan.dependency:.6f}" if plan.dependency else ""
    return [
        *("stdbuf", "-oL", "siege", "-R", str(settings), "-b", "-v"),
        *("-c", str(plan.load.concurrency), "-t", f"{seconds}S"),
        *("-H", f"X-Lab-Case: {plan.case}"),
        f"{plan.url}/sleep/{plan.service_time:.6f}{query}",
    ]


def settings_text(plan: Plan) -> str:
    """Return siege's configuration; the user's own is not read."""
    return f"""\
verbose = true
color = off
json_output = false
logging = false
show-logfile = false
parser = false
protocol = HTTP/1.1
connection = close
cookies = false
cache = false
limit = {MOST}
timeout = {max(1, math.ceil(plan.timeout))}
failures = 1000000
"""


def record_of(line: str, plan: Plan, number: int, now: float) -> ClientRecord | None:
    """Return the request of a line of siege's output, None for any other line; `now`, unix s, is its end."""
    match = LINE.search(line)
    if match is None:
        return None
    sent = now - float(match[2])
    return ClientRecord(
        case=plan.case,
        id=f"{plan.case}-{number}",
        user=None,
        service_time=round(plan.service_time, 6),
        intended=round(sent, 6),
        sent=round(sent, 6),
        done=round(now, 6),
        status=int(match[1]),
        bytes=int(match[3]),
    )


def main(arguments: list[str]) -> int:
    """Return the exit code: 2 for a plan that siege cannot offer."""
    try:
        (path,) = arguments
        plan = msgspec.json.decode(Path(path).read_bytes(), type=Plan)
        reason = why_impossible(plan)
        if reason is not None:
            raise LabError(reason)
    except (LabError, ValueError, OSError) as error:
        sys.stderr.write(f"siege: {error}\n")
        return 2
    settings = Path(plan.client_log).with_suffix(".siegerc")
    settings.write_text(settings_text(plan))
    start = time.time()
    since = start + plan.warmup
    announce(plan, since)
    records: list[ClientRecord] = []
    encode = msgspec.json.Encoder().encode
    with (
        Path(plan.client_log).open("wb") as log,
        subprocess.Popen(siege_command(plan, settings), stdout=subprocess.PIPE, text=True, errors="replace") as siege,
    ):
        for line in siege.stdout or ():
            record = record_of(line, plan, len(records), time.time())
            if record is not None:
                records.append(record)
                log.write(encode(record) + b"\n")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    window = Window(round(since, 6), round(since + plan.duration, 6))
    cpu = (used.ru_utime + used.ru_stime) / (time.time() - start)
    summary = summary_of(plan, window, records=records, dropped=[], loop_lag=[], cpu=cpu)
    Path(plan.summary).write_bytes(msgspec.json.encode(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
