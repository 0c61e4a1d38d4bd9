"""The servers of the Rack app, backend/config.ru: unicorn and Puma."""

from __future__ import annotations

from sojourn_lab.resources import resource_file
from sojourn_lab.runtime.process import Process
from sojourn_lab.runtime.servers.start import Start, whole_seconds


def unicorn(start: Start) -> Process:
    """Return unicorn: prefork workers that close every connection."""
    settings = start.file(
        "unicorn.rb",
        f"""\
# Written by the lab: the scenario's settings. The socket comes in UNICORN_FD; the address must
# be named all the same, because unicorn closes inherited sockets that its configuration does not know.
listen "{start.bound}", backlog: {start.topology.backlog}
worker_processes {start.topology.workers}
timeout {whole_seconds(start.topology.worker_timeout)}
""",
    )
    command = ["unicorn", "-I", _library(), "--config-file", settings, "--env", "none", _app()]
    return start.process(command, UNICORN_FD=str(start.fd), RACK_ENV="none")


def puma(start: Start) -> Process:
    """Return Puma: one process with `threads` threads (`-t N:N`), or a cluster of `workers` such processes."""
    topology = start.topology
    url = f"{'unix' if topology.unix else 'tcp'}://{start.bound}"
    processes = topology.workers if topology.workers > 1 else 0  # 0: no cluster, no forked worker
    command = [
        *("puma", "-I", _library(), "--config", "-", "--environment", "none", "--bind", url),
        *("--threads", f"{topology.threads}:{topology.threads}", "--workers", str(processes)),
        _app(),
    ]
    return start.process(command, PUMA_INHERIT_0=f"{start.fd}:{url}", RACK_ENV="none")


def _app() -> str:
    return str(resource_file("backend", "config.ru"))


def _library() -> str:
    """Return the folder of the middleware's gem to put on Ruby's load path."""
    return str(resource_file("middleware", "ruby", "lib"))
