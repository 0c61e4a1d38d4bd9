"""The kinds of application servers that can be queried, and what each one's figures count."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from sojourn.host.sample import Raindrops, WorkerQueue
from sojourn.host.servers.address import Address, concealed, parse
from sojourn.host.servers.answers import (
    node_queue,
    php_fpm_queue,
    puma_queue,
    raindrops_of,
    tomcat_queue,
    uwsgi_queue,
)
from sojourn.host.servers.connection import http_text, stream_text
from sojourn.host.servers.fastcgi import fastcgi_text
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

Answer = WorkerQueue | Raindrops

PATIENCE = 30.0
"""Seconds for a whole answer: then the server counts as not answering, and is queried again."""
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)
"""What ``Server.answer`` raises."""


@dataclass(frozen=True)
class Kind:
    """A kind of application server.

    Attributes:
        addresses: the forms of its addresses, for messages.
        target: path and query without one in the address.
        counts: what its figures count, from which event to which, in sentences.
        parse: answer -> figures. Raises ValueError.
        plain: how an address without http:// is queried; None: such an address is refused.
        in_queue: whether the query usually waits in the measured queue.
    """

    addresses: str
    target: str
    counts: str
    parse: Callable[[str], Answer]
    plain: Callable[[Address, str, float], str] | None = None
    in_queue: bool = False


def _stream(address: Address, _target: str, seconds: float) -> str:
    return stream_text(address, seconds)


KINDS: Mapping[str, Kind] = {
    "php-fpm": Kind(
        "http://HOST[:PORT]/status, HOST:PORT/status or unix:/SOCKET:/status",
        "/status",
        "php-fpm: waiting are connections in the backlog of the pool's TCP socket, from the end of connect() to "
        "accept() by a child, as of the master's last check, at most 1 s before; of a Unix socket PHP-FPM does not "
        "know them: see the accept queues. Busy are children in a request. Limit reached: pm.max_children.",
        php_fpm_queue,
        fastcgi_text,
        in_queue=True,
    ),
    "uwsgi": Kind(
        "HOST:PORT, unix:/SOCKET, or with --stats-http http://HOST:PORT",
        "/",
        "uwsgi: waiting are connections in the backlogs of its TCP sockets, from the end of connect() to accept() by "
        "a worker, as of the master's last check, once a second; of a Unix socket uWSGI does not know them: see the "
        "accept queues. Workers are cores (processes × threads). Limit reached: checks that saw a full backlog.",
        uwsgi_queue,
        _stream,
    ),
    "puma": Kind(
        "http[s]://HOST:PORT/stats?token=TOKEN or unix:/SOCKET:/stats?token=TOKEN",
        "/stats",
        "puma: waiting are requests that Puma has read and no thread has begun. While all threads are busy Puma "
        "accepts no connection: new ones wait in the accept queue, and only requests on kept connections wait here. "
        "Of a cluster the figures are those of each worker's last report, up to 5 s before.",
        puma_queue,
        http_text,
    ),
    "node": Kind(
        "http[s]://HOST[:PORT]/PATH of the statsHandler",
        "/",
        "node: busy are requests that the process has read and not answered. They wait in no countable queue: each "
        "step of a request waits for the event loop, and the event loop's delay is how long. With several processes "
        "the figures are those of the one that answered.",
        node_queue,
        in_queue=True,
    ),
    "tomcat": Kind(
        "http[s]://USER:PASSWORD@HOST:PORT/manager/jmxproxy/",
        "/manager/jmxproxy/",
        "tomcat: waiting are connections with a readable request that no thread has begun, in the queue of shared "
        "<Executor>s; the queue of a connector's own threads is not published. The query itself is one busy thread, "
        "of all connectors and executors together.",
        tomcat_queue,
        in_queue=True,
    ),
    "unicorn": Kind(
        "http://HOST:PORT/_raindrops or http://unix:/SOCKET:/_raindrops",
        "/_raindrops",
        "unicorn: waiting are connections in the backlogs of its sockets, from the end of connect() to accept() by a "
        "worker, at the time of the answer; busy are requests in the app.",
        raindrops_of,
        in_queue=True,
    ),
}


class Server:
    """An application server that can be queried.

    Args:
        kind: a key of ``KINDS``.
        address: where; a path or a query may be omitted.

    Raises:
        SojournError: the kind is unknown, or the address has none of its forms. Messages hold no password.
    """

    def __init__(self, kind: str, address: str) -> None:
        if kind not in KINDS:
            raise SojournError(f"{printable(kind)} is no kind of server: {', '.join(KINDS)}")
        self.name = kind
        self.kind = KINDS[kind]
        try:
            self.address = parse(address)
        except ValueError:
            raise self._refused(address) from None
        if not self.address.scheme and self.kind.plain is None:
            raise self._refused(address)
        target = self.address.target
        self._target = target if len(target) > 1 else self.kind.target

    def _refused(self, address: str) -> SojournError:
        name = "raindrops" if self.name == "unicorn" else self.name
        return SojournError(f"{concealed(address)}: {name} is queried at {self.kind.addresses}")

    @property
    def targets(self) -> tuple[str, ...]:
        """Path and query of each request that makes up the answer."""
        path, _, query = self._target.partition("?")
        if self.name == "php-fpm" and "json" not in query.split("&"):
            return (f"{path}?{query}&json" if query else f"{path}?json",)
        if self.name == "tomcat" and not query:
            return tuple(f"{path}?qry=*:type={bean},*" for bean in ("ThreadPool", "Executor"))
        return (self._target,)

    def answer(self, seconds: float = PATIENCE) -> Answer:
        """Query the server once.

        Args:
            seconds: for the whole answer.

        Raises:
            OSError, http.client.HTTPException, ValueError: there is no answer, or it is not one of this kind.
        """
        begun = time.monotonic()
        request = http_text if self.address.scheme else self.kind.plain
        assert request is not None  # noqa: S101 - refused when it was made
        texts = [
            request(self.address, target, max(seconds - (time.monotonic() - begun), 0.0)) for target in self.targets
        ]
        figures = self.kind.parse("\n".join(texts))
        if not figures.is_possible():  # sums, for example; a recording with them would be refused
            raise ValueError("the answer has impossible figures")
        return msgspec.structs.replace(figures, seconds=round(time.monotonic() - begun, 6))


def server_of(text: str) -> Server:
    """Return the server of ``KIND=ADDRESS``.

    Raises:
        SojournError: it is not of that form, or ``Server`` raises it.
    """
    kind, separator, address = text.partition("=")
    if not separator or kind not in KINDS:
        raise SojournError(f"{concealed(text)} is not KIND=ADDRESS; kinds are {', '.join(KINDS)}")
    return Server(kind, address)
