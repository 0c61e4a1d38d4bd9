"""The servers of the Python app: gunicorn, the lab's own queue server, uWSGI; and uvicorn, with an app of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.start import Start, whole_seconds
from sojourn_lab.scenario.topology import Topology

LOADED = "A worker has loaded the app"
"""What gunicorn logs then."""
IDLE_SECONDS = 2
"""Seconds for which gunicorn's threads keep an idle connection: its own default."""


def gunicorn_settings(bind: str, topology: Topology) -> str:
    """Return gunicorn's configuration file for a topology; `bind` in gunicorn's notation."""
    threaded = topology.threads > 1
    worker_class = "gthread" if threaded else "sync"
    reason = "gunicorn's default" if threaded else "The sync worker never keeps a connection alive; 0 makes it explicit"
    return f"""\
# Written by the lab: the scenario's settings in gunicorn's notation.
bind = "{bind}"
worker_class = "{worker_class}"
workers = {topology.workers}
threads = {topology.threads}
backlog = {topology.backlog}
max_requests = {topology.max_requests or 0}
timeout = {whole_seconds(topology.worker_timeout)}
# {reason}.
keepalive = {IDLE_SECONDS if threaded else 0}
# One control socket per home directory would be shared by all servers of this user.
control_socket_disable = True


def post_worker_init(worker):
    worker.log.info("{LOADED}")
"""


def gunicorn(start: Start) -> Process:
    """Return gunicorn: sync workers, or gthread workers where the topology has several threads."""
    settings = start.file("gunicorn.py", gunicorn_settings(f"fd://{start.fd}", start.topology))
    return _python_process(start, ["-m", "gunicorn", "--config", settings, "app:application"])


def uvicorn(start: Start) -> Process:
    """Return uvicorn: one process with one event loop, and asgi_app.py."""
    arguments = ["--fd", str(start.fd), "--backlog", str(start.topology.backlog), "--no-access-log"]
    connections = start.topology.connections
    pool = {} if connections is None else {"LAB_CONNECTIONS": str(connections)}
    command = ["-m", "uvicorn", *arguments, "--log-level", "warning", "asgi_app:application"]
    return _python_process(start, command, **pool)


def queue_options(topology: Topology) -> list[str]:
    """Return the options of queue_server.py for a topology."""
    rules = topology.rules
    return [
        *("--workers", str(topology.workers)),
        *("--discipline", topology.discipline),
        # settle() asks by /ready whether the queue has run empty.
        *("--last", "/ready"),
        *("--timeout", repr(topology.proxy_read_timeout)),
        *("--deadline-margin", repr(rules.deadline_margin)),
        *("--codel-target", repr(rules.codel_target)),
        *("--codel-interval", repr(rules.codel_interval)),
        *("--lifo-threshold", str(rules.lifo_threshold)),
        *("--calm-timeout", repr(rules.calm_timeout)),
        *("--busy-timeout", repr(rules.busy_timeout)),
        *(() if rules.capacity is None else ("--capacity", str(rules.capacity))),
    ]


def queue(start: Start) -> Process:
    """Return the lab's own server, whose worker threads take requests by a discipline."""
    program = str(resource_file("backend", "queue_server.py"))
    return _python_process(start, [program, "app:application", "--fd", str(start.fd), *queue_options(start.topology)])


def uwsgi(start: Start) -> Process:
    """Return uWSGI with prefork workers, over the uwsgi protocol.

    It embeds the system's Python, so the middleware is put on its path; telemetry packages are not, and the app
    writes no spans.
    """
    import sojourn_middleware  # noqa: PLC0415 - without it, the other commands of the lab work

    topology = start.topology
    command = [
        *("uwsgi", "--plugin", "python3", "--socket", f"fd://{start.fd}"),
        *("--master", "--die-on-term", "--need-app", "--disable-logging"),
        *("--processes", str(topology.workers), "--listen", str(topology.backlog)),
        *("--harakiri", str(whole_seconds(topology.worker_timeout))),
        *("--pythonpath", str(Path(sojourn_middleware.__file__).parents[1])),
        *("--module", "app:application"),
    ]
    return start.process(command, PYTHONDONTWRITEBYTECODE="1")


def _python_process(start: Start, arguments: list[str], **environment: str) -> Process:
    own = {"OTEL_SERVICE_NAME": start.name, "PYTHONDONTWRITEBYTECODE": "1"}
    return start.process([sys.executable, *arguments], **own, **environment)
