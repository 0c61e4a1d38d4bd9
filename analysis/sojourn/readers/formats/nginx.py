"""Variables of nginx in a ``log_format`` (ngx_http_log_module, ngx_http_upstream_module)."""

from __future__ import annotations

import re

from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.template import Part, Variable, parts_of

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Attempts are joined by ", ", internal redirects by " : ".
_TIMES = r"(?:-|[0-9.]+)(?:(?:, | : )(?:-|[0-9.]+))*"
WORDS = r"[^ ,]*(?:(?:, | : )[^ ,]+)*"
FIELDS = {
    "msec": Field("end", "s"),
    "time_local": Field("end", "clf"),
    "time_iso8601": Field("end", "iso"),
    "request_time": Field("request_time", "s"),
    "status": Field("status"),
    "request": Field("request"),
    "request_method": Field("method"),
    "request_uri": Field("uri"),
    "uri": Field("uri"),
    "server_protocol": Field("protocol"),
    "host": Field("host"),
    "http_host": Field("host"),
    "server_name": Field("host"),
    "hostname": Field("proxy"),
    "remote_addr": Field("remote_addr"),
    # A user's name may hold a blank.
    "remote_user": Field("remote_user", pattern=".*?"),
    "bytes_sent": Field("bytes_sent"),
    "body_bytes_sent": Field("body_bytes_sent"),
    "request_length": Field("request_length"),
    "connection": Field("connection"),
    "connection_requests": Field("connection_requests"),
    "request_id": Field("request_id"),
    "req_id": Field("request_id"),  # ingress-nginx
    "http_x_request_id": Field("request_id"),
    "upstream_addr": Field("upstream_addr", pattern=WORDS),
    "upstream_status": Field("upstream_status", pattern=WORDS),
    "upstream_connect_time": Field("connect", "s", _TIMES),
    "upstream_header_time": Field("header", "s", _TIMES),
    "upstream_response_time": Field("response", "s", _TIMES),
    "upstream_response_length": Field("upstream_response_length", pattern=WORDS),
    "upstream_http_x_queueing_delay": Field("queueing_delay", "s"),
    "upstream_http_x_service_time": Field("service_time", "s"),
    "upstream_http_x_worker": Field("worker"),
    "upstream_http_x_route": Field("route"),
    "sojourn_logged_start": Field("request_start", "s"),
    "sojourn_start": Field("request_start", "s"),
    "sojourn_proxy_start": Field("proxy_start", "s"),
}  # fmt: skip


def field_of(variable: str) -> Field:
    """Return the field of a variable without its ``$``; a column of that name if it is none of a request's parts."""
    return FIELDS.get(variable, Field(variable))


def nginx_parts(text: str) -> list[Part]:
    """Split the text of a ``log_format``."""
    plain = VARIABLE.sub(lambda match: f"${{{match[1] or match[2]}}}", text)
    parts = parts_of(plain, VARIABLE, lambda match: field_of(match[1]))
    return [Variable(f"${part.text[2:-1]}", part.field) if isinstance(part, Variable) else part for part in parts]
