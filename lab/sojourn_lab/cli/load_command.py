"""`sojourn lab load` and `sojourn lab listen`: load on, and samples of, a running system."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sojourn_lab.cli.common import FAILURE, USAGE, AsJson, fail, plainly, print_json
from sojourn_lab.load.on_request import LONGEST, offer_table, offered
from sojourn_lab.measure.listen import ListenSampler
from sojourn_lab.runtime.interrupts import Interrupted, Interrupts
from sojourn_lab.scenario.load import ClosedLoad, PoissonLoad

CASE_NAME = r"[a-z0-9][a-z0-9._-]{0,59}"


@plainly
def offer_load(
    url: Annotated[str, typer.Argument(help="URL of the proxy of the lab's app.", metavar="URL")],
    *,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10_000, help="Closed loop of N users: each waits for its answer."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="RATE", min=0.001, max=100_000.0, help="Open loop of RATE Poisson arrivals a second."),
    ] = None,
    service_time: Annotated[float, typer.Option(metavar="S", min=0.0, max=60.0, help="Seconds the app sleeps.")] = 0.1,
    duration: Annotated[float, typer.Option(metavar="S", min=0.1, max=LONGEST, help="Seconds of load.")] = 30.0,
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0.01, max=600.0, help="Seconds a client waits for an answer.")
    ] = 60.0,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The service in the log: lower case, digits, '.', '_', '-'.")
    ] = "load",
    client_log: Annotated[Path | None, typer.Option(help="Write one JSON line per request to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Offer load to the lab's app behind a running proxy. Exit 1 if the generator was the bottleneck."""
    if not re.fullmatch(CASE_NAME, name):
        fail(f"--name {name}: use lower case letters, digits, '.', '_' and '-' only", USAGE)
    if (concurrency is None) == (rate is None):
        fail("give --concurrency (closed loop) or --rate (open loop), and not both", USAGE)
    load = ClosedLoad(concurrency) if concurrency is not None else PoissonLoad(rate or 0.0)
    summary = offered(
        url, load, name=name, service_time=service_time, duration=duration, timeout=timeout, client_log=client_log
    )
    if as_json:
        print_json(summary)
    else:
        Console().print(offer_table(summary))
    if not summary.answered:
        fail(f"no request was answered: {summary.errors}", FAILURE)
    if summary.void:
        fail("void, the generator was the bottleneck: " + "; ".join(summary.void), FAILURE)


@plainly
def sample_listen_queues(
    sockets: Annotated[
        list[str], typer.Argument(help="Listening ports of this machine, with a name.", metavar="NAME=PORT...")
    ],
    *,
    out: Annotated[Path, typer.Option(help="Append JSON lines to this file.")],
    every: Annotated[float, typer.Option(metavar="S", min=0.05, max=3600.0, help="Seconds between samples.")] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option("--for", metavar="S", min=0.05, help="Stop after S seconds. Default: at a signal."),
    ] = None,
    gone: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.5, help="Fail if none of the sockets exists for S seconds. Default: wait."),
    ] = None,
    max_bytes: Annotated[
        int, typer.Option(metavar="BYTES", min=10_000, help="Begin a new file after BYTES; rename the old one to .1.")
    ] = 1 << 26,
) -> None:
    """Sample the accept queues of listening sockets: waiting connections and the backlog."""
    ports = _ports(sockets)
    interrupts = Interrupts()
    stop = threading.Event()
    try:
        out.touch()
    except OSError as error:
        fail(f"{out}: {error.strerror}", FAILURE)
    try:
        with interrupts.caught(), ListenSampler(out, ports, every, keep=True, max_bytes=max_bytes) as sampler:
            until = None if seconds is None else time.monotonic() + seconds
            while sampler.unavailable is None and (until is None or time.monotonic() < until):
                if gone is not None and time.monotonic() - sampler.last_seen > gone:
                    fail(f"no socket of {', '.join(sockets)} has existed for {gone:g} s", FAILURE)
                stop.wait(min(0.2, every))
    except Interrupted:
        return
    if sampler.unavailable is not None:
        fail(sampler.unavailable, FAILURE)


def _ports(sockets: list[str]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for each in sockets:
        name, _, port = each.partition("=")
        if not re.fullmatch(CASE_NAME, name) or not port.isdecimal() or not 0 < int(port[:6]) < 65_536:
            fail(f"{each}: not NAME=PORT, such as app=8000", USAGE)
        ports[name] = int(port)
    return ports
