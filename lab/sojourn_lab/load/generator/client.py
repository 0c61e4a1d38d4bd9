"""One request over its own connection, and its outcome."""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

import aiohttp
from yarl import URL

from sojourn_lab.load.generator.clock import Clock
from sojourn_lab.load.generator.local_ports import few_ports
from sojourn_lab.load.plan import ClientRecord, Plan

CHUNK = 65_536
STREAMED_BYTES = 4_096

KINDS_BY_ERRNO = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.EADDRNOTAVAIL: "no_local_port",
    errno.EMFILE: "too_many_files",
}

# In this order: aiohttp's errors inherit from one another, and its timeouts from TimeoutError.
KINDS_BY_TYPE: tuple[tuple[type[BaseException], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "connect_timeout"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorCertificateError, "certificate"),
    (aiohttp.ClientSSLError, "tls"),
    (aiohttp.ClientConnectorError, "connect"),
    (aiohttp.ServerDisconnectedError, "disconnected"),
    (aiohttp.ClientPayloadError, "truncated"),
    (aiohttp.ClientResponseError, "malformed"),
    (OSError, "network"),
)


@dataclass(frozen=True)
class UserRequest:
    """A user's request: its number in the case, its work (s) in the app and in the tier behind it.

    `body`, `after`: seconds for which the app sends its body, and works after the answer. `cpu`: the app uses the
    processor for its service time. `url` is requested unchanged; None: it is a request to the lab's app.
    """

    number: int
    user: int | None
    service_time: float
    route: str | None = None
    dependency: float = 0.0
    body: float = 0.0
    after: float = 0.0
    cpu: bool = False
    url: str | None = None

    @property
    def query(self) -> str:
        """The query of its URL, with the `?`; empty without parameters."""
        parts = [f"route={self.route}"] if self.route is not None else []
        parts += [f"dependency={self.dependency:.6f}"] if self.dependency else []
        parts += [f"bytes={STREAMED_BYTES}&stream={self.body:.6f}"] if self.body else []
        parts += [f"after={self.after:.6f}"] if self.after else []
        parts += ["cpu=1"] if self.cpu else []
        return "?" + "&".join(parts) if parts else ""


def failed(record: ClientRecord) -> bool:
    """Return whether a client would retry: no response, or one of overload (429, 5xx)."""
    return record.error is not None or record.status is None or record.status == 429 or record.status >= 500


async def ended(
    record: ClientRecord,
    session: aiohttp.ClientSession,
    clock: Clock,
    method: str,
    url: str | URL,
    body: bytes | None = None,
) -> ClientRecord:
    """Send the request of a record and return the record with its outcome; failures are recorded, not raised."""
    headers = {"X-Lab-Case": record.case, "X-Lab-Id": record.id}
    if record.sent_request_id is not None:
        headers["X-Request-ID"] = record.sent_request_id
    try:
        async with session.request(method, url, data=body, headers=headers, allow_redirects=False) as answer:
            record.first_byte = clock.unix(clock.now())
            record.status = answer.status
            record.request_id = answer.headers.get("X-Request-ID")
            async for chunk in answer.content.iter_chunked(CHUNK):
                record.bytes += len(chunk)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        record.error = kind_of_failure(error)
    record.done = clock.unix(clock.now())
    return record


class Asks(Protocol):
    """Sends the users' requests to the system, and reports how each ended."""

    async def outcome(self, request: UserRequest, intended: float, attempt: int = 1) -> ClientRecord:
        """Return the record of one request sent now; failures are recorded, not raised."""

    async def close(self) -> None:
        """Close open connections."""


class Client:
    """Sends the requests of one case, each over its own connection as `siege -b` does, without redirects."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                force_close=True,
                ssl=True if plan.cacert is None else ssl.create_default_context(cafile=plan.cacert),
                socket_factory=few_ports(plan.local_ports) if plan.local_ports is not None else None,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=plan.timeout),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Close open connections."""
        await self._session.close()

    def _url(self, request: UserRequest) -> str | URL:
        """Return the URL of the request; that of a target is used unchanged, not quoted again."""
        if request.url is not None:
            return URL(request.url, encoded=True)
        query = request.query
        if self._plan.retries is not None:
            # A retry repeats the same query, which is unique to its request: a log recognises retries by it.
            query += f"{'&' if query else '?'}wanted={request.number}"
        return f"{self._plan.url}/sleep/{request.service_time:.6f}{query}"

    async def outcome(self, request: UserRequest, intended: float, attempt: int = 1) -> ClientRecord:
        """Return the record of one request sent now; failures are recorded, not raised."""
        sent = self._clock.now()
        unix = self._clock.unix
        record = ClientRecord(
            case=self._plan.case,
            id=f"{self._plan.case}-{request.number}",
            user=request.user,
            service_time=round(request.service_time, 6),
            intended=unix(intended),
            sent=unix(sent),
            route=request.route,
            attempt=attempt,
            sent_request_id=uuid4().hex if self._plan.request_ids else None,
        )
        return await ended(record, self._session, self._clock, "GET", self._url(request))


def kind_of_failure(error: BaseException) -> str:
    """Return one short word for a failure, the key under which it is counted."""
    if isinstance(error, OSError) and error.errno in KINDS_BY_ERRNO:
        return KINDS_BY_ERRNO[error.errno]
    return next((kind for types, kind in KINDS_BY_TYPE if isinstance(error, types)), type(error).__name__)
