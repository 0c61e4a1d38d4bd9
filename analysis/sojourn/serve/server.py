"""Serve a session on the loopback interface until the process is told to end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from sojourn.model.errors import SojournError
from sojourn.serve.application import application
from sojourn.serve.guard import new_token
from sojourn.serve.session import Session

HOST = "127.0.0.1"
CONNECTIONS = 64
GRACE = 2  # s for unfinished answers at the end


def serve_session(session: Session, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve a page until SIGINT or SIGTERM.

    Args:
        session: the requests.
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
            application(session, token), log_config=None, access_log=False, lifespan="off", server_header=False,
            date_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=GRACE,
        )  # fmt: skip
        on_ready(f"http://{HOST}:{listener.getsockname()[1]}/?token={token}")
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
