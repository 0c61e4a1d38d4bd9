"""WSGI (PEP 3333) middleware that answers with the request's queueing delay and service time.

Queueing delay: from the proxy's stamp to the call of this middleware. Service time: from that call until
the response headers leave, which for a generator is its first chunk, not its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .exchange import Exchange, Measurement, Options
from .in_progress import is_event_stream
from .request import EnvironRequest
from .timing import current_timing

if TYPE_CHECKING:
    from typing import Unpack

Environ = dict[str, Any]
Headers = list[tuple[str, str]]
Write = Callable[[bytes], object]
StartResponse = Callable[..., Write]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]

#: In the environ while a request is measured, so that a second, inner middleware leaves it alone.
MEASURED = "sojourn.measured"


class WSGIMiddleware:
    """Measure every request of a WSGI app, with `Options`."""

    def __init__(self, app: WSGIApp, **options: Unpack[Options]) -> None:
        self.app = app
        self.measurement = Measurement(**options)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        if MEASURED in environ:
            return self.app(environ, start_response)
        exchange = self.measurement.begin(EnvironRequest(environ), environ)
        if exchange is None:
            return self.app(environ, start_response)
        environ[MEASURED] = True
        files = _server_files(environ)
        reply = _Reply(exchange, start_response)
        try:
            with reply:
                body = self.app(environ, reply)
        except BaseException as error:
            exchange.finish(error)
            raise
        return reply.body_for_server(body, files is not None and _is_server_file(body, files))


class _Reply:
    """The `start_response` of the app; it holds the headers until they are sent.

    As a context, it makes the request the current one, for `mark_started` and for the spans of the app.
    """

    __slots__ = ("_detach", "_pending", "_server_write", "_start_response", "_started", "_token", "exchange")

    def __init__(self, exchange: Exchange, start_response: StartResponse) -> None:
        self.exchange = exchange
        self._start_response = start_response
        self._pending: tuple[str, Headers, tuple[Any, ...]] | None = None
        self._started = False
        self._server_write: Write | None = None

    def __enter__(self) -> None:
        exchange = self.exchange
        self._token = current_timing.set(exchange.timing)
        self._detach = exchange.span.attach() if exchange.span is not None else None

    def __exit__(self, *_: object) -> None:
        if self._detach is not None:
            self._detach()
        current_timing.reset(self._token)

    def __call__(self, status: str, headers: Headers, exc_info: Any = None) -> Write:
        try:
            if self._started:
                # Too late to hold anything back: the server raises the app's error again, as it should.
                if exc_info:
                    return self._start_response(status, headers, exc_info)
                raise AssertionError("start_response was called again after the response had started")
            if self._pending is not None and not exc_info:
                raise AssertionError("start_response was called twice without exc_info")
            self._pending = (status, headers, (exc_info,) if exc_info else ())
            # Flask has forgotten the request by the time a body is handed over.
            self.exchange.look_for_route()
            return self._write
        finally:
            exc_info = None  # A traceback refers to this frame; the two would keep each other alive.

    def emit(self) -> Write | None:
        """Pass the pending headers to the server, once; None while the app has not called start_response."""
        if self._pending is not None:
            self._started = True
            status, headers, exc_info = self._pending
            self._pending = None
            measured = self.exchange.headers_left(_status_code(status), headers)
            self._server_write = self._start_response(status, measured, *exc_info)
            if self.exchange.in_progress and _outlasts_its_service(status, headers):
                self.exchange.leave()
        return self._server_write

    def _write(self, data: bytes) -> None:
        write = self.emit()
        if write is not None:
            write(data)

    def body_for_server(self, body: Iterable[bytes], is_file: bool) -> Iterable[bytes]:
        """Return the body for the server: `body` itself if possible, so that its length and sendfile keep working."""
        exchange = self.exchange
        complete = is_file or isinstance(body, (list, tuple))
        try:
            if complete or _has_no_body(exchange, self._pending):
                self.emit()
        except BaseException as error:
            _close(body)
            exchange.finish(error)
            raise
        if not complete:
            return _Body(body, self)
        if exchange.span is None and not exchange.in_progress:
            return body
        if is_file:
            return _file_that_finishes(body, exchange)
        return _ListThatFinishes(body, exchange)


class _Body:
    """A lazy body: the headers leave with its first chunk that is not empty, or at its end."""

    def __init__(self, body: Iterable[bytes], reply: _Reply) -> None:
        self._body = body
        self._reply = reply
        self._iterator: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        exchange = self._reply.exchange
        try:
            with self._reply:
                if self._iterator is None:
                    self._iterator = iter(self._body)
                chunk = next(self._iterator, None)
                while chunk is not None and not chunk:
                    # An empty chunk would make servers send the headers; nothing leaves for its sake.
                    chunk = next(self._iterator, None)
            self._reply.emit()
        except BaseException as error:
            exchange.finish(error)
            raise
        if chunk is None:
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Close the app's body and end the request."""
        exchange = self._reply.exchange
        try:
            with self._reply:
                _close(self._body)
        except BaseException as error:
            exchange.finish(error)
            raise
        exchange.finish()


class _ListThatFinishes(list[bytes]):
    """A complete body, still a list to a server that looks, that ends the request when it is closed."""

    def __init__(self, body: Iterable[bytes], exchange: Exchange) -> None:
        super().__init__(body)
        self._body = body
        self._exchange = exchange

    def close(self) -> None:
        """End the request."""
        try:
            _close(self._body)
        finally:
            self._exchange.finish()


def _file_that_finishes(body: Any, exchange: Exchange) -> Iterable[bytes]:
    """Return the server's file object with an extended `close`, if possible; a server detects it by its class."""
    close = getattr(body, "close", None)

    def close_and_finish() -> None:
        try:
            if close is not None:
                close()
        finally:
            exchange.finish()

    try:
        body.close = close_and_finish
    except AttributeError:
        exchange.finish()
    file: Iterable[bytes] = body
    return file


def _server_files(environ: Environ) -> type | list[object] | None:
    """Return the class of the files of the server's ``wsgi.file_wrapper``, or a list of those that it will make.

    None if the server has no wrapper.
    """
    wrapper = environ.get("wsgi.file_wrapper")
    if wrapper is None or isinstance(wrapper, type):
        return wrapper
    files: list[object] = []
    if callable(wrapper):
        # uWSGI's wrapper is a function that later recognises its result; so must the middleware.
        def remembering(*args: Any) -> Any:
            files.append(wrapper(*args))
            return files[-1]

        environ["wsgi.file_wrapper"] = remembering
    return files


def _is_server_file(body: object, files: type | list[object]) -> bool:
    """Return whether a body is one of `_server_files`."""
    return isinstance(body, files) if isinstance(files, type) else any(body is file for file in files)


def _close(body: object) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()


def _status_code(status: str) -> int | None:
    code = str(status)[:3]
    return int(code) if code.isdecimal() else None


def _outlasts_its_service(status: str, headers: Headers) -> bool:
    """Return whether the connection belongs to another protocol from now on, or to server-sent events."""
    return _status_code(status) == 101 or any(
        name.lower() == "content-type" and is_event_stream(value) for name, value in headers
    )


def _has_no_body(exchange: Exchange, pending: tuple[Any, ...] | None) -> bool:
    """Return whether a server may answer without reading the body."""
    if pending is None:
        return False
    code = _status_code(pending[0])
    return exchange.request.method == "HEAD" or code in {204, 304}
