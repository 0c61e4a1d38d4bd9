"""Variables of the access logs of gunicorn (``access_log_format``) and uWSGI (``log-format``)."""

from __future__ import annotations

import re

from sojourn.readers.formats.apache import column
from sojourn.readers.formats.fields import Field
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
UWSGI_VARIABLE = re.compile(r"%\((\w+)\)")
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
