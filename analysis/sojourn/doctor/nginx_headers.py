"""The request headers that Sojourn reads, and the nginx lines that set each of them.

nginx passes on every header of a client that no line sets. So each way to an app (``proxy_pass``, ``grpc_pass``,
``fastcgi_pass``, ``uwsgi_pass``, ``scgi_pass``) sets all of these; its include file comes from this one table. Without
files of Sojourn no line sets the trace context: it reaches the app as before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

STAMPS = ("x-request-start", "x-queue-start")
FAMILIES = ("proxy", "grpc", "fastcgi", "uwsgi", "scgi")
"""Directives that pass requests to an app, without ``_pass``."""
HEADER_FAMILIES = ("proxy", "grpc")
"""Families whose directive names a header as HTTP does; the others name a parameter of CGI, HTTP_X_REQUEST_START."""
NO_INSTANTS = ("time_iso8601", "time_local", "date_local", "date_gmt", "request_time")
"""Variables of nginx that are dates or durations instead of unix times."""
NOT_SENT = '""'
"""The value with which nginx sends no header, not even a client's."""


@dataclass(frozen=True)
class RequestHeader:
    """A header that Sojourn reads of a request.

    Attributes:
        name: as HTTP writes it.
        value: what nginx sends, as its configuration writes it, where ``sojourn.conf`` is included.
        bare: the same in a configuration without files of Sojourn.
        trace: it is part of the trace context, which is a client's unless ``$sojourn_trace`` says otherwise.
        may_be_empty: the value may be empty at run time: an empty header is not sent, but an empty parameter would be.
    """

    name: str
    value: str
    bare: str = NOT_SENT
    trace: bool = False
    may_be_empty: bool = False

    def line(self, family: str, value: str) -> str:
        """Return the line that sets this header to ``value`` for a family (proxy, grpc, fastcgi, …)."""
        if family in HEADER_FAMILIES:
            return f"{setter(family)} {self.name} {value};"
        flag = " if_not_empty" if self.may_be_empty and value == self.value else ""
        return f"{setter(family)} HTTP_{self.name.upper().replace('-', '_')} {value}{flag};"


REQUEST_HEADERS = (
    RequestHeader("X-Request-Start", "$sojourn_stamp_sent", '"t=${msec}"'),
    RequestHeader("X-Queue-Start", NOT_SENT),
    RequestHeader("X-Request-ID", "$sojourn_request_id", "$request_id", may_be_empty=True),
    RequestHeader("traceparent", "$sojourn_traceparent", trace=True, may_be_empty=True),
    RequestHeader("tracestate", "$sojourn_tracestate", trace=True, may_be_empty=True),
)
GUARDED = tuple(header for header in REQUEST_HEADERS if not header.trace)
"""The headers whose values of a client never reach an app that is measured."""
OWN_VARIABLE = "sojourn_sent"
"""The variable of a stamp without files of Sojourn: evaluated once a request, then sent and logged."""
OWN_MAP = f'map "" ${OWN_VARIABLE} {{ default $msec; }}'
ANSWER_HEADERS = ("X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route")
REQUEST_NAMES = tuple(header.name.lower() for header in REQUEST_HEADERS)
OWN_STAMP = REQUEST_HEADERS[0].bare


def setter(family: str) -> str:
    """Return the directive of a family that sends the app a header."""
    return f"{family}_set_header" if family in HEADER_FAMILIES else f"{family}_param"


def header_name(name: str) -> str:
    """Return the first argument of such a directive as HTTP writes it, in small letters."""
    small = name.lower()
    return small.removeprefix("http_").replace("_", "-") if small.startswith("http_") else small


def bare_lines(family: str) -> list[str]:
    """Return the lines that replace a client's values of the guarded headers without any file of Sojourn."""
    return [header.line(family, header.bare) for header in GUARDED]


def own_stamp_lines(keys: str) -> str:
    """Return the lines of a stamp without any file of Sojourn, where the directive of the location is unknown.

    Args:
        keys: the lines of the log format, which log ``OWN_VARIABLE``.
    """
    start, value = REQUEST_HEADERS[0], f"t=${OWN_VARIABLE}"
    return "\n".join(
        [
            "# in http:",
            OWN_MAP,
            "# beside proxy_pass, in place of the stamp that is sent:",
            start.line("proxy", value),
            "# beside fastcgi_pass, and in the same way uwsgi_pass and scgi_pass:",
            start.line("fastcgi", value),
            "# in the format:",
            keys,
        ]
    )


def blank_lines(family: str, headers: Collection[RequestHeader], present: Collection[str] = ()) -> list[str]:
    """Return the lines that send none of these headers, without those that are ``present``, in small letters."""
    return [header.line(family, NOT_SENT) for header in headers if header.name.lower() not in present]


def hide_lines(family: str) -> list[str]:
    """Return the lines that keep the app's measurements from the client."""
    return [f"{family}_hide_header {name};" for name in ANSWER_HEADERS]
