"""A bare WSGI app: the path says what it does."""

import os
import time

from sojourn_middleware import WSGIMiddleware

SERVICE_S = 0.15


def bare(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/error":
        raise LookupError("on request")
    if path == "/late-error":
        return late_error(start_response)
    if path == "/generator":
        return chunks(start_response)
    if path == "/write":
        write = start_response("200 OK", [("Content-Length", "12")])
        time.sleep(SERVICE_S)
        write(b"written once")
        return []
    if path == "/file":
        return whole_file(environ, start_response)
    if path == "/die":
        start_response("200 OK", [("Content-Length", "4")])
        return dying()
    if path == "/stuck":
        time.sleep(60)
    if path == "/sleep":
        time.sleep(SERVICE_S)
    body = environ.get("HTTP_X_ECHO", "hello").encode("latin-1")
    start_response("200 OK", [("Content-Length", str(len(body))), ("X-Worker", "the app's own")])
    return [body]


def late_error(start_response):
    start_response("200 OK", [])
    raise LookupError("after start_response")
    yield b""


def chunks(start_response):
    start_response("200 OK", [])
    yield b""
    time.sleep(SERVICE_S)
    yield b"one "
    time.sleep(1.0)
    yield b"two"


def dying():
    """The last chunk is read by the client, and then the worker is gone without a word."""
    yield b"last"
    os.kill(os.getpid(), 9)


def whole_file(environ, start_response):
    path = environ["HTTP_X_FILE"]
    start_response("200 OK", [("Content-Length", str(os.stat(path).st_size))])
    return environ["wsgi.file_wrapper"](open(path, "rb"))


application = WSGIMiddleware(bare)
