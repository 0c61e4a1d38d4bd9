"""The lab's app: it holds its worker for the time in the path, so that the exact service time is known.

    /sleep/<seconds>     sleeps that long, then answers; optional query parameters:
        cpu=1            do not sleep: use that much processor time of the thread that serves the request
        bytes=N          size of the body (default: a short text)
        stream=SECONDS   after the sleep send the headers and a quarter of the body, the rest over this time:
                         service time ends with the headers, the worker is busy until the last piece
        after=SECONDS    sleep that long after the whole answer was sent: the worker is busy until then
        status=N         answer with this status
        dependency=N     after the sleep, ask the tier behind the app for N seconds of work (downstream.py)
        route=/NAME      the route to report, so that one app has several (default: /sleep/{seconds})
    Where LAB_DIFFERS is set, that share of the answers is another than usual, drawn by the request id. With LAB_ANSWERS
    every answer carries a digest of its body in X-Lab-Answer.
    Where LAB_SLOWDOWN is set, every sleep takes that many times as long, and a service as much processor time: a slower
    machine. LAB_SILENT=1: there is no
    middleware around the app. LAB_LOADING: seconds that a process takes to load the app. LAB_WORKER_LOG: the file of
    `worker_log.py`, which says when each request held its worker.
    /ready               answered outside the middleware: no sleep, no span, no trace in any result

The sleep blocks a synchronous worker: other requests wait meanwhile, which is the queue.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import downstream
import worker_log
from sojourn_middleware import WSGIMiddleware

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

LONGEST = 86_400.0
LARGEST = 1 << 30
PIECES = 4
SLOWDOWN = float(os.environ.get("LAB_SLOWDOWN", "1"))
DIFFERS = float(os.environ.get("LAB_DIFFERS", "0"))
ANSWERS = "LAB_ANSWERS" in os.environ
ROUTE = re.compile(r"/[a-z0-9/_-]{1,60}")


def sleeper(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer /sleep/<seconds> as described above; 404 for another path, 400 for an invalid number."""
    head, _, text = environ.get("PATH_INFO", "").lstrip("/").partition("/")
    if head != "sleep":
        return _plain(start_response, 404, "only /sleep/<seconds> and /ready exist")
    environ["sojourn.route"] = "/sleep/{seconds}"
    try:
        seconds = _number(text, "seconds", LONGEST)
        query = {key: values[-1] for key, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        stream = _number(query.get("stream", "0"), "stream", LONGEST)
        after = _number(query.get("after", "0"), "after", LONGEST)
        behind = _number(query.get("dependency", "0"), "dependency", LONGEST)
        size = int(_number(query["bytes"], "bytes", LARGEST)) if "bytes" in query else None
        cpu = bool(_number(query.get("cpu", "0"), "cpu", 1.0))
        status = HTTPStatus(int(query.get("status", "200")))
        if "route" in query:
            environ["sojourn.route"] = _route(query["route"])
    except ValueError as error:
        return _plain(start_response, 400, str(error))
    with downstream.locked():
        (use_processor if cpu else time.sleep)(seconds * SLOWDOWN)
    if behind and downstream.DEPENDENCY:
        answered = downstream.requested(behind, environ.get("HTTP_X_LAB_CASE", ""))
        if answered >= 400:
            return _plain(start_response, 502, f"the tier behind answered {answered}")
    body = f"slept {seconds:g} s\n".encode() if size is None else b"x" * size
    if DIFFERS and _draw(environ.get("HTTP_X_REQUEST_ID", "")) < DIFFERS:
        body = b"otherwise\n"
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    if ANSWERS:
        headers.append(("X-Lab-Answer", hashlib.sha256(body).hexdigest()[:16]))
    start_response(f"{status.value} {status.phrase}", headers)
    pieces = _streamed(body, stream) if stream else [body]
    return AndAfter(pieces, after) if after else pieces


def use_processor(seconds: float) -> None:
    """Compute until the calling thread has used the processor for some seconds; it holds the interpreter's lock."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))  # some microseconds: reading the clock takes little of the time


def _draw(request_id: str) -> float:
    """Return a number from 0 to 1 that is always the same for a request id."""
    return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:6]) / 2**48


def _number(text: str, name: str, largest: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= largest:
        raise ValueError(f"{name} must be a number from 0 to {largest:g}")
    return value


def _route(text: str) -> str:
    if not ROUTE.fullmatch(text):
        raise ValueError("route must be a slash and a name: lower case letters, digits, '/', '_' and '-'")
    return text


def _streamed(body: bytes, seconds: float) -> Iterator[bytes]:
    step = max(1, math.ceil(len(body) / PIECES))
    for start in range(0, len(body), step):
        if start:
            time.sleep(seconds / (PIECES - 1))
        yield body[start : start + step]


class AndAfter:
    """A body whose close() takes some seconds: the server calls it after it has sent the body."""

    def __init__(self, pieces: Iterable[bytes], seconds: float) -> None:
        self._pieces = pieces
        self._seconds = seconds

    def __iter__(self) -> Iterator[bytes]:
        """Return the pieces."""
        return iter(self._pieces)

    def close(self) -> None:
        """Sleep."""
        time.sleep(self._seconds)


def _plain(start_response: StartResponse, status: int, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response(f"{status} {HTTPStatus(status).phrase}", headers)
    return [body]


measured = worker_log.logged(sleeper if os.environ.get("LAB_SILENT") == "1" else WSGIMiddleware(sleeper))
time.sleep(float(os.environ.get("LAB_LOADING", "0")))
worker_log.loaded()


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Return the WSGI callable of the backend: the app behind the middleware, and /ready without it."""
    if environ.get("PATH_INFO") == "/ready":
        return _plain(start_response, 200, "ready")
    return measured(environ, start_response)
