"""Redact URIs and addresses so that they do not identify a client.

The same rules are in nginx/sojourn.conf (for the log) and in collector/clickhouse (for the store): a URI loses its
query, an address all but its network, 24 bits of IPv4 and 48 of IPv6. A text that is not an address is kept: it is
the result of a custom configuration.
"""

from __future__ import annotations

import ipaddress
import os
import re

SWITCH = "SOJOURN_REDACT"
MAPPED = "::ffff:"  # how IPv4 is written on a socket for both versions (RFC 4291, section 2.5.5.2)

_IPV4 = r"\b([0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3})\.[0-9]{1,3}\b"
# Of a line that could not be read: whatever follows a question mark within its word, and what looks like an address.
# In this order, also in the store (parts/redacted_text.sql): the same line must be the same text, or it is refused
# twice.
_IN_TEXT = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'\?(?:[^"\\ \t\r\n]|\\.)*', "?"),
        (_IPV4, r"\1.0"),
        (r'("remote_addr" ?: ?")((?:[0-9A-Fa-f]{1,4}:){1,3})[0-9A-Fa-f:.]+', r"\1\2:"),
        (r'("url\.query" ?[:,] ?(?:"value" ?: ?\{ ?"stringValue" ?: ?)?")(?:[^"\\]|\\.)*', r"\1"),
    )
)


def redacting() -> bool:
    """Return whether stored and shown values are redacted: unless ``SOJOURN_REDACT`` is ``off``."""
    return os.environ.get(SWITCH, "on").lower() != "off"


def path_of(uri: str) -> str:
    """Return ``/login?token=x`` as ``/login``."""
    return re.split(r"[?#]", uri, maxsplit=1)[0]


def network_of(address: str) -> str:
    """Return ``192.0.2.7`` as ``192.0.2.0``, ``2001:db8:1:2::3`` as ``2001:db8:1::``; anything else unchanged."""
    prefix = MAPPED if address.startswith(MAPPED) and "." in address else ""
    try:
        parsed = ipaddress.ip_address(address[len(prefix) :])
    except ValueError:
        return address
    if (prefix and parsed.version == 6) or "%" in address:
        return address
    length = 24 if parsed.version == 4 else 48
    return prefix + str(ipaddress.ip_network((parsed, length), strict=False).network_address)


def redacted_text(line: str) -> str:
    """Return a rejected line without queries and with truncated addresses, as far as they are recognised."""
    for pattern, replacement in _IN_TEXT:
        line = pattern.sub(replacement, line)
    return line


def displayed_uri(uri: str | None) -> str | None:
    """Return a URI without its query, as results show it."""
    return path_of(uri) if uri is not None and redacting() else uri


def displayed_line(line: object) -> str:
    """Return a refused line shortened and redacted, as reports and messages show it."""
    return redacted_text(str(line)) if redacting() else str(line)
