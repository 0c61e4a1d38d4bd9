"""Variables of nginx in a ``log_format`` (ngx_http_log_module, ngx_http_upstream_module)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from sojourn.readers.formats.fields import FIELDS as QUANTITIES
from sojourn.readers.formats.fields import TEXTS, Field
from sojourn.readers.formats.template import FREE, NUMBER, RAW, WORD, Part, Variable, parts_of

VARIABLE = re.compile(r"\$(?:\{([A-Za-z0-9_]+)\}|([A-Za-z0-9_]+))")
# Attempts are joined by ", ", internal redirects by " : ".
_TIMES = r"(?:-|[0-9.]+)?(?:(?:, | : )(?:-|[0-9.]+)?)*"
_STATUSES = r"(?:-|\d+)?(?:(?:, | : )(?:-|\d+)?)*"
_WORDS = r'[^ ,"]*(?:(?:, | : )[^ ,"]*)*'
# nginx always has these, and no - for them.
_CLF = r"\d{1,2}/\w{3}/\d{4}[: ][0-9:.]+ [+-]\d{4}"
_ISO = r"\d{4}-\d\d-\d\d[T ][0-9:.,]+ ?(?:Z|[+-]\d\d:?\d\d)?"
_SECONDS = r"\d+(?:\.\d+)?"
_STATUS = r"\d{3}"
_HOST = r'[^/\s"]*'
FIELDS = {
    "msec": Field("end", "s", _SECONDS),
    "time_local": Field("end", "clf", _CLF),
    "time_iso8601": Field("end", "iso", _ISO),
    "request_time": Field("request_time", "s", _SECONDS),
    "status": Field("status", pattern=_STATUS),
    "request": Field("request", pattern=FREE),
    "request_method": Field("method", pattern=WORD),
    "request_uri": Field("uri", pattern=FREE),
    "uri": Field("uri", pattern=FREE),
    "server_protocol": Field("protocol", pattern=WORD),
    "host": Field("host", pattern=_HOST),
    "http_host": Field("host", pattern=FREE),
    "server_name": Field("host", pattern=FREE),
    "hostname": Field("proxy", pattern=WORD),
    "remote_addr": Field("remote_addr", pattern=WORD),
    "remote_user": Field("remote_user", pattern=FREE),
    "bytes_sent": Field("bytes_sent", pattern=NUMBER),
    "body_bytes_sent": Field("body_bytes_sent", pattern=NUMBER),
    "request_length": Field("request_length", pattern=NUMBER),
    "connection": Field("connection", pattern=NUMBER),
    "connection_requests": Field("connection_requests", pattern=NUMBER),
    "request_id": Field("request_id", pattern=WORD),
    "req_id": Field("request_id", pattern=WORD),  # ingress-nginx
    "http_x_request_id": Field("request_id", pattern=FREE),
    "upstream_addr": Field("upstream_addr", pattern=_WORDS),
    "upstream_status": Field("upstream_status", pattern=_STATUSES),
    "upstream_connect_time": Field("connect", "s", _TIMES),
    "upstream_header_time": Field("header", "s", _TIMES),
    "upstream_response_time": Field("response", "s", _TIMES),
    "upstream_queue_time": Field("proxy_queue", "s", _TIMES),  # NGINX Plus and Angie PRO
    "upstream_response_length": Field("upstream_response_length", pattern=_STATUSES),
    "upstream_http_x_queueing_delay": Field("queueing_delay", "s", FREE),
    "upstream_http_x_service_time": Field("service_time", "s", FREE),
    # Of text-generation-inference.
    "upstream_http_x_queue_time": Field("llm_queue", "ms", FREE),
    "upstream_http_x_inference_time": Field("llm_inference", "ms", FREE),
    "upstream_http_x_total_time": Field("llm_total", "ms", FREE),
    "upstream_http_x_worker": Field("worker", pattern=FREE),
    "upstream_http_x_route": Field("route", pattern=FREE),
    "sojourn_logged_start": Field("request_start", "s", WORD),
    "sojourn_start": Field("request_start", "s", WORD),
    "sojourn_proxy_start": Field("proxy_start", "s", WORD),
}  # fmt: skip
# Variables without a field of their own whose values hold no blanks, and those that are numbers or lists of numbers.
_WORDY = frozenset((
    "scheme", "https", "pipe", "server_addr", "realip_remote_addr", "proxy_protocol_addr", "ssl_protocol", "ssl_cipher",
    "ssl_session_id", "ssl_session_reused", "upstream_cache_status", "limit_req_status", "limit_conn_status",
    "request_completion", "nginx_version", "http2", "http3", "is_args",
))  # fmt: skip
_NUMERIC = frozenset((
    "server_port", "remote_port", "realip_remote_port", "proxy_protocol_port", "pid", "connection_time", "gzip_ratio",
    "limit_rate", "tcpinfo_rtt", "tcpinfo_rttvar", "tcpinfo_snd_cwnd", "tcpinfo_rcv_space",
))  # fmt: skip
_LISTS = frozenset(("upstream_bytes_received", "upstream_bytes_sent", "upstream_first_byte_time"))
# Of several variables of one field, the first of these has it.
_BEST = {"request_id": ("request_id", "req_id"), "uri": ("request_uri",), "host": ("host", "http_host")}


def field_of(variable: str) -> Field:
    """Return the field of a variable without its ``$``; a column of that name if it is none of a request's parts."""
    variable = variable.lower()
    if variable in FIELDS:
        return FIELDS[variable]
    pattern = FREE
    if variable in _WORDY:
        pattern = WORD
    elif variable in _NUMERIC:
        pattern = NUMBER
    elif variable in _LISTS:
        pattern = _TIMES
    own = variable in QUANTITIES or variable[0].isdigit()
    return Field(f"own_{variable}" if own else variable, pattern=pattern)


def nginx_parts(text: str, escape: str = "default") -> list[Part]:
    """Split the text of a ``log_format``; ``escape``: how it escapes quotes (default, json or none)."""
    plain = VARIABLE.sub(lambda match: f"${{{match[1] or match[2]}}}", text)
    parts = parts_of(plain, VARIABLE, lambda match: field_of(match[1]))
    parts = [Variable(_plain(part.text), part.field) if isinstance(part, Variable) else part for part in parts]
    return [_raw(part) if escape == "none" else part for part in _without_lesser(parts)]


def _plain(text: str) -> str:
    """Return a variable without its braces."""
    return re.sub(r"\{(\w+)\}", r"\1", text)


def _name(variable: Variable) -> str:
    return variable.text[1:].partition("=")[0].lower()


def _raw(part: Part) -> Part:
    """Return a part whose value may hold quotes."""
    if isinstance(part, str) or part.field.pattern != FREE:
        return part
    return Variable(part.text, replace(part.field, pattern=RAW))


def _without_lesser(parts: Iterable[Part]) -> list[Part]:
    """Return parts where, of several variables of one field, only the best has it."""
    parts = list(parts)
    present = {_name(part) for part in parts if isinstance(part, Variable)}
    best = {field: next((name for name in names if name in present), None) for field, names in _BEST.items()}
    return [_lesser(part) if isinstance(part, Variable) and _is_lesser(part, best) else part for part in parts]


def _is_lesser(part: Variable, best: dict[str, str | None]) -> bool:
    chosen = best.get(part.field.name)
    return chosen is not None and _name(part) != chosen


def _lesser(part: Variable) -> Variable:
    name = _name(part)
    return Variable(part.text, replace(part.field, name=f"own_{name}" if name in (*TEXTS, *QUANTITIES) else name))
