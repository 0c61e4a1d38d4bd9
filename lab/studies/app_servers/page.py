"""The page on app servers, in Markdown: what a worker is, where requests wait, and what a run measured."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.model.formatting import formatted, milliseconds
from sojourn_lab.errors import LabError
from sojourn_lab.results.criteria import by_base, median_at

from studies.page_output import run_of, versions_text

SCENARIO = "app-servers"
PROGRAMS = ("go", "gunicorn", "java", "nginx", "node", "php", "puma", "python", "tomcat", "unicorn", "uvicorn", "uwsgi")
CONCURRENCY = 8

HEAD = """# App servers: what a worker is, and where requests wait

<!-- Written by PYTHONPATH=lab python -m studies.app_servers RUN: run that again. -->

A request behind nginx waits until something that serves one request at a time is free. Each app server has another
name for it, and another place for the requests that wait. The queueing delay of Sojourn contains all of these places:
it ends at the first line of the app.

| server | what serves one request at a time | number set by | `worker` in the log | where requests wait |
| --- | --- | --- | --- | --- |
"""
FIGURES = """
## Measured

The benchmark of [the article](../../lab/README.md#studies) on each server: 8 users without think time, 100 ms of
service, two requests served at once. The law of a closed loop, R = N·S/c, gives the same response for each of them.
Means in ms; *accept queue*: the most connections that waited in the kernel's queue, of 6 requests that wait.

| server | configuration | queueing delay | service time | response time | queueing by the law | error | accept queue |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
- **The accept queue does not hold all of them.** A server that takes connections before it can serve them has an empty
  accept queue under the same load: `ss -ltn` shows nothing, and the requests wait in the process. [`sojourn
  kernel`](kernel.md) reads the server's own counters.
- **uvicorn** has no number of workers: its app awaits for 70 % of each request, and the loop serves other requests
  meanwhile. The 30 ms for which a request holds the loop limit its capacity, and a wait for the loop after the first
  line of the app counts as service. No law of workers applies.
- **What a server adds** before the app's first line is queueing delay. At one user, where a worker is always free, that
  is {free} ms or less on every server.

To measure it again: `sojourn lab run lab/studies/app_servers/app-servers.toml`, then `PYTHONPATH=lab python -m
studies.app_servers RUN`.

{versions}
"""


@dataclass(frozen=True)
class Description:
    """What a worker is in one server; ``case``: the name of its cases, without the number of users."""

    case: str
    name: str
    worker: str
    setting: str
    identity: str
    place: str


SERVERS = (
    Description(
        "gunicorn-sync", "gunicorn, sync", "a process", "`--workers`", "process",
        "the kernel's accept queue, up to `--backlog`",
    ),
    Description(
        "gunicorn-gthread", "gunicorn, gthread", "a thread", "`--workers` × `--threads`", "process.thread",
        "the process that accepted the connection, up to `--worker-connections`; then the accept queue",
    ),
    Description(
        "uwsgi", "uWSGI", "a process, or a thread of one", "`processes` × `threads`", "process, or process.thread",
        "the accept queue, up to `listen`",
    ),
    Description(
        "php-fpm", "PHP-FPM", "a child process", "`pm.max_children`", "process",
        "the accept queue of the pool, up to `listen.backlog`",
    ),
    Description(
        "unicorn", "unicorn", "a process", "`worker_processes`", "process", "the accept queue, up to `backlog`"
    ),
    Description(
        "puma", "Puma", "a thread", "`workers` × `threads`", "process.thread",
        "the accept queue: it accepts when a thread is free; kept connections in its reactor",
    ),
    Description(
        "node", "Node", "the event loop of a process, while a request holds it", "processes (`cluster`)", "process",
        "the accept queue while a callback holds the loop; then in the sockets, for the loop to read them",
    ),
    Description(
        "go", "Go, with `Limit`", "a place of the middleware", "`Limit(n)`", "process.place",
        "the middleware's list, first in, first out; without a limit a goroutine serves each request at once",
    ),
    Description(
        "java", "Java's own server", "a thread of the executor's pool", "`newFixedThreadPool(n)`", "process.thread",
        "the executor's queue",
    ),
    Description(
        "tomcat", "Tomcat", "a thread of the connector", "`maxThreads`", "process.thread",
        "the executor's queue, up to `maxConnections`; then the accept queue, up to `acceptCount`",
    ),
    Description(
        "awaiting-uvicorn", "uvicorn", "none: the event loop, between two awaits", "processes (`--workers`)", "process",
        "the event loop's turn",
    ),
)  # fmt: skip


def page(folder: Path) -> str:
    """Return the page with the figures of a run.

    Raises:
        LabError: the folder holds no run of the scenario ``app-servers``.
    """
    run = run_of(folder, SCENARIO)
    cases = by_base([case for case in run.cases if case.split is not None])
    present = [each for each in SERVERS if f"{each.case}-c{CONCURRENCY}" in cases]
    if not present:
        raise LabError(f"{folder}: no case of this run has figures")
    described = "".join(
        f"| {each.name} | {each.worker} | {each.setting} | {each.identity} | {each.place} |\n" for each in SERVERS
    )
    rows = "".join(_row(each, cases[f"{each.case}-c{CONCURRENCY}"]) for each in present)
    free = [_mean(cases[name], "queueing_delay") for each in present if (name := f"{each.case}-c1") in cases]
    versions = textwrap.fill(versions_text(run.versions, PROGRAMS), 120)
    tail = TAIL.format(free=milliseconds(max(free, default=0.0)), versions=versions)
    return HEAD + described + FIGURES + rows + tail


def _mean(rounds: list[Any], component: str) -> float:
    return median_at(f"split.components.{component}.mean", rounds) or 0.0


def _row(server: Description, rounds: list[Any]) -> str:
    queueing, service = _mean(rounds, "queueing_delay"), _mean(rounds, "service_time")
    response = median_at("split.response_time.mean", rounds) or 0.0
    law = rounds[0]["law"]
    expected, error = "–", "–"
    if law is not None:
        expected = milliseconds(law["queueing_delay"])
        error = formatted(queueing / law["queueing_delay"] - 1, "+.1%")
    sockets = [each["deepest"] for case in rounds for each in case["listen"] if each["socket"] != "nginx"]
    deepest = str(max(sockets)) if sockets else "–"
    times = " | ".join(milliseconds(each) for each in (queueing, service, response))
    return f"| {server.name} | {_configuration(rounds[0]['topology'])} | {times} | {expected} | {error} | {deepest} |\n"


def _configuration(topology: dict[str, Any]) -> str:
    backends, workers, threads = topology["backends"], topology["workers"], topology["threads"]
    inside = f"{workers} × {threads}" if threads > 1 else f"{workers}"
    return f"{backends} backends" if backends > 1 else inside
