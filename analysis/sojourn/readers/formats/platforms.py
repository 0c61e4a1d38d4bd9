"""Formats of platforms, caches, gateways and frameworks: texts with <name> for each variable, and keys of JSON."""

from __future__ import annotations

from sojourn.readers.formats.fields import Field

_MS = r"(?:\d+ms|)"
_HEROKU_VARIABLES = {
    "drain": Field("drain", pattern=r"(?:\d+ )?(?:<\d+>1 )?"),
    "time": Field("end", "iso_us", r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)"),
    "router": Field("router", pattern=r"(?:heroku\[router\]:|\S+ heroku router -(?: -)?)"),
    "error": Field("error", pattern=r"(?:code=\S+ desc=\"[^\"]*\" )?"),
    "method": Field("method", pattern=r"\w+"), "path": Field("uri", pattern=r'[^"]*'), "host": Field("host"),
    "request_id": Field("request_id"), "fwd": Field("remote_addr"), "dyno": Field("upstream_addr", pattern=r"\S*"),
    "connect": Field("connect", "ms", _MS), "service": Field("exchange", "ms", _MS),
    "status": Field("status", pattern=r"\d*"), "bytes": Field("bytes_sent", pattern=r"\d*"),
    "more": Field("more", pattern=r"(?: .*)?"),
}  # fmt: skip
HEROKU = (
    '<drain><time> <router> at=<level> <error>method=<method> path="<path>" host=<host> request_id=<request_id> '
    'fwd="<fwd>" dyno=<dyno> connect=<connect> service=<service> status=<status> bytes=<bytes><more>',
    _HEROKU_VARIABLES,
)
_SQUID_VARIABLES = {
    "time": Field("end", "s", r"\d{9,11}\.\d{3}"), "pad": Field("pad", pattern=" +"),
    "elapsed": Field("request_time", "ms", r"-?\d+"),
    "client": Field("remote_addr"), "result": Field("result", pattern=r"[A-Z_]+"),
    "status": Field("status", pattern=r"\d{3}"), "bytes": Field("bytes_sent", pattern=r"\d+"),
    "method": Field("method", pattern=r"[A-Z_-]+"), "url": Field("uri", pattern=r"\S+"),
    "hierarchy": Field("hierarchy", pattern=r"[A-Z_]+"), "peer": Field("upstream_addr", pattern=r"\S+"),
}  # fmt: skip
SQUID = (
    "<time><pad><elapsed> <client> <result>/<status> <bytes> <method> <url> <user> <hierarchy>/<peer> <type>",
    _SQUID_VARIABLES,
)
_GOROUTER_VARIABLES = {
    "host": Field("host"), "time": Field("start", "iso_us"), "bytes_sent": Field("bytes_sent"),
    "received": Field("request_length"), "client": Field("remote_addr"), "backend": Field("upstream_addr"),
    "request_id": Field("request_id"), "response_time": Field("request_time", "s", r"[\d.]+"),
    "more": Field("more", pattern=r"(?: .*)?"),
}  # fmt: skip
GOROUTER = (
    '<host> - [<time>] "<request>" <status> <received> <bytes_sent> "<referer>" "<user_agent>" "<client>" "<backend>" '
    'x_forwarded_for:"<xff>" x_forwarded_proto:"<proto>" vcap_request_id:"<request_id>" response_time:<response_time>'
    "<more>",
    _GOROUTER_VARIABLES,
)
_GIN_VARIABLES = {
    "time": Field("end", "gin", r"\d{4}/\d\d/\d\d - [\d:]{8}"), "status": Field("status", pattern=r"\d{3}"),
    "latency": Field("service_time", "ms", r"[\d.]+(?:ms|µs|us|ns|s)"), "client": Field("remote_addr", pattern=r"\S+"),
    "pad": Field("pad", pattern=" *"), "method": Field("method", pattern=r"[A-Z]+"),
    "path": Field("uri", pattern='[^"]*'),
    "more": Field("more", pattern=".*"),
}  # fmt: skip
GIN = (
    '[GIN] <time> |<pad><status> |<pad><latency> |<pad><client> | <method><pad>"<path>"<more>',
    _GIN_VARIABLES,
)
_LOGRAGE_VARIABLES = {
    "before": Field("before", pattern="[A-Z], \\["), "time": Field("end", "iso_us", r"\d{4}-\d\d-\d\dT[\d:.]+"),
    "level": Field("level", pattern=" *[A-Z]+ -- [^:]*: .*?"), "method": Field("method", pattern=r"[A-Z]+"),
    "path": Field("uri", pattern=r"\S*"), "middle": Field("middle", pattern=".*?"), "status": Field("status"),
    "error": Field("error", pattern=".*?"), "duration": Field("service_time", "ms", r"[\d.]+"),
    "more": Field("more", pattern=r"(?: .*)?"),
}  # fmt: skip
LOGRAGE = (
    "<before><time> #<pid>]<level>method=<method> path=<path> <middle> status=<status> "
    "<error>duration=<duration><more>",
    _LOGRAGE_VARIABLES,
)
_RACK_OLD_VARIABLES = {
    "client": Field("remote_addr"), "user": Field("remote_user", pattern=".*?"),
    "time": Field("end", "ruby", r"\d\d/\w{3}/\d{4} [\d:]{8}"), "size": Field("bytes_sent"),
    "seconds": Field("service_time", "s", r"\d+\.\d+"),
}  # fmt: skip
RACK_OLD = (
    '<client> - <user> [<time>] "<request>" <status> <size> <seconds>',
    _RACK_OLD_VARIABLES,
)
KONG = {
    "started_at": Field("start", "ms"), "latencies.request": Field("request_time", "ms"),
    "latencies.proxy": Field("header", "ms"), "response.status": Field("status"), "request.method": Field("method"),
    "request.uri": Field("uri"), "client_ip": Field("remote_addr"), "service.name": Field("service"),
    "route.name": Field("route"), "response.size": Field("bytes_sent"), "upstream_status": Field("upstream_status"),
}  # fmt: skip
GCP = {
    "timestamp": Field("start", "iso_us"), "httpRequest.latency": Field("request_time", "s"),
    "httpRequest.status": Field("status"), "httpRequest.requestMethod": Field("method"),
    "httpRequest.requestUrl": Field("uri"), "httpRequest.remoteIp": Field("remote_addr"),
    "httpRequest.serverIp": Field("upstream_addr"), "httpRequest.responseSize": Field("bytes_sent"),
    "resource.labels.backend_service_name": Field("service"), "insertId": Field("request_id"),
}  # fmt: skip
CLOUDFLARE = {
    "EdgeStartTimestamp": Field("start", "iso_ms"), "EdgeEndTimestamp": Field("end", "iso_ms"),
    "EdgeTimeToFirstByteMs": Field("request_time", "ms"), "EdgeResponseStatus": Field("status"),
    "OriginResponseDurationMs": Field("header", "ms"), "OriginIP": Field("upstream_addr"),
    "OriginResponseStatus": Field("upstream_status"), "ClientRequestMethod": Field("method"),
    "ClientRequestURI": Field("uri"), "ClientRequestHost": Field("host"), "ClientIP": Field("remote_addr"),
    "EdgeResponseBytes": Field("bytes_sent"), "RayID": Field("request_id"),
}  # fmt: skip
