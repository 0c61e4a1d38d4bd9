"""What the name of a key or a label says of its value, in any spelling: ``responseTime``, ``response_time_ms``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sojourn.readers.formats.fields import FIELDS, TEXTS, UNIT_WORDS

# Role -> names, without case and signs. A duration's name may be followed by its unit.
_STAMPS = {
    "end": (
        "msec", "timemsec", "ts", "timestamp", "timeiso8601", "timelocal", "time", "datetime", "date", "endtime",
        "edgeendtimestamp", "accesstime", "logtime", "eventtime", "asctime", "endtimestamp", "finishedat",
        "eventtimestamp", "epoch", "unixtime",
    ),
    "start": (
        "starttime", "startedat", "edgestarttimestamp", "startutc", "requeststarttime", "timestart", "starttimestamp",
        "requesttimestamp", "begintime", "requesttimeepoch",
    ),
}  # fmt: skip
_DURATIONS = {
    "request_time": (
        "requesttime", "reqtime", "rt", "responsetime", "resptime", "duration", "elapsed", "elapsedtime", "took",
        "taken", "timetaken", "latency", "totaltime", "processingtime", "requestduration", "responseduration",
        "requestlatency", "responselatency", "timeelapsed", "httpduration", "cost", "costtime", "usedtime",
        "edgetimetofirstbyte", "ttfb", "timetofirstbyte", "reqduration", "dur",
        "processtime",
    ),
    "response": (
        "upstreamresponsetime", "upstreamtime", "upstreamduration", "upstreamlatency", "upsresptime", "urt", "uresp",
        "apptime", "backendtime", "backendlatency", "backendresponsetime", "backendduration", "originresponseduration",
        "serverresponselatency", "integrationlatency", "proxytime", "upstreamresptime", "uprestime",
        "upstreamresptimes",
    ),
    "header": ("upstreamheadertime", "uht", "headertime", "upstreamservicetime"),
    "connect": ("upstreamconnecttime", "uct", "connecttime"),
    "proxy_queue": ("upstreamqueuetime",),
    "service_time": ("runtime", "xruntime", "upstreamhttpxruntime"),
}  # fmt: skip
_TEXTS = {
    "status": (
        "status", "statuscode", "code", "httpstatus", "httpstatuscode", "responsecode", "responsestatus",
        "respstatus", "resstatus", "responsestatuscode", "resstatuscode", "httpresponsestatuscode",
        "edgeresponsestatus", "scstatus", "respcode", "httpcode",
    ),
    "upstream_status": ("upstreamstatus", "us", "originresponsestatus", "backendstatus", "upstreamstatuscode"),
    "upstream_addr": (
        "upstreamaddr", "ua", "upstream", "backend", "upstreamhost", "upstreamaddress", "backendaddr", "originip",
        "serverrouted", "upaddr",
    ),
    "request": ("request", "req", "requestline"),
    "method": ("method", "requestmethod", "httpmethod", "reqmethod", "clientrequestmethod", "verb"),
    "uri": (
        "uri", "requesturi", "path", "url", "requesturl", "requestpath", "requri", "requrl", "reqpath",
        "clientrequesturi", "httpurl", "urlpath",
    ),
    "protocol": ("protocol", "serverprotocol", "proto", "httpversion"),
    "host": ("host", "httphost", "vhost", "servername", "domain", "authority", "requesthost"),
    "remote_addr": ("remoteaddr", "remoteip", "clientip", "clientaddr", "client"),
    "request_id": ("requestid", "reqid", "xrequestid", "httpxrequestid", "rid", "id", "rayid", "requestuuid"),
    "trace_id": ("traceid",),
    "bytes_sent": ("bytessent", "bytes", "size", "responsesize", "bodybytessent", "bodybytes"),
    "request_length": ("requestlength", "rl"),
}  # fmt: skip
_FIELD_OF = {name: field for table in (_STAMPS, _DURATIONS, _TEXTS) for field, names in table.items() for name in names}
_TIMED = {name for names in _DURATIONS.values() for name in names}
# With a unit behind them, names of stamps are stamps, and these are durations of the whole request.
_STAMPED = {name for names in _STAMPS.values() for name in names} - {"time"}
_TIMED_BY_UNIT = ("time", "total", "request", "response", "walltime")
# nginx's own names count more than others for the same thing.
EXACT = frozenset((
    "msec", "request_time", "status", "upstream_response_time", "upstream_header_time", "upstream_connect_time",
    "upstream_addr", "upstream_status", "request_id", "request_method", "request_uri", "bytes_sent", "host", "uri",
    "remote_addr", "server_protocol",
))  # fmt: skip


@dataclass(frozen=True)
class Role:
    """What a name says of its value.

    Attributes:
        field: name of the field (``sojourn.readers.formats.fields``).
        unit: of a duration; empty: the name does not say it.
        exact: it is the name of a variable of nginx.
    """

    field: str
    unit: str = ""
    exact: bool = False


# Names that mean something in one spelling alone: of Sojourn's record and of nginx, Serilog's stamp, uWSGI's durations.
_ALONE = {
    **{name: Role(name, "s", exact=True) for name in (
        "request_start", "proxy_start", "queueing_delay", "service_time",
    )},
    **{name: Role(name, exact=True) for name in (
        "worker", "route", "service", "proxy", "connection", "connection_requests", "upstream_cache_status",
        "limit_req_status", "span_id",
    )},
    "hostname": Role("proxy", exact=True),
    "upstream_http_x_queueing_delay": Role("queueing_delay", "s", exact=True),
    "upstream_http_x_service_time": Role("service_time", "s", exact=True),
    "upstream_http_x_worker": Role("worker", exact=True), "upstream_http_x_route": Role("route", exact=True),
    "@t": Role("end"), "msecs": Role("request_time", "ms"), "micros": Role("request_time", "us"),
    "secs": Role("request_time", "s"),
}  # fmt: skip


def role_of(name: str) -> Role | None:
    """Return what the name of a key or a label says of its value; None: nothing."""
    if name in _ALONE:
        return _ALONE[name]
    plain = re.sub(r"[^a-z0-9µ]", "", name.lower())
    field = _FIELD_OF.get(plain)
    if field is not None:
        return Role(field, exact=name in EXACT)
    for suffix, unit in UNIT_WORDS.items():
        base = plain.removesuffix(suffix)
        if base == plain:
            continue
        if base in _TIMED:
            return Role(_FIELD_OF[base], unit)
        if len(suffix) > 1 and base in _STAMPED:
            return Role(_FIELD_OF[base])
        if len(suffix) > 1 and base in _TIMED_BY_UNIT:
            return Role("request_time", unit)
    return None


def is_reserved(name: str) -> bool:
    """Return whether a field of this name has a meaning, so that no column of a user's own may have it."""
    return name.lower() in FIELDS or name.lower() in TEXTS
