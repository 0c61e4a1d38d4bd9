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
    command = ["unicorn", "--config-file", settings, "--env", "none", _app()]
    return _ruby_process(start, command, UNICORN_FD=str(start.fd))


def puma(start: Start) -> Process:
    """Return Puma: one process with `threads` threads (`-t N:N`), or a cluster of `workers` such processes."""
    topology = start.topology
    url = f"{'unix' if topology.unix else 'tcp'}://{start.bound}"
    processes = topology.workers if topology.workers > 1 else 0  # 0: no cluster, no forked worker
    command = [
        *("puma", "--config", "-", "--environment", "none", "--bind", url),
        *("--threads", f"{topology.threads}:{topology.threads}", "--workers", str(processes)),
        _app(),
    ]
    return _ruby_process(start, command, PUMA_INHERIT_0=f"{start.fd}:{url}")


def _app() -> str:
    return str(resource_file("backend", "config.ru"))


def _ruby_process(start: Start, command: list[str], **environment: str) -> Process:
    middleware = str(resource_file("middleware", "ruby", "sojourn.rb"))
    return start.process(command, SOJOURN_RUBY=middleware, RACK_ENV="none", **environment)
