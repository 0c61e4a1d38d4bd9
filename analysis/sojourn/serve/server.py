"""Serve a page on the loopback interface until a signal ends the process."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from sojourn.model.errors import SojournError
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.serve.application import application
from sojourn.serve.following import Following
from sojourn.serve.guard import new_token
from sojourn.serve.session import Sessions
from sojourn.serve.view import Options
from sojourn.timeline.visits import WorkersLike

HOST = "127.0.0.1"
CONNECTIONS = 256
GRACE = 2  # s for unfinished answers at the end


def serve_page(sessions: Sessions, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve a page until SIGINT or SIGTERM.

    Args:
        sessions: the requests.
        port: to listen on; 0: a free one.
        on_ready: called with the address of the page when the server accepts connections.

    Raises:
        SojournError: the port cannot be listened on.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise SojournError(f"--port {port}: {error.strerror or error}") from None
        listener.listen(CONNECTIONS)
        token = new_token()
        config = uvicorn.Config(
            application(sessions, token), log_config=None, access_log=False, lifespan="off", server_header=False,
            date_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=GRACE,
        )  # fmt: skip
        on_ready(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()


def follow_logs(
    options: Options,
    port: int,
    on_ready: Callable[[str], None],
    *,
    workers: WorkersLike = None,
    form: LineFormat | Units | None = None,
) -> None:
    """Serve a page of logs that are being written until SIGINT or SIGTERM.

    Args:
        options: the logs.
        port: as of ``serve_page``.
        on_ready: as of ``serve_page``.
        workers: per backend, or the same for all; None: derived from the worker values.
        form: format of all logs; None: each log's own.

    Raises:
        SojournError: a log cannot be read or followed, or the port cannot be listened on.
    """
    sessions = Sessions(options, follows=True)
    following = Following(options.sources, sessions, workers, form, sessions.fail)
    try:
        following.catch_up()
        following.start()
        serve_page(sessions, port, on_ready)
    finally:
        following.stop()
