"""Describe failures of the connection to a server."""

from __future__ import annotations

import re

_CLOSED = "the connection was closed before the answer was whole"
# What HTTP clients say -> what it means. The first match applies; {} is its group.
_SAID = (
    (r"connect timeout=([\d.]+)", "no connection within {} s"),
    (r"read timeout=([\d.]+)", "no answer within {} s; ?timeout=SECONDS after its address waits longer"),
    (r"NameResolutionError|getaddrinfo failed", "its name is not known"),
    (r"certificate verify failed([^)]*)", "its certificate is not trusted{}"),
    (
        r"WRONG_VERSION_NUMBER|HTTPS_PROXY|UNEXPECTED_EOF|record layer failure",
        "the server at that address does not use TLS",
    ),
    (r"BadStatusLine|Unexpected response to server version", "what answers there is no ClickHouse"),
    (r"IncompleteRead|RemoteDisconnected|Stream failed during read|ConnectionReset|Broken ?[Pp]ipe", _CLOSED),
    (r"\[Errno [^\]]*\] ([^'\")]*)", "{}"),
    (r"HTTP status (\d+), server response: (?:<|$)", "it answered {} and no reason"),
    (r"HTTP status (\d+), server response: (.*?) ?(?:\(for url [^)]*\))?$", "it answered {}: {}"),
)


def broken(error: BaseException) -> str | None:
    """Return why no whole answer came, if ``error`` concerns the connection to a server and not the query."""
    text = " ".join(str(error).split())
    if "DB::Exception" in text:  # the engine itself has spoken
        return None
    for pattern, words in _SAID:
        match = re.search(pattern, text)
        if match:
            return words.format(*(part[:200] for part in match.groups()))
    return None


def is_transport(error: BaseException) -> bool:
    """Return whether ``error`` was raised by the libraries that fetch responses."""
    return type(error).__module__.partition(".")[0] in {"urllib3", "http", "pyarrow", "zstandard"}
