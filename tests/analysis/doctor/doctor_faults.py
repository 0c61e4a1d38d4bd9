"""One good nginx.conf, and the edits that break it: the difference is the fault."""

from __future__ import annotations

from dataclasses import dataclass

SOMAXCONN = 4096

PASS = "proxy_pass http://app;"
VERSION = "proxy_http_version 1.1;"
HOST = "proxy_set_header Host $host;"
CONNECTION = 'proxy_set_header Connection "";'
INCLUDE = "include sojourn/sojourn_proxy.conf;"
PROXY = (PASS, VERSION, HOST, CONNECTION, INCLUDE)
STAMP = "proxy_set_header X-Request-Start $sojourn_stamp_sent;"
REST = (
    'proxy_set_header X-Queue-Start "";',
    "proxy_set_header X-Request-ID $sojourn_request_id;",
    "proxy_set_header traceparent $sojourn_traceparent;",
    "proxy_set_header tracestate $sojourn_tracestate;",
)
HIDES = tuple(f"proxy_hide_header {name};" for name in ("X-Queueing-Delay", "X-Service-Time", "X-Worker", "X-Route"))


def location(name: str, *lines: str) -> str:
    """A location with these lines."""
    return "\n            ".join([f"location {name} {{", *lines]) + "\n        }"


ROOT = location("/", *PROXY)
LISTEN = "listen 127.0.0.1:@PORT@;"
SERVER = "server_name shop.example;"
LOG = "access_log @FOLDER@/access.jsonl sojourn;"
ROUTES = """map $uri $sojourn_route {
        default other;
        ~^/api/ /api/...;
    }"""
UPSTREAM = "    upstream app"
GOOD = f"""\
@MODULE@
pid @FOLDER@/nginx.pid;
error_log @FOLDER@/error.log notice;

events {{
    worker_connections 4096;
}}

http {{
    @TEMP@
    include sojourn/sojourn.conf;
    {LOG}

    {ROUTES}

{UPSTREAM} {{
        server 127.0.0.1:@APP@;
        keepalive 32;
    }}

    server {{
        {LISTEN}
        {SERVER}

        {ROOT}

        {location("/api/", "proxy_read_timeout 5s;", *PROXY)}
    }}
}}
"""
OWN_LOG = """log_format own escape=json
        '{"time":"$msec","status":"$status","request_time":"$request_time","request_start":"$sojourn_logged_start",'
        '"upstream_addr":"$upstream_addr","upstream_connect_time":"$upstream_connect_time","uri":"$sojourn_uri",'
        '"upstream_header_time":"$upstream_header_time","upstream_response_time":"$upstream_response_time",'
        '"queueing_delay":"$upstream_http_x_queueing_delay","service_time":"$upstream_http_x_service_time",'
        '"worker":"$upstream_http_x_worker","proxy":"$hostname","request_id":"$request_id"}';
    access_log @FOLDER@/access.jsonl own;"""
OTHER_LOG = "access_log @FOLDER@/other.log combined;"
IN_FRONT = f"""{SERVER}
    }}

    upstream inner {{
        server 127.0.0.1:@INNER@;
        keepalive 32;
    }}

    server {{
        listen 127.0.0.1:@INNER@;
        access_log @FOLDER@/inner.jsonl sojourn;

        {ROOT}
    }}

    server {{
        listen 127.0.0.1:@OUTER@;

        {ROOT.replace("http://app", "http://inner")}
    }}

    server {{
        listen 127.0.0.1:@SPARE@;"""


@dataclass(frozen=True)
class Fault:
    """A fault and its expected finding.

    ``edits``: (old, new) text of the good configuration; ``files``: (name in sojourn/, text added at its end);
    ``line``: how one line of the fix ends; ``server``: the Server header of the app, which gets a request.
    """

    name: str
    code: str
    edits: tuple[tuple[str, str], ...]
    line: str
    severity: str = "error"
    somaxconn: int = SOMAXCONN
    files: tuple[tuple[str, str], ...] = ()
    server: str = ""


def root(*lines: str) -> tuple[str, str]:
    """Other lines in ``location /``."""
    return ROOT, location("/", *lines)


def server(*lines: str) -> tuple[str, str]:
    """More lines in the server."""
    return SERVER, "\n        ".join([SERVER, *lines])


def setting_line(family: str, header: str, value: str) -> str:
    """The line that sends an app a header, in the words of a family of directives."""
    if family in ("proxy", "grpc"):
        return f"{family}_set_header {header} {value};"
    return f"{family}_param HTTP_{header.upper().replace('-', '_')} {value};"


# What an earlier doctor set beside Sojourn's files: X-Queue-Start and tracestate of a client pass.
EARLIER_HEADERS = (
    ("X-Request-Start", "$sojourn_stamp_sent"),
    ("X-Request-ID", "$sojourn_request_id"),
    ("traceparent", "$sojourn_traceparent"),
)


def earlier_location(family: str, scheme: str = "") -> tuple[str, str]:
    """``location /`` with the lines of an earlier doctor for a family."""
    return root(
        f"{family}_pass {scheme}app;",
        *(setting_line(family, header, value) for header, value in EARLIER_HEADERS),
        *(line.replace("proxy_", f"{family}_") for line in HIDES),
    )


def own_log(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """A log format of one's own, with another text in it."""
    assert old in OWN_LOG
    return ((LOG, OWN_LOG.replace(old, new)),)


STAMPING = [
    Fault("no include in a location", "stamp-missing", (root(PASS, VERSION, HOST, CONNECTION),), INCLUDE),
    Fault("no include, inherited headers", "stamp-missing", (root(PASS, VERSION), server(CONNECTION, HOST)), HOST),
    Fault(
        "included in the server, lost in a location",
        "stamp-not-inherited",
        (root(PASS, VERSION, HOST, CONNECTION), server(INCLUDE)),
        INCLUDE,
    ),
    Fault(
        "a stamp of one's own beside the include",
        "stamp-twice",
        (root(*PROXY, 'proxy_set_header X-Request-Start "t=${msec}";'),),
        'proxy_set_header X-Request-Start "t=${msec}";',
    ),
    Fault(
        "the client's stamp sent on",
        "stamp-from-client",
        (root(*PROXY[:-1], "proxy_set_header X-Request-Start $http_x_request_start;", *REST, *HIDES),),
        "proxy_set_header X-Request-Start $sojourn_stamp_sent;",
    ),
    Fault(
        "a date for a stamp",
        "stamp-unit",
        (root(*PROXY[:-1], "proxy_set_header X-Request-Start $time_iso8601;", *REST, *HIDES),),
        "proxy_set_header X-Request-Start $sojourn_stamp_sent;",
    ),
    Fault(
        "a stamp where auth_request asks",
        "stamp-in-subrequest",
        (server(location("= /auth", "internal;", *PROXY)), root("auth_request /auth;", *PROXY)),
        'proxy_set_header X-Request-Start "";',
        "warning",
    ),
    Fault(
        "headers of clients where auth_request asks",
        "headers-pass",
        (server(location("= /auth", "internal;", PASS)), root("auth_request /auth;", *PROXY)),
        'proxy_set_header X-Request-Start "";',
        "warning",
    ),
    Fault(
        "headers of clients where auth_request asks, beside inherited ones",
        "headers-pass",
        (
            server(HOST, VERSION, CONNECTION, location("= /auth", "internal;", PASS)),
            root("auth_request /auth;", *PROXY),
        ),
        HOST,
        "warning",
    ),
    Fault(
        "a stamp of uwsgi lost in a location",
        "stamp-not-inherited",
        (
            root(
                "uwsgi_pass app;", "uwsgi_param PATH_INFO $uri;", *(line.replace("proxy_", "uwsgi_") for line in HIDES)
            ),
            server("uwsgi_param HTTP_X_REQUEST_START $sojourn_stamp_sent;", 'uwsgi_param HTTP_X_REQUEST_ID "";'),
        ),
        "include sojourn/sojourn_uwsgi.conf;",
    ),
    Fault(
        "a stamp inherited where auth_request asks",
        "stamp-in-subrequest",
        (
            server(INCLUDE, VERSION, HOST, CONNECTION, *HIDES, location("= /auth", "internal;", PASS)),
            root("auth_request /auth;", *PROXY),
        ),
        HOST,
        "warning",
    ),
    Fault(
        "lost with a header to hide further up",
        "stamp-not-inherited",
        (root(PASS, VERSION, HOST, CONNECTION), server(INCLUDE, "proxy_hide_header X-Powered-By;")),
        "proxy_hide_header X-Powered-By;",
    ),
    Fault(
        "a balancer in front that is not listed",
        "inbound-untrusted",
        ((UPSTREAM, f"    set_real_ip_from 10.0.0.0/8;\n    real_ip_header X-Forwarded-For;\n\n{UPSTREAM}"),),
        "10.0.0.0/8 1;",
        "warning",
    ),
    Fault("every address trusted", "trust-everybody", (), "0.0.0.0/0 1;", files=(("trusted.conf", "0.0.0.0/0 1;\n"),)),
    Fault(
        "a stamp without the other headers",
        "headers-pass",
        (root(*PROXY[:-1], STAMP, *HIDES),),
        REST[0],
        "warning",
    ),
    Fault(
        "earlier lines for gRPC", "headers-pass", (earlier_location("grpc", "grpc://"),), 'X-Queue-Start "";', "warning"
    ),
    Fault(
        "earlier lines for FastCGI",
        "headers-pass",
        (earlier_location("fastcgi"),),
        "fastcgi_param HTTP_TRACESTATE $sojourn_tracestate if_not_empty;",
        "warning",
    ),
    Fault(
        "earlier lines for uwsgi",
        "headers-pass",
        (earlier_location("uwsgi"),),
        'uwsgi_param HTTP_X_QUEUE_START "";',
        "warning",
    ),
    Fault(
        "earlier lines for SCGI",
        "headers-pass",
        (earlier_location("scgi"),),
        'scgi_param HTTP_X_QUEUE_START "";',
        "warning",
    ),
    Fault(
        "the client's request id sent on",
        "headers-pass",
        (root(*PROXY[:-1], STAMP, "proxy_set_header X-Request-ID $http_x_request_id;", *REST[:1], *REST[2:], *HIDES),),
        REST[1],
        "warning",
    ),
    Fault(
        "the client's request id sent on by a map",
        "headers-pass",
        (
            (
                UPSTREAM,
                f"    map $http_x_request_id $id {{ default $http_x_request_id; '' $request_id; }}\n\n{UPSTREAM}",
            ),
            root(*PROXY[:-1], STAMP, "proxy_set_header X-Request-ID $id;", *REST[:1], *REST[2:], *HIDES),
        ),
        REST[1],
        "warning",
    ),
    Fault(
        "invalid header names not ignored",
        "underscores-in-headers",
        (server("ignore_invalid_headers off;"),),
        "ignore_invalid_headers on;",
        "warning",
    ),
    Fault(
        "underscores in headers",
        "underscores-in-headers",
        (server("underscores_in_headers on;"),),
        "underscores_in_headers off;",
        "warning",
    ),
]
LOGGING = [
    Fault("a log of another format only", "log-missing", ((LOG, OTHER_LOG),), "sojourn.jsonl sojourn;"),
    Fault("another log in a location", "log-replaced", (root(OTHER_LOG, *PROXY),), LOG),
    Fault("access_log off in a location", "log-off", (root("access_log off;", *PROXY),), LOG, "warning"),
    Fault(
        "only some requests logged",
        "log-sampled",
        ((LOG, f"map $status $slow {{ default 0; ~^5 1; }}\n    {LOG.replace(';', ' if=$slow;')}"),),
        LOG,
        "warning",
    ),
    Fault(
        "keys missing in a format of one's own",
        "log-keys",
        own_log('"upstream_header_time":"$upstream_header_time",', ""),
        """',"upstream_header_time":"$upstream_header_time"'""",
    ),
    Fault("no escape=json", "log-escape", own_log(" escape=json", ""), "log_format own escape=json"),
    Fault(
        "values without quotes",
        "log-quotes",
        own_log('"$upstream_response_time"', "$upstream_response_time"),
        '"upstream_response_time":"$upstream_response_time"',
    ),
    Fault(
        "the time of the log for a stamp",
        "log-stamp",
        own_log("$sojourn_logged_start", "$msec"),
        '"request_start":"$sojourn_logged_start"',
    ),
    Fault(
        "queries logged",
        "log-private",
        own_log('"uri":"$sojourn_uri"', '"uri":"$request_uri"'),
        '"uri":"$sojourn_uri"',
        "warning",
    ),
    Fault(
        "credentials logged",
        "log-private",
        own_log('"status":', '"who":"$http_authorization","session":"$cookie_session","status":'),
        '"session":""',
        "warning",
    ),
    Fault(
        "headers logged after they were hidden",
        "headers-stripped",
        own_log("$upstream_http_x_queueing_delay", "$sent_http_x_queueing_delay"),
        '"queueing_delay":"$upstream_http_x_queueing_delay"',
    ),
    Fault("two nginx in a row", "headers-stripped", ((SERVER, IN_FRONT),), "proxy_pass_header X-Queueing-Delay;"),
    Fault(
        "headers to hide not inherited",
        "headers-leak",
        (
            root(*PROXY[:-1], STAMP, *REST, "proxy_hide_header X-Powered-By;"),
            server(INCLUDE),
        ),
        "proxy_hide_header X-Worker;",
        "warning",
    ),
    Fault(
        "the raw path for a route",
        "routes-many",
        ((ROUTES, 'map "" $sojourn_route { default $uri; }'),),
        "~^/api/ /api/...;",
        "warning",
    ),
]
PASSING = [
    Fault(
        "no keepalive",
        "keepalive-missing",
        (("\n        keepalive 32;", ""),),
        "keepalive 32;",
        "info",
        server="uvicorn",
    ),
    Fault(
        "keepalive of no use",
        "keepalive-unused",
        (root(PASS, HOST, "proxy_set_header Connection close;", INCLUDE),),
        VERSION,
        "warning",
        server="uvicorn",
    ),
    Fault(
        "a map for WebSockets that closes all others",
        "keepalive-unused",
        (
            (UPSTREAM, f"    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}\n\n{UPSTREAM}"),
            root(PASS, VERSION, HOST, "proxy_set_header Connection $connection_upgrade;", INCLUDE),
        ),
        '"" "";',
        "warning",
        server="uvicorn",
    ),
    Fault(
        "uploads handed on unbuffered",
        "upload-unbuffered",
        (root(*PROXY, "proxy_request_buffering off;"),),
        "proxy_request_buffering on;",
        "warning",
    ),
    Fault(
        "answers handed on unbuffered",
        "answer-unbuffered",
        (root(*PROXY, "proxy_buffering off;"),),
        "proxy_buffering on;",
        "warning",
    ),
    Fault(
        "retries without end",
        "retries-unbounded",
        (
            ("        keepalive 32;", "        server 127.0.0.1:@INNER@;\n        keepalive 32;"),
            root(*PROXY, "proxy_next_upstream error timeout non_idempotent;"),
        ),
        "proxy_next_upstream_tries 2;",
        "warning",
    ),
    Fault(
        "a limit that delays",
        "limit-delays",
        (
            (UPSTREAM, f"    limit_req_zone $binary_remote_addr zone=few:1m rate=1r/s;\n\n{UPSTREAM}"),
            root("limit_req zone=few burst=20;", *PROXY),
        ),
        "limit_req zone=few burst=20 nodelay;",
        "warning",
    ),
]
MACHINE = [
    Fault(
        "a backlog above somaxconn",
        "backlog-capped",
        ((LISTEN, LISTEN.replace(";", " backlog=65535;")),),
        "sysctl -w net.core.somaxconn=65535",
        "warning",
    ),
    Fault(
        "the default backlog, and a small somaxconn",
        "backlog-capped",
        (),
        "sysctl -w net.core.somaxconn=4096",
        "warning",
        somaxconn=128,
    ),
    Fault(
        "an accept queue for each worker", "reuseport", ((LISTEN, LISTEN.replace(";", " reuseport;")),), LISTEN, "info"
    ),
    Fault(
        "few connections", "connections-few", (("worker_connections 4096;", ""),), "worker_connections 4096;", "info"
    ),
    Fault(
        "a coarse clock",
        "clock-coarse",
        (("events {", "timer_resolution 100ms;\n\nevents {"),),
        "timer_resolution 100ms;",
        "warning",
    ),
]
FAULTS = [*STAMPING, *LOGGING, *PASSING, *MACHINE]
