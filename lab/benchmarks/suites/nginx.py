"""The cost of the two include files in nginx: CPU per request, requests per second, latency at a moderate load.

One worker has a core of its own; wrk, which the worker keeps waiting, and a static upstream share another.
The peer is the same proxy with nginx's stock `combined` log, buffered alike. CPU per request is reported first and for
each part, because other load on the machine affects it less than requests per second. Instructions per request are
independent of other load, but do not include the kernel's.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import replace

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.nginx import nginx_program, nginx_version

from benchmarks import instructions
from benchmarks.proxy_load import Load, Proxy, Setup, median_load, offered, proxies, why_not
from benchmarks.rows import Measurements, Row, Settings, Slope, compared_row

STOCK, OURS, LEAN, FLOOR = "stock", "both includes", "the lean record", "floor: both"
INCLUDE = "include sojourn/sojourn.conf;"
PROXY = "include sojourn/sojourn_proxy.conf;"
LEAN_INCLUDES = ("include sojourn/sojourn_lean.conf;", "include sojourn/sojourn_lean_proxy.conf;")
CPU_GOALS = {OURS: 1.12, LEAN: 1.15}
"""Setup -> the goal of its CPU per request, of stock."""
BARE_HEADERS = (
    'proxy_set_header X-Request-Start t=$msec; proxy_set_header X-Queue-Start "";'
    " proxy_set_header X-Request-ID $request_id;"
    " proxy_set_header traceparent $http_traceparent; proxy_set_header tracestate $http_tracestate;"
)
# Variables of nginx for the keys of the record, to write the same record without a map.
BARE = {
    "request_id": "$request_id", "trace_id": "", "span_id": "", "service": "$server_name",
    "route": "$upstream_http_x_route", "uri": "$request_uri", "remote_addr": "$remote_addr", "request_start": "$msec",
    "queueing_delay": "$upstream_http_x_queueing_delay", "service_time": "$upstream_http_x_service_time",
    "worker": "$upstream_http_x_worker", "stamp": "own", "proxy_start": "$msec",
}  # fmt: skip

SECONDS = 3.0
SATURATED = 0.9
"""Least utilisation of the worker at which the rate is limited by the worker."""
CONNECTIONS = (8, 32, 128, 256)
LOADED = 0.7
"""Utilisation of the worker at a moderate load."""
THINKING = 256
"""Clients at a moderate load: many clients with rare requests are close to an open load."""
COUNTED = (OURS, LEAN, "both includes, nothing redacted", "both includes, the peer trusted", FLOOR)
"""Setups whose instructions are counted."""
REQUESTS = 2_000
"""Requests over which instructions are counted."""


def bare_format() -> str:
    """Return a log format with the keys of the record, from nginx's own variables."""
    text = resource_file("nginx", "sojourn_variables.conf").read_text().partition("log_format sojourn")[2]
    pairs = re.findall(r'"(\w+)":"(\$\w+)"', text)
    fields = ",".join(f'"{key}":"{BARE.get(key, value)}"' for key, value in pairs)
    return f"log_format bare escape=json '{{{fields}}}';"


def header_lines(*names: str) -> str:
    """Return the lines of the include file that set some of the headers sent to the app."""
    lines = resource_file("nginx", "sojourn_proxy.conf").read_text().splitlines()
    return " ".join(line for line in lines if line.startswith("proxy_set_header") and line.split()[1] in names)


def setups() -> dict[str, Setup]:
    """Return the stock proxy, the one with both include files, and the parts in between."""
    start, identity = ("X-Request-Start", "X-Queue-Start"), ("X-Request-ID",)
    bare = bare_format()
    return {
        STOCK: Setup(),
        OURS: Setup(INCLUDE, PROXY, "sojourn"),
        LEAN: Setup(*LEAN_INCLUDES, "sojourn"),
        "X-Request-Start": Setup(INCLUDE, header_lines(*start)),
        "+ X-Request-ID": Setup(INCLUDE, header_lines(*start, *identity)),
        "+ traceparent, tracestate": Setup(INCLUDE, header_lines(*start, *identity, "traceparent", "tracestate")),
        "sojourn_proxy.conf, all of it": Setup(INCLUDE, PROXY),
        "the JSON log alone": Setup(INCLUDE, "", "sojourn"),
        "both includes, nothing redacted": Setup(
            f'{INCLUDE} map "" $sojourn_redact {{ default off; }}', PROXY, "sojourn"
        ),
        "both includes, the log not buffered": Setup(INCLUDE, PROXY, "sojourn", buffer=""),
        "both includes, the peer trusted": Setup(INCLUDE, PROXY, "sojourn", trusted="127.0.0.1 1;\n"),
        "floor: the same headers without a map": Setup("", BARE_HEADERS),
        "floor: the same record without a map": Setup(bare, "", "bare"),
        FLOOR: Setup(bare, BARE_HEADERS, "bare"),
    }


def run(settings: Settings) -> Measurements:
    """Measure throughput, processor time part by part, latency, and growth with connections."""
    measurements = Measurements()
    if reason := why_not():
        measurements.skipped.append(reason)
        return measurements
    program = nginx_program()
    measurements.versions["nginx"] = nginx_version(program) if program else ""
    seconds = max(SECONDS * settings.scale, 0.1)
    with proxies(settings.folder, setups()) as running:
        offered(running[STOCK], seconds / 2)  # warms up the upstream and its connections for all
        loads: dict[str, list[Load]] = {name: [] for name in running}
        for turn in range(settings.repeats):
            for name, proxy in running.items():
                settings.progress(f"{turn + 1}/{settings.repeats} {name}")
                loads[name].append(offered(proxy, seconds))
        for name in CPU_GOALS:
            measurements.rows.append(_cpu(name, loads))
            measurements.rows.append(_throughput(name, loads, measurements))
            measurements.rows += _latency(name, running, 0.7 * median_load(loads[name], "rate"), seconds, settings)
        measurements.rows += [
            _part(name, each, loads[STOCK]) for name, each in loads.items() if name not in (STOCK, *CPU_GOALS)
        ]
        measurements.slopes += _growth(running, seconds, settings)
    measurements.rows += _instructions(settings, measurements)
    return measurements


def _cpu(name: str, loads: dict[str, list[Load]]) -> Row:
    """Return the row of the worker's CPU per request of a setup with a goal."""
    row = _part(f"{name}: CPU per request, 32 kept-alive clients", loads[name], loads[STOCK])
    floor = statistics.median(a.cpu / b.cpu for a, b in zip(loads[FLOOR], loads[STOCK], strict=True))
    note = (
        f"{row.note}. The floor, the same headers and record without a map, is {floor:.2f} of stock, most of it "
        "for a random request id and for 29 fields instead of 8."
    )
    return replace(
        row, peer="the same proxy, log combined", goal=CPU_GOALS[name], at="most",
        note=note if name == OURS else row.note,
    )  # fmt: skip


def _instructions(settings: Settings, measurements: Measurements) -> list[Row]:
    """Return rows of the instructions of the worker per request; none where they cannot be counted."""
    if reason := instructions.why_not():
        measurements.skipped.append(reason)
        return []
    counts = {}
    for number, name in enumerate((STOCK, *COUNTED)):
        settings.progress(f"instructions, {name}")
        folder = settings.folder / f"instructions{number}"
        counts[name] = instructions.instructions(folder, setups()[name], settings.sized(REQUESTS, 40))
    return [
        Row(
            f"instructions per request, {name}",
            "instructions",
            counts[name],
            STOCK,
            counts[STOCK],
            counts[name] / counts[STOCK],
            note="of the worker, without the kernel's; counted by valgrind" if name == OURS else "",
        )
        for name in COUNTED
    ]


def _throughput(name: str, loads: dict[str, list[Load]], measurements: Measurements) -> Row:
    """Return the row of the throughput, without its goal if other load kept the worker from saturation."""
    ours, theirs = loads[name], loads[STOCK]
    saturated = min(median_load(ours, "busy"), median_load(theirs, "busy")) >= SATURATED
    if not saturated:
        measurements.skipped.append(
            f"throughput of a saturated worker: {_busy(ours, theirs)}, the machine had other work"
        )
    return compared_row(
        f"{name}: requests/s, one worker saturated, 32 kept-alive clients",
        "requests/s",
        [load.rate for load in ours],
        "the same proxy, log combined",
        [load.rate for load in theirs],
        goal=0.90 if saturated and name == LEAN else None,
        note=_busy(ours, theirs),
    )


def _busy(ours: list[Load], theirs: list[Load]) -> str:
    return f"the worker was {median_load(ours, 'busy'):.0%} busy, the stock one {median_load(theirs, 'busy'):.0%}"


def _part(name: str, ours: list[Load], theirs: list[Load]) -> Row:
    rates = statistics.median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))
    note = f"{rates:.2f} of the stock requests/s; {_busy(ours, theirs)}"
    own, stock = ([1e6 * load.cpu for load in loads] for loads in (ours, theirs))
    return compared_row(name, "µs of the worker", own, STOCK, stock, note=note)


def _latency(name: str, running: dict[str, Proxy], rate: float, seconds: float, settings: Settings) -> list[Row]:
    """Return rows of the latency added at the rate at which our worker is 70 % busy, the same rate for both.

    Requests that arrive one by one cost more than those of a saturated worker, which arrive in bunches: a trial run
    determines the rate.
    """
    trial = offered(running[name], seconds, THINKING, THINKING / rate)
    rate = trial.rate * LOADED / trial.busy
    loads: dict[str, list[Load]] = {name: [], STOCK: []}
    for turn in range(settings.repeats):
        for setup, each in loads.items():
            settings.progress(f"{turn + 1}/{settings.repeats} {setup}, {rate:,.0f} requests/s")
            each.append(offered(running[setup], seconds, THINKING, THINKING / rate))
    note = (
        f"{THINKING} clients of wrk, each thinking an exponential time, together "
        f"{median_load(loads[name], 'rate'):,.0f} requests/s; {_busy(loads[name], loads[STOCK])}; "
        "1 % of a response of 10 ms"
    )
    rows = []
    for what in ("p50", "mean", "p99"):
        ours, theirs = ([1e3 * load.latency[what] for load in loads[setup]] for setup in (name, STOCK))
        added = [a - b for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            Row(
                f"{name}: added at 70 % load, {what} ({statistics.median(ours):.3f} ms, "
                f"stock {statistics.median(theirs):.3f} ms)",
                "ms",
                statistics.median(added),
                low=min(added),
                high=max(added),
                goal=0.1 if what == "p50" and name == LEAN else None,
                at="most",
                note=note,
            )
        )
    return rows


def _growth(running: dict[str, Proxy], seconds: float, settings: Settings) -> list[Slope]:
    slopes = []
    for name in (OURS, STOCK):
        costs = []
        for connections in CONNECTIONS:
            settings.progress(f"{name}, {connections} connections")
            costs.append(1e6 * offered(running[name], seconds, connections).cpu)
        sizes = tuple(float(size) for size in CONNECTIONS)
        slopes.append(Slope(f"a request, {name}", "kept-alive connections", sizes, tuple(costs), "µs"))
    return slopes
