"""The formats that are known by name, each as its product documents it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from sojourn.readers.formats import platforms
from sojourn.readers.formats.app_servers import gunicorn_parts, uwsgi_parts
from sojourn.readers.formats.envoy import JSON_KEYS as ENVOY_KEYS
from sojourn.readers.formats.envoy import envoy_parts
from sojourn.readers.formats.fields import Field
from sojourn.readers.formats.haproxy import haproxy_parts
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.nginx import nginx_parts
from sojourn.readers.formats.template import Part, parts_of

COMMON = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
COMBINED = f'{COMMON} "$http_referer" "$http_user_agent"'
INGRESS = (
    f"{COMBINED} $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] "
    "$upstream_addr $upstream_response_length $upstream_response_time $upstream_status $req_id"
)
HTTPLOG = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"
HTTPCLF = (
    '%ci - - [%trg] "%r" %ST %B "" "" %cp %ms "%ft" "%b" "%s" %TR %Tw %Tc %Tr %Ta %tsc %ac %fc %bc %sc %rc %sq %bq '
    "%CC"  # and more
)
HTTPSLOG = (
    f"{HTTPLOG} %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] %[ssl_fc_sni]/%sslv/%sslc"
)
ENVOY = (
    '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% '
    "%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    '"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"'
)
ISTIO = (
    '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% '
    '%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" '
    '%BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" '
    '"%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER% '
    "%UPSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% "
    "%REQUESTED_SERVER_NAME% %ROUTE_NAME%"
)
GUNICORN = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"'
UWSGI = (
    "[pid: %(pid)|app: %(app)|req: %(req)/%(reqs)] %(addr) (%(user)) {%(vars) vars in %(pktsize) bytes} [%(ctime)] "
    "%(method) %(uri) => generated %(rsize) bytes in %(msecs) msecs%(how) (%(proto) %(status)) "
    "%(headers) headers in %(hsize) bytes (%(switches) switches on core %(core))"
)
_NO_ZONE = "Its stamps have no time zone: they are read as UTC."
OF_THE_START = "Its stamps are of the beginning of a request; the end is computed from the response time."
OF_APP_ALONE = "It is written by the app: the wait before the app, and the proxy's part, are not in it."


def _nginx(name: str, title: str, text: str, *notes: str) -> LineFormat:
    return LineFormat(name, title, tuple(nginx_parts(text)), lists=True, notes=notes)


def _text(name: str, title: str, parts: list[Part], *notes: str, prefix: bool = False) -> LineFormat:
    return LineFormat(name, title, tuple(parts), notes=notes, prefix=prefix)


def _json(name: str, title: str, paths: Mapping[str, Field], *notes: str) -> LineFormat:
    return LineFormat(name, title, paths=tuple(paths), fields=tuple(paths.values()), notes=notes)


_AWS_SECONDS = r"-1|[\d.]+"
_ALB_VARIABLES = {
    "time": Field("end", "iso_us", r"\d{4}-\d\d-\d\dT[\d:.]+Z"),
    "client": Field("remote_addr", pattern=r"\S+"), "target": Field("upstream_addr"),
    "elb": Field("proxy"), "request_processing_time": Field("upload", "s", _AWS_SECONDS),
    "target_processing_time": Field("header", "s", _AWS_SECONDS),
    "response_processing_time": Field("send", "s", _AWS_SECONDS),
    "elb_status_code": Field("status"), "target_status_code": Field("upstream_status"),
    "received_bytes": Field("request_length"), "sent_bytes": Field("bytes_sent"),
    "target_group_arn": Field("service"), "trace_id": Field("request_id"), "domain_name": Field("host"),
    "request_creation_time": Field("start", "iso_us"), "more": Field("more", pattern=r"(?: .*)?"),
}  # fmt: skip
_ELB_VARIABLES = _ALB_VARIABLES | {"type": Field("type", pattern=r"(?:[a-z0-9]+ )?")}
_ALB = (
    "<type> <time> <elb> <client> <target> <request_processing_time> <target_processing_time> "
    "<response_processing_time> <elb_status_code> <target_status_code> <received_bytes> <sent_bytes> "
    '"<request>" "<user_agent>" <ssl_cipher> <ssl_protocol> <target_group_arn> "<trace_id>" "<domain_name>" '
    '"<chosen_cert_arn>" <matched_rule_priority> <request_creation_time><more>'
)
_ELB = (
    "<type><time> <elb> <client> <target> <request_processing_time> <target_processing_time> "
    "<response_processing_time> <elb_status_code> <target_status_code> <received_bytes> <sent_bytes> "
    '"<request>"<more>'
)
_TRAEFIK_VARIABLES = {
    "remote_addr": Field("remote_addr"), "remote_user": Field("remote_user", pattern=".*?"),
    "timestamp": Field("start", "clf"), "content_length": Field("bytes_sent"),
    "router": Field("route", quoted=True), "server_url": Field("upstream_addr", quoted=True),
    "duration": Field("request_time", "ms", r"\d+"),
}  # fmt: skip
_TRAEFIK = (
    '<remote_addr> - <remote_user> [<timestamp>] "<request>" <status> <content_length> "<referer>" "<user_agent>" '
    "<requests> <router> <server_url> <duration>ms"
)
_STAMP = Field("request_start", "stamp")
_OF_APP = {
    "x-queueing-delay": Field("queueing_delay", "s"), "x-service-time": Field("service_time", "s"),
    "x-worker": Field("worker"), "x-route": Field("route"),
}  # fmt: skip
# Keys that a user's configuration adds (docs/how-to/other-proxies.md, gateways.md).
_APPENDED = {"x_request_start": _STAMP} | {name.replace("-", "_"): field for name, field in _OF_APP.items()}
_TRAEFIK_JSON = {
    # Headers that its configuration keeps.
    "request_X-Request-Start": _STAMP, **{f"origin_{name.title()}": field for name, field in _OF_APP.items()},
    "StartUTC": Field("start", "iso_us"), "Duration": Field("request_time", "ns"),
    "OriginDuration": Field("response", "ns"), "DownstreamStatus": Field("status"),
    "OriginStatus": Field("status"), "ServiceURL": Field("upstream_addr"), "ServiceName": Field("service"),
    "RouterName": Field("route"), "RequestMethod": Field("method"), "RequestPath": Field("uri"),
    "RequestProtocol": Field("protocol"), "RequestHost": Field("host"), "ClientHost": Field("remote_addr"),
    "DownstreamContentSize": Field("bytes_sent"), "RequestContentSize": Field("request_length"),
}  # fmt: skip
_CADDY = {
    "ts": Field("end", "s"), "duration": Field("request_time", "s"), "status": Field("status"),
    # By log_append in the Caddyfile.
    **_APPENDED,
    "upstream_latency": Field("header", "s"), "upstream_duration": Field("response", "s"),
    "upstream_latency_ms": Field("header", "ms"), "upstream_duration_ms": Field("response", "ms"),
    "upstream": Field("upstream_addr"), "request.method": Field("method"), "request.uri": Field("uri"),
    "request.proto": Field("protocol"), "request.host": Field("host"), "request.remote_ip": Field("remote_addr"),
    "size": Field("bytes_sent"), "bytes_read": Field("request_length"), "uuid": Field("request_id"),
}  # fmt: skip
_KAMAL_PROXY = {
    "time": Field("end", "iso_us"), "duration": Field("request_time", "ns"), "status": Field("status"),
    "target": Field("upstream_addr"), "service": Field("service"), "method": Field("method"), "path": Field("uri"),
    "proto": Field("protocol"), "host": Field("host"), "client_addr": Field("remote_addr"),
    "request_id": Field("request_id"), "resp_content_length": Field("bytes_sent"),
    "req_content_length": Field("request_length"),
    # By --log-request-header and --log-response-header.
    "req_x_request_start": _STAMP, **{f"resp_{name.replace('-', '_')}": field for name, field in _OF_APP.items()},
}  # fmt: skip
_THRUSTER = {
    "time": Field("end", "iso_us"), "dur": Field("request_time", "ms"), "status": Field("status"),
    "method": Field("method"), "path": Field("uri"), "proto": Field("protocol"), "remote_addr": Field("remote_addr"),
    "resp_content_length": Field("bytes_sent"), "req_content_length": Field("request_length"),
}  # fmt: skip


def _parts(text: str, fields: Mapping[str, Field]) -> list[Part]:
    """Return the parts of a text with <name> for each variable."""
    return parts_of(text, re.compile(r"<(\w+)>"), lambda match: fields.get(match[1], Field(match[1])))


# Name -> its format; built on first use.
FORMATS: dict[str, Callable[[], LineFormat]] = {
    "combined": lambda: _nginx("combined", "the combined format of nginx and Apache", COMBINED),
    "common": lambda: _nginx("common", "the common log format", COMMON),
    "ingress-nginx": lambda: _nginx("ingress-nginx", "the default log of ingress-nginx", INGRESS),
    "haproxy": lambda: _text(
        "haproxy", "HAProxy's HTTP log (option httplog)", haproxy_parts(HTTPLOG), OF_THE_START, _NO_ZONE, prefix=True
    ),
    "haproxy-https": lambda: _text(
        "haproxy-https", "HAProxy's HTTPS log (option httpslog)", haproxy_parts(HTTPSLOG), OF_THE_START, _NO_ZONE,
        prefix=True,
    ),
    "haproxy-clf": lambda: _text(
        "haproxy-clf", "HAProxy's HTTP log in the common format (option httplog clf)", haproxy_parts(HTTPCLF),
        OF_THE_START, prefix=True,
    ),
    "envoy": lambda: _text("envoy", "Envoy's default access log", envoy_parts(ENVOY), OF_THE_START),
    "istio": lambda: _text("istio", "Istio's default access log", envoy_parts(ISTIO), OF_THE_START),
    "envoy-json": lambda: _json("envoy-json", "Envoy's JSON access log", _APPENDED | ENVOY_KEYS, OF_THE_START),
    "alb": lambda: replace(
        _text("alb", "the access log of an AWS application load balancer", _parts(_ALB, _ALB_VARIABLES)), url=True
    ),
    "elb": lambda: replace(
        _text("elb", "the access log of an AWS classic load balancer", _parts(_ELB, _ELB_VARIABLES)), url=True
    ),
    "traefik": lambda: _text(
        "traefik", "Traefik's access log (CLF)", _parts(_TRAEFIK, _TRAEFIK_VARIABLES), OF_THE_START,
        "The time of the backend is in Traefik's JSON format only.",
    ),
    "traefik-json": lambda: _json("traefik-json", "Traefik's JSON access log", _TRAEFIK_JSON, OF_THE_START),
    "caddy": lambda: _json("caddy", "Caddy's JSON access log", _CADDY),
    "kamal-proxy": lambda: _json("kamal-proxy", "kamal-proxy's log", _KAMAL_PROXY),
    "thruster": lambda: _json("thruster", "Thruster's log", _THRUSTER),
    "gunicorn": lambda: _text(
        "gunicorn", "gunicorn's access log with %(D)s", gunicorn_parts(f"{GUNICORN} %(D)s"), OF_APP_ALONE
    ),
    "heroku": lambda: _text(
        "heroku", "the log of Heroku's router", _parts(*platforms.HEROKU),
        "Its service is from the connection to the end of the response: the wait in the dyno is in it.",
    ),
    "squid": lambda: replace(_text("squid", "Squid's access log", _parts(*platforms.SQUID)), url=True),
    "gorouter": lambda: _text(
        "gorouter", "the access log of Cloud Foundry's gorouter", _parts(*platforms.GOROUTER), OF_THE_START
    ),
    "gin": lambda: _text("gin", "the log of Gin (Go)", _parts(*platforms.GIN), _NO_ZONE, OF_APP_ALONE),
    "lograge": lambda: _text(
        "lograge", "the log of Rails with lograge", _parts(*platforms.LOGRAGE), _NO_ZONE, OF_APP_ALONE
    ),
    "rack": lambda: _text(
        "rack", "the log of Rack's CommonLogger without a zone", _parts(*platforms.RACK_OLD), _NO_ZONE, OF_APP_ALONE
    ),
    "kong": lambda: _json("kong", "Kong's JSON log", platforms.KONG, OF_THE_START),
    "gcp": lambda: replace(
        _json("gcp", "the log of a Google Cloud load balancer", platforms.GCP, OF_THE_START), url=True
    ),
    "cloudflare": lambda: _json("cloudflare", "Cloudflare's Logpush", platforms.CLOUDFLARE),
    "uwsgi": lambda: _text("uwsgi", "uWSGI's request log", uwsgi_parts(UWSGI), OF_THE_START, _NO_ZONE, OF_APP_ALONE),
}  # fmt: skip


@functools.cache
def format_by_name(name: str) -> LineFormat:
    """Return the format of that name.

    Raises:
        KeyError: there is none.
    """
    return FORMATS[name]()
