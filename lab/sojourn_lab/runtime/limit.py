"""HAProxy in front of an app server, which lets a number of requests pass at a time."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from sojourn_lab.runtime.process import Process

BACKLOG = 1_024
SETTINGS = """\
# Written by the lab. The log has the instant at which HAProxy accepted each request (unix s), and the ms for which it
# read the request and held it in its queue.
global
    log stdout format raw local0 info
defaults
    mode http
    log global
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    timeout queue 600s
frontend entry
    bind fd@{fd}
    http-request capture req.hdr(X-Request-ID) len 128
    log-format '{{"id":"%[capture.req.hdr(0)]","accepted":%Ts.%ms,"read":%TR,"queued":%Tw}}'
    default_backend app
backend app
    server app {address} maxconn {limit}
"""
"""For `str.format`: the socket's descriptor, the app server's address, and the limit."""


@dataclass(frozen=True)
class Limit:
    """A running HAProxy, and the address at which it accepts requests."""

    process: Process
    address: str


def why_limit_unavailable() -> str | None:
    """Return why no limit can be put in front of app servers here; None if it can."""
    return None if shutil.which("haproxy") else "haproxy is not installed: apt install haproxy"


def started_limit(name: str, limit: int, address: str, folder: Path, listener: socket.socket) -> Limit:
    """Return a HAProxy on a listening socket that lets `limit` requests at a time pass to `address`.

    Its log is `<name>-limit.out`.
    """
    settings = folder / f"{name}-limit.cfg"
    settings.write_text(SETTINGS.format(fd=listener.fileno(), address=address, limit=limit))
    command = ["haproxy", "-db", "-f", str(settings)]
    process = Process(command, name=f"{name}-limit", folder=folder, pass_fds=[listener.fileno()]).start()
    host, port = listener.getsockname()
    return Limit(process, f"{host}:{port}")
