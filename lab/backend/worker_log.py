"""The log of what held the workers, written by the app itself: the truth that Sojourn's statements are compared with.

Where LAB_WORKER_LOG names a file, each process appends lines of JSON to it; all instants are unix seconds:

    {"worker": "17", "loaded": 1.0}                                      the process has loaded the app
    {"worker": "17", "id": "…", "route": "/export", "begin": 1.1, "headers": 1.2, "answered": 1.9, "released": 2.5}
    {"worker": "17", "ended": 9.0}

``worker`` is the number of the process, and for one of several threads also that of the thread; ``master`` the number
of the process that started it. The other apps of this folder write the same lines of requests.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    App = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

PATH = os.environ.get("LAB_WORKER_LOG")


def loaded() -> None:
    """Write that this process has loaded the app, and later that it ends."""
    if PATH:
        number = str(os.getpid())
        _write({"worker": number, "loaded": time.time()})
        atexit.register(lambda: _write({"worker": number, "ended": time.time()}))


def logged(app: App) -> App:
    """Return the app, with a line for each request; the app itself where no file is named."""
    return app if not PATH else lambda environ, start_response: LoggedBody(app, environ, start_response)


class LoggedBody:
    """The body of one answer; closed, it writes the line of its request."""

    def __init__(self, app: App, environ: WSGIEnvironment, start_response: StartResponse) -> None:
        self._begin = self._headers = self._answered = time.time()
        self._environ = environ

        def started(*arguments: object) -> object:
            self._headers = self._answered = time.time()
            return start_response(*arguments)  # type: ignore[arg-type]

        self._body = app(environ, started)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[bytes]:
        """Return the pieces of the body."""
        for piece in self._body:
            yield piece
            self._answered = time.time()

    def close(self) -> None:
        """Close the body, which may take time, and write the line."""
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            thread = threading.current_thread()
            number = str(os.getpid())
            _write(
                {
                    "worker": number if thread is threading.main_thread() else f"{number}.{thread.native_id}",
                    "master": str(os.getppid()),
                    "id": self._environ.get("HTTP_X_REQUEST_ID", ""),
                    "route": self._environ.get("sojourn.route", ""),
                    "begin": self._begin,
                    "headers": self._headers,
                    "answered": self._answered,
                    "released": time.time(),
                }
            )


def _write(line: dict[str, object]) -> None:
    # One write of a short line, at the end of the file: those of several processes do not mix.
    descriptor = os.open(PATH or "", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, f"{json.dumps(line)}\n".encode())
    finally:
        os.close(descriptor)
