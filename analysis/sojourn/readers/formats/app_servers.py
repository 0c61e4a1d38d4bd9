"""Variables of the access logs of gunicorn (``access_log_format``), uWSGI (``log-format``), morgan and servlet servers.

Servlet servers are Tomcat (``AccessLogValve``) and Jetty (``CustomRequestLog``).
"""

from __future__ import annotations

import re

from sojourn.readers.formats.apache import column
from sojourn.readers.formats.fields import CLF, Field
from sojourn.readers.formats.template import FREE, NUMBER, RAW, WORD, Part, parts_of

GUNICORN_VARIABLE = re.compile(r"%\((\{[^}]*\}[ioe]|\w+)\)s")
_GUNICORN = {
    "h": Field("remote_addr", pattern=WORD), "l": Field("logname", pattern=WORD),
    "u": Field("remote_user", pattern=FREE), "t": Field("end", "clf", r"\[[^\]]*\]"),
    "r": Field("request", pattern=FREE), "m": Field("method", pattern=WORD), "U": Field("uri", pattern=FREE),
    "q": Field("query", pattern=FREE), "H": Field("protocol", pattern=WORD),
    "s": Field("status", pattern=r"\d{3}"), "b": Field("body_bytes_sent", pattern=NUMBER),
    "B": Field("body_bytes_sent", pattern=NUMBER), "f": Field("referer", pattern=FREE),
    "a": Field("user_agent", pattern=FREE), "p": Field("worker", pattern=WORD),
    "T": Field("service_time", "s", NUMBER), "D": Field("service_time", "us", NUMBER),
    "M": Field("service_time", "ms", NUMBER), "L": Field("service_time", "s", NUMBER),
    "{x-request-id}i": Field("request_id", pattern=FREE),
}  # fmt: skip

_NUMBER = r"[\d.]+"
UWSGI_VARIABLE = re.compile(r"%\(([\w.-]+)\)")
_UWSGI = {
    "ctime": Field("start", "ctime"), "ltime": Field("start", "clf"), "time": Field("start", "whole_s"),
    "tmsec": Field("start", "ms"), "tmicro": Field("start", "us"), "tmsecs": Field("start", "ms"),
    "tmicros": Field("start", "us"), "ftime": Field("start", "clf"), "epoch": Field("end", "whole_s"),
    "secs": Field("service_time", "s", _NUMBER), "msecs": Field("service_time", "ms", _NUMBER),
    "micros": Field("service_time", "us", _NUMBER), "rssecs": Field("service_time", "s", _NUMBER),
    "method": Field("method", pattern=WORD), "uri": Field("uri", pattern=".*?"), "proto": Field("protocol"),
    "status": Field("status", pattern=r"\d{3}"), "addr": Field("remote_addr"), "host": Field("host"),
    "rsize": Field("body_bytes_sent"), "size": Field("bytes_sent"), "user": Field("remote_user", pattern="[^)]*"),
    "wid": Field("worker"), "pid": Field("worker"),
    # uWSGI does not escape quotes.
    "uagent": Field("user_agent", pattern=RAW), "referer": Field("referer", pattern=RAW),
    "var.HTTP_X_REQUEST_ID": Field("request_id"),
}  # fmt: skip


def gunicorn_parts(text: str) -> list[Part]:
    """Split the text of gunicorn's ``access_log_format``; ``t`` writes its own brackets."""
    return parts_of(
        text, GUNICORN_VARIABLE, lambda match: _GUNICORN.get(match[1].lower() if match[1][0] == "{" else match[1])
        or column(match[1].strip("{}")),
    )  # fmt: skip


def uwsgi_parts(text: str) -> list[Part]:
    """Split the text of uWSGI's ``log-format``."""
    return parts_of(text, UWSGI_VARIABLE, lambda match: _UWSGI.get(match[1]) or column(match[1]))


MORGAN_VARIABLE = re.compile(r":([-\w]{2,})(?:\[([^\]]+)\])?")
_MORGAN = {
    "id": Field("request_id"), "req[x-request-id]": Field("request_id"), "res[x-request-id]": Field("request_id"),
    "response-time": Field("service_time", "ms", r"-|[\d.]+"), "total-time": Field("service_time", "ms", r"-|[\d.]+"),
    "date": Field("end_web", pattern=r".*?"), "date[web]": Field("end_web", pattern=r".*?"),
    "date[clf]": Field("end", "clf", CLF), "date[iso]": Field("end", "iso_ms"),
    "method": Field("method"), "url": Field("uri"), "status": Field("status"), "remote-addr": Field("remote_addr"),
    "http-version": Field("protocol"), "remote-user": Field("remote_user", pattern=".*?"), "pid": Field("worker"),
    "user-agent": Field("user_agent", pattern=".*?"), "referrer": Field("referer", pattern=".*?"),
}  # fmt: skip
SERVLET_VARIABLE = re.compile(r"%(?:\{([^}]*)\})?>?([a-zA-Z])")
_SERVLET = {
    "t": Field("end", "clf", r"\[[^\]]*\]"), "r": Field("request"), "m": Field("method"), "U": Field("uri"),
    "s": Field("status"), "b": Field("body_bytes_sent"), "B": Field("body_bytes_sent"), "h": Field("remote_addr"),
    "a": Field("remote_addr"), "u": Field("remote_user", pattern=".*?"), "H": Field("protocol"), "I": Field("thread"),
    "T": Field("service_time", "s"), "D": Field("service_time", "us"), "F": Field("service_time", "ms"),
    "{x-request-id}i": Field("request_id"), "{ms}T": Field("service_time", "ms"), "{us}T": Field("service_time", "us"),
    "{s}T": Field("service_time", "s"), "{ns}T": Field("service_time", "ns"), "{fracsec}T": Field("service_time", "s"),
}  # fmt: skip


def morgan_parts(text: str) -> list[Part]:
    """Split the text of a format of morgan, Express's logger."""
    return parts_of(text, MORGAN_VARIABLE, _morgan_field)


def _morgan_field(match: re.Match[str]) -> Field:
    # The argument of a duration is its number of digits.
    name = match[1] if match[1].endswith("-time") else match[0][1:].lower()
    return _MORGAN.get(name) or column(match[0])


def servlet_parts(text: str) -> list[Part]:
    """Split the pattern of Tomcat's AccessLogValve, or the format of Jetty's CustomRequestLog."""
    return parts_of(text, SERVLET_VARIABLE, lambda match: _servlet_field(match[1], match[2]))


def _servlet_field(argument: str | None, letter: str) -> Field:
    variable = letter if argument is None else f"{{{argument.lower()}}}{letter}"
    return _SERVLET.get(variable) or column(f"{letter}_{argument or ''}")
