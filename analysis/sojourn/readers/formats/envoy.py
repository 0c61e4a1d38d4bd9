"""Command operators of Envoy's access log (configuration reference, substitution formatter)."""

from __future__ import annotations

import re

from sojourn.readers.formats.fields import CLF, FIELDS, POINTS, TEXTS, Field, span
from sojourn.readers.formats.template import Part, parts_of

# %OPERATOR%, %OPERATOR(argument)%, %OPERATOR(argument):length%
VARIABLE = re.compile(r"%([A-Z][A-Z0-9_]*)(?:\((.*?)\))?(?::\d+)?%")
_PLAIN = {
    "DURATION": Field("request_time", "ms"),
    "REQUEST_DURATION": Field("upload", "ms"),
    "REQUEST_TX_DURATION": Field("until_sent", "ms"),
    "RESPONSE_DURATION": Field("until_header", "ms"),
    "RESPONSE_TX_DURATION": Field("after_header", "ms"),
    "UPSTREAM_CONNECTION_POOL_READY_DURATION": Field("pool_ready", "ms"),
    "UPSTREAM_REQUEST_ATTEMPT_COUNT": Field("attempt_count"),
    "PROTOCOL": Field("protocol"),
    "RESPONSE_CODE": Field("status"),
    "RESPONSE_FLAGS": Field("response_flags"),
    "RESPONSE_FLAGS_LONG": Field("response_flags"),
    "RESPONSE_CODE_DETAILS": Field("response_code_details"),
    "BYTES_SENT": Field("bytes_sent"),
    "BYTES_RECEIVED": Field("request_length"),
    "UPSTREAM_HOST": Field("upstream_addr"),
    "UPSTREAM_CLUSTER": Field("service"),
    "ROUTE_NAME": Field("route"),
    "STREAM_ID": Field("request_id"),
    "CONNECTION_ID": Field("connection"),
    "HOSTNAME": Field("proxy"),
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": Field("remote_addr"),
    "TRACE_ID": Field("trace_id"),
}
_REQUEST = {
    ":method": Field("method"),
    ":path": Field("uri"),
    "x-envoy-original-path?:path": Field("uri"),
    ":authority": Field("host"),
    "host": Field("host"),
    "x-request-id": Field("request_id"),
}
_RESPONSE = {
    # From the end of the request to the upstream's headers; the wait for a connection and failed attempts are in it.
    "x-envoy-upstream-service-time": Field("header", "ms"),
    "x-queueing-delay": Field("queueing_delay", "s"),
    "x-service-time": Field("service_time", "s"),
    "x-worker": Field("worker"),
    "x-route": Field("route"),
}
_TIMES = {"START_TIME": "start", "START_TIME_LOCAL": "start", "EMIT_TIME": "emitted", "EMIT_TIME_LOCAL": "emitted"}
_FRACTION = re.compile(r"%([1-9]?)f")
_EPOCH = re.compile(r"%s(\.?)(?:%([1-9]?)f)?")
_WHOLE_UNITS = {"3": "ms", "6": "us", "9": "ns", "": "ns"}
_ISO = re.compile(r"(?:%F|%Y([-/])%m\1%d)[T ](?:%T|%H:%M:%S)([.,]%[1-9]?f)?(?:(Z|%z|%Ez))?")
_CLF_FORM = re.compile(r"%d/%b/%Y:(?:%T|%H:%M:%S) %z")
# Names that JSON formats give the operators: those of Istio, Contour, Envoy Gateway, AIBrix, Higress and Emissary.
JSON_KEYS = {
    "start_time": Field("start", "iso_ms"),
    "start_time_precise": Field("start", "iso_us"),
    "@timestamp": Field("start", "iso_ms"),
    "duration": _PLAIN["DURATION"],
    "duration_ms": _PLAIN["DURATION"],
    "request_duration": _PLAIN["REQUEST_DURATION"],
    "request_duration_ms": _PLAIN["REQUEST_DURATION"],
    "request_tx_duration": _PLAIN["REQUEST_TX_DURATION"],
    "request_tx_duration_ms": _PLAIN["REQUEST_TX_DURATION"],
    "response_duration": _PLAIN["RESPONSE_DURATION"],
    "response_duration_ms": _PLAIN["RESPONSE_DURATION"],
    "response_tx_duration": _PLAIN["RESPONSE_TX_DURATION"],
    "response_tx_duration_ms": _PLAIN["RESPONSE_TX_DURATION"],
    "upstream_connection_pool_ready_duration": _PLAIN["UPSTREAM_CONNECTION_POOL_READY_DURATION"],
    "upstream_connection_pool_ready_duration_ms": _PLAIN["UPSTREAM_CONNECTION_POOL_READY_DURATION"],
    "upstream_pool_ready_ms": _PLAIN["UPSTREAM_CONNECTION_POOL_READY_DURATION"],
    "upstream_service_time": _RESPONSE["x-envoy-upstream-service-time"],
    "upstream_service_time_ms": _RESPONSE["x-envoy-upstream-service-time"],
    "x-envoy-upstream-service-time": _RESPONSE["x-envoy-upstream-service-time"],
    "x_envoy_upstream_service_time": _RESPONSE["x-envoy-upstream-service-time"],
    "upstream_request_attempt_count": _PLAIN["UPSTREAM_REQUEST_ATTEMPT_COUNT"],
    "response_code": _PLAIN["RESPONSE_CODE"],
    "response_flags": _PLAIN["RESPONSE_FLAGS"],
    "response_code_details": _PLAIN["RESPONSE_CODE_DETAILS"],
    "method": Field("method"),
    "path": Field("uri"),
    "x-envoy-origin-path": Field("uri"),
    "x-envoy-original-path": Field("uri"),
    "x_envoy_original_path": Field("uri"),
    "protocol": Field("protocol"),
    "authority": Field("host"),
    ":authority": Field("host"),
    "request_id": Field("request_id"),
    "x-request-id": Field("request_id"),
    "x_request_id": Field("request_id"),
    "stream_id": Field("request_id"),
    "trace_id": Field("trace_id"),
    "bytes_sent": Field("bytes_sent"),
    "bytes_received": Field("request_length"),
    "upstream_host": Field("upstream_addr"),
    "upstream_cluster": Field("service"),
    "route_name": Field("route"),
    "connection_id": Field("connection"),
    "hostname": Field("proxy"),
}
# Keys of Envoy alone.
MARKS = frozenset(("response_flags", "upstream_service_time", "x-envoy-upstream-service-time", "upstream_cluster"))


def field_of(operator: str, argument: str | None) -> Field:
    """Return the field of an operator."""
    if operator in _TIMES:
        return _instant(operator, argument or "")
    if operator == "COMMON_DURATION":
        return _span(argument or "")
    name = (argument or "").lower()
    if operator in ("REQ", "REQUEST_HEADER"):
        return _REQUEST.get(name) or _own("request", name)
    if operator in ("RESP", "RESPONSE_HEADER"):
        return _RESPONSE.get(name) or _own("response", name)
    return _PLAIN.get(operator) or Field(_identifier(f"{operator} {name}" if name else operator.lower()))


def _own(kind: str, header: str) -> Field:
    """Return the column of a header; its name is no field of a request's own."""
    name = _identifier(header) or f"header_of_{kind}"
    return Field(f"{kind}_{name}" if name in FIELDS or name in TEXTS else name)


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text.lower()).strip("_")
    return f"_{name}" if name[:1].isdigit() else name


def _instant(operator: str, form: str) -> Field:
    """Return the field of an instant; a column of the user's own where its format cannot be read back."""
    clock = _clock(form, local=operator.endswith("LOCAL"))
    return Field(_TIMES[operator], *clock) if clock else Field(f"{operator.lower()}_text")


def _clock(form: str, *, local: bool) -> tuple[str, str] | None:
    """Return the unit of an instant and the pattern of its values."""
    if not form:
        return "iso_ms", ""
    if match := _EPOCH.fullmatch(form):
        unit = _epoch_unit(match[1], match[2])
        return (unit, "") if unit else None
    if _CLF_FORM.fullmatch(form):
        return "clf", CLF
    match = _ISO.fullmatch(form)
    if match is None or (local and match[3] in (None, "Z")):
        return None
    pattern = r"\d{4}[-/]\d\d[-/]\d\d[T ][0-9:]{8}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    digits = _FRACTION.search(match[2] or "")
    return ("iso" if digits is None else "iso_ms" if digits[1] in ("1", "2", "3") else "iso_us"), pattern


def _epoch_unit(point: str, digits: str | None) -> str:
    """Return the unit of ``%s``, a point or nothing, and a fraction; empty if it cannot be read back."""
    if digits is None:
        return "" if point else "whole_s"
    return "s" if point else _WHOLE_UNITS.get(digits, "")


def _span(argument: str) -> Field:
    """Return the field of ``COMMON_DURATION(start:end:precision)``."""
    begin, _, rest = argument.partition(":")
    end, _, precision = rest.partition(":")
    if begin.isupper() and end.isupper() and {begin.lower(), end.lower()} <= POINTS.keys():
        return Field(span(begin.lower(), end.lower()), precision or "ms")
    return Field(_identifier(f"common_duration_{argument}"))


def envoy_parts(text: str) -> list[Part]:
    """Split the text of Envoy's ``text_format``; %% is a percent sign."""
    return parts_of(text, VARIABLE, lambda match: field_of(match[1], match[2]))
