"""Variables of HAProxy's ``log-format`` (configuration manual, section 8.2.6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sojourn.readers.formats.fields import CLF, Field
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.template import RAW, Part, parts_of

# %, {flags}, a name, or [expression].
VARIABLE = re.compile(r"%(?:\{[^}]*\})?(?:\[([^\]]*)\]|([A-Za-z]+)|%)")
# The same with its flags; %o, which sets them, writes nothing.
_FLAGGED = re.compile(r"%(?:\{([^}]*)\})?(?:\[([^\]]*)\]|(o)(?![A-Za-z]) ?|([A-Za-z]+)|%)")
_NUMBER = r"[+-]?\d+"
_HEADERS = r"\{[^}]*\}"
FIELDS = {
    "tr": Field("start", "clf_ms", r"\d\d/\w{3}/\d{4}:[0-9:]{8}\.\d{3}"),
    "t": Field("accept", "clf_ms", r"\d\d/\w{3}/\d{4}:[0-9:]{8}\.\d{3}"),
    "trg": Field("start", "clf", CLF),
    "trl": Field("start", "clf", CLF),
    "T": Field("accepted", pattern=CLF),
    "Tl": Field("accepted_local", pattern=CLF),
    "TR": Field("upload", "ms", _NUMBER),
    "Tw": Field("proxy_queue", "ms", _NUMBER),
    "Tc": Field("connect", "ms", _NUMBER),
    "Tr": Field("first_byte", "ms", _NUMBER),
    "Td": Field("transfer", "ms", _NUMBER),
    "Th": Field("handshake", "ms", _NUMBER),
    "Ti": Field("idle", "ms", _NUMBER),
    "Tq": Field("until_read", "ms", _NUMBER),
    "Tt": Field("session_time", "ms", _NUMBER),
    "Tu": Field("haproxy_Tu", pattern=_NUMBER),
    "Ta": Field("request_time", "ms", _NUMBER),
    "ST": Field("status", pattern=r"-?\d+"),
    "B": Field("bytes_sent", pattern=r"\+?\d+"),
    "U": Field("request_length", pattern=r"\+?\d+"),
    "r": Field("request", pattern=r"[^\"]*"),
    "HM": Field("method"),
    "HU": Field("uri"),
    "HPO": Field("uri"),
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
    "hrl": Field("captured_request_headers", pattern=".*?"),
    "hsl": Field("captured_response_headers", pattern=".*?"),
    # Nothing, not even the blank before it, where no header is captured.
    "hr": Field("captured_request_headers", pattern=_HEADERS, optional=True, quoted=True),
    "hs": Field("captured_response_headers", pattern=_HEADERS, optional=True, quoted=True),
}
# Names of HAProxy 1.5 and before.
_OLD_NAMES = {
    "Bi": "bi", "Bp": "bp", "Ci": "ci", "Cp": "cp", "Fi": "fi", "Fp": "fp", "Si": "si", "Sp": "sp", "cc": "CC",
    "cs": "CS", "st": "ST",
}  # fmt: skip
FIELDS |= {old: FIELDS[name] for old, name in _OLD_NAMES.items() if name in FIELDS}
# Strings, which the flag Q puts in quotes.
_STRINGS = {
    "CC", "CS", "H", "HM", "HP", "HPO", "HQ", "HU", "HV", "ID", "b", "bi", "ci", "f", "fi", "ft", "hrl", "hsl", "r",
    "s", "si", "sslc", "sslv",
}  # fmt: skip
# Expressions that HAProxy documents for its variables.
_EXPRESSIONS = {
    "unique-id": "ID", "src": "ci", "status": "ST", "txn.status": "ST", "method": "HM", "path": "HP", "url": "HU",
    "pathq": "HU", "be_name": "b", "srv_name": "s", "fe_name": "f", "req.timer.hdr": "TR", "req.timer.queue": "Tw",
    "bc.timer.connect": "Tc", "res.timer.hdr": "Tr", "res.timer.data": "Td", "txn.timer.total": "Ta",
    "fc.timer.handshake": "Th", "req.timer.idle": "Ti", "req.timer.tq": "Tq", "fc.timer.total": "Tt",
    "txn.sess_term_state": "ts", "txn.conn_retries": "rc",
}  # fmt: skip
_CLOCKS = {"s": "whole_s", "ms": "ms", "us": "us"}
_DATE = re.compile(r"(accept|request)_date(?:\((?:0,)?(s|ms|us)?\))?")
_FLAG = re.compile(r"([+-])([A-Z])")
PARTIAL = (
    "Times that begin with + end at the response headers (option logasap): the rest of the answer is in no time of "
    "theirs."
)


def haproxy_parts(text: str) -> list[Part]:
    """Split the text of a ``log-format``."""

    def part(match: re.Match[str]) -> Field | str:
        return "%" if match[1] is None and match[2] is None else _field_of(match[1], match[2])

    return parts_of(_with_quotes(text.replace("\\ ", " ")), VARIABLE, part)


def partial_note(log: LineFormat, lines: Sequence[str]) -> LineFormat:
    """Return the format with a note where times of these lines end before their answer does."""
    name = log.first("request_time", "session_time")
    if not log.prefix or log.json or name is None or PARTIAL in log.notes:
        return log
    partial = any((match := log.pattern.match(line)) and match[name].startswith("+") for line in lines)
    return replace(log, notes=(*log.notes, PARTIAL)) if partial else log


def _field_of(expression: str | None, name: str | None) -> Field:
    if expression is None:
        return FIELDS.get(name or "", Field(f"haproxy_{name}"))
    if match := _DATE.fullmatch(expression):
        return Field("start" if match[1] == "request" else "accept", _CLOCKS[match[2] or "s"], r"\d+")
    if expression in _EXPRESSIONS:
        return FIELDS[_EXPRESSIONS[expression]]
    # Its value may have blanks, and quotes that are not escaped.
    return Field(re.sub(r"\W+", "_", expression).strip("_"), pattern=RAW)


def _with_quotes(text: str) -> str:
    """Return the text with the quotes that the flag Q writes; %{+Q}o and %{-Q}o set it for all that follow."""
    everywhere = False

    def written(match: re.Match[str]) -> str:
        nonlocal everywhere
        flags = {flag: sign == "+" for sign, flag in _FLAG.findall(match[1] or "")}
        quoted = flags.get("Q", everywhere)
        if match[3]:
            everywhere = quoted
            return ""
        variable = f"%[{match[2]}]" if match[2] is not None else f"%{match[4] or '%'}"
        is_string = match[2] is not None and match[2] not in _EXPRESSIONS
        is_string = is_string or _EXPRESSIONS.get(match[2], match[4]) in _STRINGS
        return f'"{variable}"' if quoted and is_string else variable

    return _FLAGGED.sub(written, text)
