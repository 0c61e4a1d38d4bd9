"""Variables of HAProxy's ``log-format`` (configuration manual, section 8.2.6)."""

from __future__ import annotations

import re
from dataclasses import replace

from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.template import Part, parts_of

# %, {flags}, a name, or [expression].
VARIABLE = re.compile(r"%(?:\{[^}]*\})?(?:\[([^\]]*)\]|([A-Za-z]+)|%)")
# Flags for the whole format, which write nothing.
_QUOTE_ALL = re.compile(r"%\{\+Q\}o ?")
_NUMBER = r"[+-]?\d+"
_HEADERS = r"\{[^}]*\}"
FIELDS = {
    "tr": Field("start", "clf_ms", r"\d\d/\w{3}/\d{4}:[0-9:]{8}\.\d{3}"),
    "t": Field("start", "clf_ms", r"\d\d/\w{3}/\d{4}:[0-9:]{8}\.\d{3}"),
    "trg": Field("start", "clf", r"\d\d/\w{3}/\d{4}:[0-9:]{8} [+-]\d{4}"),
    "trl": Field("start", "clf", r"\d\d/\w{3}/\d{4}:[0-9:]{8} [+-]\d{4}"),
    "T": Field("accepted", pattern=r"\d\d/\w{3}/\d{4}:[0-9:]{8} [+-]\d{4}"),
    "Tl": Field("accepted_local", pattern=r"\d\d/\w{3}/\d{4}:[0-9:]{8} [+-]\d{4}"),
    "TR": Field("upload", "ms", _NUMBER),
    "Tw": Field("proxy_queue", "ms", _NUMBER),
    "Tc": Field("connect", "ms", _NUMBER),
    "Tr": Field("first_byte", "ms", _NUMBER),
    "Td": Field("transfer", "ms", _NUMBER),
    "Ta": Field("request_time", "ms", _NUMBER),
    "ST": Field("status", pattern=r"-?\d+"),
    "B": Field("bytes_sent", pattern=r"\+?\d+"),
    "U": Field("request_length", pattern=r"\+?\d+"),
    "r": Field("request", pattern=r"[^\"]*"),
    "HM": Field("method"),
    "HU": Field("uri"),
    "HP": Field("uri"),
    "HV": Field("protocol"),
    "b": Field("backend_name"),
    "s": Field("server_name"),
    "ci": Field("remote_addr", pattern=r"\S+"),
    "ID": Field("request_id"),
    "H": Field("proxy"),
    "f": Field("frontend"),
    "ft": Field("frontend"),
    "tsc": Field("termination"),
    "ts": Field("termination", pattern=r"[^ ]{2}"),
    "rc": Field("retries", pattern=r"\+?\d+"),
    "sq": Field("server_queue", pattern=r"\d+"),
    "bq": Field("backend_queue", pattern=r"\d+"),
    "rt": Field("request_counter"),
    # Nothing, not even the blank before it, where no header is captured.
    "hr": Field("captured_request_headers", pattern=_HEADERS, optional=True),
    "hs": Field("captured_response_headers", pattern=_HEADERS, optional=True),
}
_UNQUOTED = ("status", "bytes_sent", "request_length", "retries", "server_queue", "backend_queue")
_EXPRESSIONS = {"unique-id": Field("request_id"), "src": Field("remote_addr")}


def haproxy_parts(text: str) -> list[Part]:
    """Split the text of a ``log-format``."""

    def part(match: re.Match[str]) -> Field | str:
        expression, name = match[1], match[2]
        if expression is None and name is None:
            return "%"
        if name is not None:
            field = FIELDS.get(name, Field(f"haproxy_{name}"))
        else:
            field = _EXPRESSIONS.get(expression, Field(re.sub(r"\W+", "_", expression).strip("_")))
        return _quoted(field) if everywhere or match[0].startswith("%{+Q}") else field

    text, everywhere = _QUOTE_ALL.subn("", text.replace("\\ ", " "))
    return parts_of(re.sub(r"%\{\+Q\}r", '"%r"', text), VARIABLE, part)


def _quoted(field: Field) -> Field:
    """Return a field that may be in quotes; numbers and instants are not."""
    if field.unit or field.optional or field.name in _UNQUOTED:
        return field
    return replace(field, quoted=True, pattern=field.pattern or r'[^"]*')
