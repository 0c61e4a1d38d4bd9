"""Faults of the servers during a run, read from their own logs.

A master restarts a lost worker, so the measurement is not of intact servers; nginx keeps serving when its log cannot be
written, and the log then has fewer lines than there were requests. Neither fault is visible from outside.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from sojourn_lab.runtime.runtime import ProcessRuntime, Runtime

# nginx: an [alert] of its master. gunicorn: the message of its master about a killed worker (usually killed by the
# kernel for lack of memory); unicorn: likewise.
NGINX_WORKER = re.compile(r"\[alert\].*worker process \d+ (exited on signal \d+)")
NGINX_LOG = re.compile(r"\[alert\].*write\(\) to \".*/([^/\"]+)\" (?:failed \(\d+: ([^)]+)\)|was incomplete)")
GUNICORN_WORKER = re.compile(r"Worker \(pid:(\d+)\) was sent (SIGKILL|SIGSEGV|SIGBUS)")
UNICORN_WORKER = re.compile(r"reaped #<Process::Status: pid (\d+) (SIGKILL|SIGSEGV|SIGBUS)")
SPANS = re.compile(r"spans are lost, they cannot be written to \S*?([^/\s]+): (.*)")
GIVEN_UP = re.compile(r"WORKER TIMEOUT \(pid:(\d+)\)|worker=\d+ PID:(\d+) timeout")


def server_faults(runtime: Runtime) -> list[str]:
    """Return a sentence for each kind of fault of nginx or an app server; empty for containers."""
    if not isinstance(runtime, ProcessRuntime) or runtime.nginx is None:
        return []
    faults = _of_nginx(runtime.nginx.error_log_text())
    for backend in runtime.backends:
        faults += [f"{backend.name}: {each}" for each in _of_app(_text(backend.process.err_path))]
    if runtime.listen is not None and runtime.listen.failed is not None:
        faults.append(f"the accept queues were not sampled to the end ({runtime.listen.failed})")
    return faults


def _of_nginx(log: str) -> list[str]:
    faults = [f"nginx: a worker {each}" for each in NGINX_WORKER.findall(log)]
    faults += [
        f"nginx: {name} lacks requests, it could not be written ({reason or 'no room left for a whole line'})"
        for name, reason in NGINX_LOG.findall(log)
    ]
    return _counted(faults)


def _of_app(log: str) -> list[str]:
    # A worker killed by its master after a timeout is part of the scenario.
    given_up = {one or other for one, other in GIVEN_UP.findall(log)}
    killed = [*GUNICORN_WORKER.findall(log), *UNICORN_WORKER.findall(log)]
    faults = [f"a worker was ended by {name}" for pid, name in killed if pid not in given_up]
    return _counted([*faults, *(f"{name} lacks spans ({reason})" for name, reason in SPANS.findall(log))])


def _counted(faults: list[str]) -> list[str]:
    return [each if count == 1 else f"{each} ({count} times)" for each, count in Counter(faults).items()]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
