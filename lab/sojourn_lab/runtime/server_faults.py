"""What befell the servers of a run while it lasted, by their own word.

A master starts its lost worker anew, and what was measured then is not of the servers as they should be; nginx answers
on where its log cannot be written, and the log has fewer lines than there were requests. Neither is seen from outside.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from sojourn_lab.runtime.runtime import ProcessRuntime, Runtime

# nginx: an [alert] of its master. gunicorn: what its master logs of a worker that somebody killed (the kernel, for want
# of memory, most of the time); unicorn: likewise.
NGINX_WORKER = re.compile(r"\[alert\].*worker process \d+ (exited on signal \d+)")
NGINX_LOG = re.compile(r"\[alert\].*write\(\) to \".*/([^/\"]+)\" (?:failed \(\d+: ([^)]+)\)|was incomplete)")
GUNICORN_WORKER = re.compile(r"Worker \(pid:(\d+)\) was sent (SIGKILL|SIGSEGV|SIGBUS)")
UNICORN_WORKER = re.compile(r"reaped #<Process::Status: pid (\d+) (SIGKILL|SIGSEGV|SIGBUS)")
SPANS = re.compile(r"spans are lost, they cannot be written to \S*?([^/\s]+): (.*)")
GIVEN_UP = re.compile(r"WORKER TIMEOUT \(pid:(\d+)\)|worker=\d+ PID:(\d+) timeout")


def server_faults(runtime: Runtime) -> list[str]:
    """Return a sentence for each kind of thing that befell nginx or an app server; nothing of containers."""
    if not isinstance(runtime, ProcessRuntime) or runtime.nginx is None:
        return []
    found = _of_nginx(runtime.nginx.error_log_text())
    for backend in runtime.backends:
        found += [f"{backend.name}: {each}" for each in _of_app(_text(backend.process.err_path))]
    if runtime.listen is not None and runtime.listen.failed is not None:
        found.append(f"the accept queues were not sampled to the end ({runtime.listen.failed})")
    return found


def _of_nginx(said: str) -> list[str]:
    told = [f"nginx: a worker {each}" for each in NGINX_WORKER.findall(said)]
    told += [
        f"nginx: {name} lacks requests, it could not be written ({reason or 'no room left for a whole line'})"
        for name, reason in NGINX_LOG.findall(said)
    ]
    return _counted(told)


def _of_app(said: str) -> list[str]:
    # A worker that took too long is killed by its master, as the scenario wants it.
    given_up = {one or other for one, other in GIVEN_UP.findall(said)}
    killed = [*GUNICORN_WORKER.findall(said), *UNICORN_WORKER.findall(said)]
    told = [f"a worker was ended by {name}" for pid, name in killed if pid not in given_up]
    return _counted([*told, *(f"{name} lacks spans ({reason})" for name, reason in SPANS.findall(said))])


def _counted(told: list[str]) -> list[str]:
    return [each if count == 1 else f"{each} ({count} times)" for each, count in Counter(told).items()]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
