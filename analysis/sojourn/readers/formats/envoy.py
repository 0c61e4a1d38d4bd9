"""Command operators of Envoy's access log (configuration reference, access logging)."""

from __future__ import annotations

import re

from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.template import Part, parts_of

# %OPERATOR%, %OPERATOR(argument)%, %OPERATOR(argument):length%
VARIABLE = re.compile(r"%([A-Z_]+)(?:\(([^)]*)\))?(?::\d+)?%")
_PLAIN = {
    "START_TIME": Field("start", "iso_ms"),
    "DURATION": Field("request_time", "ms"),
    "REQUEST_DURATION": Field("upload", "ms"),
    "PROTOCOL": Field("protocol"),
    "RESPONSE_CODE": Field("status"),
    "BYTES_SENT": Field("bytes_sent"),
    "BYTES_RECEIVED": Field("request_length"),
    "UPSTREAM_HOST": Field("upstream_addr"),
    "UPSTREAM_CLUSTER": Field("service"),
    "ROUTE_NAME": Field("route"),
    "STREAM_ID": Field("request_id"),
    "CONNECTION_ID": Field("connection"),
    "HOSTNAME": Field("proxy"),
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": Field("remote_addr"),
}
_REQUEST = {
    ":method": Field("method"),
    ":path": Field("uri"),
    "x-envoy-original-path?:path": Field("uri"),
    "x-envoy-original-path": Field("original_path"),
    ":authority": Field("host"),
    "x-request-id": Field("request_id"),
}
_RESPONSE = {
    # From the end of the request to the upstream's headers; the connection is in it.
    "x-envoy-upstream-service-time": Field("header", "ms"),
    "x-queueing-delay": Field("queueing_delay", "s"),
    "x-service-time": Field("service_time", "s"),
    "x-worker": Field("worker"),
    "x-route": Field("route"),
}
# Names that JSON formats commonly give the operators (Istio's are among them).
JSON_KEYS = {
    "start_time": _PLAIN["START_TIME"],
    "duration": _PLAIN["DURATION"],
    "request_duration": _PLAIN["REQUEST_DURATION"],
    "upstream_service_time": _RESPONSE["x-envoy-upstream-service-time"],
    "response_code": _PLAIN["RESPONSE_CODE"],
    "method": Field("method"),
    "path": Field("uri"),
    "protocol": Field("protocol"),
    "authority": Field("host"),
    "request_id": Field("request_id"),
    "bytes_sent": Field("bytes_sent"),
    "bytes_received": Field("request_length"),
    "upstream_host": Field("upstream_addr"),
    "upstream_cluster": Field("service"),
    "route_name": Field("route"),
}


def field_of(operator: str, argument: str | None) -> Field:
    """Return the field of an operator."""
    if operator == "START_TIME" and argument:
        form = {"%s.%3f": "s", "%s": "whole_s", "%s%3f": "ms", "%s%6f": "us"}.get(argument, "iso_ms")
        return Field("start", form)
    name = (argument or "").lower()
    if operator in ("REQ", "REQUEST_HEADER"):
        return _REQUEST.get(name, Field(re.sub(r"\W+", "_", name).strip("_") or "header_of_request"))
    if operator in ("RESP", "RESPONSE_HEADER"):
        return _RESPONSE.get(name, Field(re.sub(r"\W+", "_", name).strip("_") or "header_of_response"))
    return _PLAIN.get(operator, Field(operator.lower()))


def envoy_parts(text: str) -> list[Part]:
    """Split the text of Envoy's ``text_format``."""
    return parts_of(text, VARIABLE, lambda match: field_of(match[1], match[2]))
