"""The gauge of the requests that the app has started and not finished, in a registry of `prometheus_client`."""

from __future__ import annotations

import glob
import os
import re
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

NAME = "sojourn_requests_in_progress"
HELP = "Requests that the app has started and not finished, without WebSockets and server-sent events."

#: In OpenTelemetry.
OTEL_NAME = "http.server.active_requests"

# How often a process looks for files of processes that have ended.
_LOOKS_EVERY_S = 1.0

_EVENT_STREAM = "text/event-stream"
_LIVE_FILE = re.compile(r"gauge_live[a-z]*_([0-9]+)\.db")


def is_event_stream(content_type: str) -> bool:
    """Return whether a response of this content type is a stream of server-sent events.

    It lasts until its client leaves.
    """
    return content_type.partition(";")[0].strip().lower() == _EVENT_STREAM


class InProgress:
    """The gauge, and what each process has counted.

    The library's own increment is not used: a process that gets the number of one that was killed would continue the
    count of the other one, whose file it finds.
    """

    def __init__(self, registry: Any) -> None:
        from prometheus_client import Gauge  # noqa: PLC0415  (only when it is used)

        self._gauge = Gauge(NAME, HELP, ("service",), registry=registry, multiprocess_mode="livesum")
        self._writes_files = writes_files()
        # By process id: a fork serves none of the parent's requests, and the parent's lock may be held forever.
        self._processes: dict[int, _Counts] = {}

    def add(self, service: str, requests: int) -> None:
        """Add 1 at the start of a request, -1 at its end, 0 for a series that exists from now on."""
        pid = os.getpid()
        counts = self._processes.get(pid) or self._processes.setdefault(pid, _Counts())
        with counts.lock:
            # A forked child can end a request that its parent has started.
            counts.values[service] = max(0, counts.values.get(service, 0) + requests)
            if self._writes_files:
                self._write(counts, service)
            elif service not in counts.series:
                # A scrape reads the count: a call of the library for each change would take longer than the count.
                counts.series[service] = series = self._gauge.labels(service)
                series.set_function(partial(self._count, service))

    def _count(self, service: str) -> int:
        counts = self._processes.get(os.getpid())
        return 0 if counts is None else counts.values.get(service, 0)

    def _write(self, counts: _Counts, service: str) -> None:
        now = time.monotonic()
        if now >= counts.next_look:
            counts.next_look = now + _LOOKS_EVERY_S
            remove_files_of_dead_processes()
        series = counts.series.get(service)
        if series is None:
            series = counts.series[service] = self._gauge.labels(service)
        series.set(counts.values[service])


class _Counts:
    """The requests in progress of one process, by service."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: dict[str, int] = {}
        self.series: dict[str, Any] = {}
        self.next_look = 0.0


def writes_files() -> bool:
    """Return whether `prometheus_client` is in its multiprocess mode, in which a scrape reads files."""
    return "PROMETHEUS_MULTIPROC_DIR" in os.environ or "prometheus_multiproc_dir" in os.environ


def remove_files_of_dead_processes() -> None:
    """Remove the gauges of each process that has ended, as `mark_process_dead` does, which not every server calls.

    In the multiprocess mode of `prometheus_client` the gauges of a process are in files, which remain after its end.
    """
    # The library reads the old name of the variable, too, and sets the new one.
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if folder is None or os.name != "posix":
        return
    for path in glob.glob(os.path.join(glob.escape(folder), "gauge_live*.db")):
        match = _LIVE_FILE.fullmatch(os.path.basename(path))
        if match is not None and not _lives(int(match[1])):
            with suppress(OSError):  # Another process can remove it first.
                os.remove(path)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # It is of another user.
    return True
