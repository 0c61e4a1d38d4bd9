"""Requests of one worker, first come, first served, as lines of every format that logs in public have."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

BEGIN = 1_769_860_800.0  # 2026-01-31 12:00:00 UTC
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0", "curl/8.5.0", "Go-http-client/1.1")
ROUTES = ("/", "/login", "/cart", "/search?q=a b".replace(" ", "+"), "/api/items/{number}")
BACKEND = "10.20.0.5:8000"


@dataclass(frozen=True)
class Request:
    """One request; instants in unix s, durations in s, to the millisecond as nginx writes them."""

    number: int
    end: float
    whole: float
    upstream: float
    service: float
    uri: str
    status: int
    size: int
    client: str
    agent: str
    port: int
    length: int

    @property
    def start(self) -> float:
        return self.end - self.whole

    @property
    def ms(self) -> int:
        return round(self.whole * 1e3)

    @property
    def us(self) -> int:
        """Whole microseconds, with digits of their own."""
        return self.ms * 1_000 + self.number * 7 % 1_000

    @property
    def request(self) -> str:
        return f"GET {self.uri} HTTP/1.1"

    def clf(self, at: float | None = None) -> str:
        return f"{_moment(self.end if at is None else at):%d/%b/%Y:%H:%M:%S +0000}"

    def iso(self, at: float | None = None, digits: int = 3) -> str:
        moment = _moment(self.end if at is None else at)
        return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{moment.microsecond:06d}"[: digits + 1] if digits else "")

    @property
    def common(self) -> str:
        return f'{self.client} - - [{self.clf()}] "{self.request}" {self.status} {self.size}'

    @property
    def combined(self) -> str:
        return f'{self.common} "-" "{self.agent}"'


def _moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


@cache
def requests(count: int = 600, load: float = 0.9, seed: int = 7, scale: float = 0.05) -> tuple[Request, ...]:
    """Requests of one worker with a mean service of ``scale`` s, in the order in which they end."""
    draws = random.Random(seed)
    free = arrival = BEGIN
    result = []
    for number in range(count):
        arrival += draws.expovariate(load / scale)
        service = max(draws.gammavariate(2.0, scale / 2), 0.002)
        free = max(free, arrival) + service
        upstream = round(free - arrival, 3)
        whole = round(upstream + draws.choice((0.001, 0.002)), 3)
        result.append(
            Request(
                number, round(arrival + whole, 3), whole, upstream, service,
                draws.choice(ROUTES).format(number=draws.randint(10, 99)), draws.choice((200,) * 20 + (302, 404)),
                draws.randint(300, 20_000), f"198.51.100.{draws.randint(1, 250)}", draws.choice(AGENTS),
                draws.randint(32_768, 60_999), draws.randint(600, 1_900),
            )
        )  # fmt: skip
    return tuple(sorted(result, key=lambda each: each.end))


Line = Callable[[Request], str]


def _json(**values: Callable[[Request], object]) -> Line:
    return lambda r: json.dumps({key.replace("__", "."): value(r) for key, value in values.items()})


def _kubernetes(r: Request) -> str:
    return (
        f'{r.combined} {r.length} {r.whole:.3f} [default-web-80] [] {BACKEND} {r.size} {r.upstream:.3f} {r.status} '
        f"{r.number:032x}"
    )  # fmt: skip


def _haproxy(r: Request) -> str:
    moment = _moment(r.start)
    stamp = moment.strftime("%d/%b/%Y:%H:%M:%S") + f".{moment.microsecond // 1000:03d}"
    waited = round(r.upstream * 1e3)
    return (
        f"{r.client}:50000 [{stamp}] web app/one 0/0/0/{waited}/{r.ms} {r.status} {r.size} - - ---- 1/1/1/1/0 0/0 "
        f'"{r.request}"'
    )


def _alb(r: Request) -> str:
    return (
        f"http {r.iso(digits=6)}Z app/web/50dc6c 198.51.100.1:2817 {BACKEND} 0.000 {r.upstream:.3f} "
        f'{r.whole - r.upstream:.3f} {r.status} {r.status} 34 {r.size} "GET http://shop.example:80{r.uri} HTTP/1.1" '
        f'"curl/7.46.0" - - arn:aws:tg/web "Root=1-{r.number}" "-" "-" 0 {r.iso(r.start, 6)}Z "forward" "-" "-" '
        f'"{BACKEND}" "200" "-" "-"'
    )


def _envoy(r: Request) -> str:
    return (
        f'[{r.iso(r.start)}Z] "GET {r.uri} HTTP/1.1" {r.status} - 0 {r.size} {r.ms} {round(r.upstream * 1e3)} '
        f'"{r.client}" "{r.agent}" "{r.number:032x}" "shop.example" "{BACKEND}"'
    )  # fmt: skip


def _traefik_json(r: Request) -> str:
    return json.dumps({
        "StartUTC": f"{r.iso(r.start, 6)}000Z", "Duration": r.ms * 1_000_000,
        "OriginDuration": round(r.upstream * 1e9), "DownstreamStatus": r.status, "OriginStatus": r.status,
        "ServiceURL": f"http://{BACKEND}", "RequestMethod": "GET", "RequestPath": r.uri, "RequestProtocol": "HTTP/1.1",
    })  # fmt: skip


def _tokyo(r: Request) -> str:
    return _moment(r.end).astimezone(timezone(timedelta(hours=9))).strftime("%d/%b/%Y:%H:%M:%S +0900")


def _kong(r: Request) -> str:
    return json.dumps({
        "started_at": round(r.start * 1e3), "latencies": {"request": r.ms, "kong": 1, "proxy": round(r.upstream * 1e3)},
        "response": {"status": r.status, "size": r.size}, "request": {"method": "GET", "uri": r.uri},
        "service": {"name": "shop"}, "client_ip": r.client,
    })  # fmt: skip


def _gcp(r: Request) -> str:
    return json.dumps({
        "timestamp": f"{r.iso(r.start, 6)}Z", "insertId": f"{r.number:x}",
        "httpRequest": {"requestMethod": "GET", "requestUrl": f"https://shop.example{r.uri}", "status": r.status,
                        "latency": f"{r.whole:.6f}s", "remoteIp": r.client, "serverIp": "10.20.0.5"},
        "jsonPayload": {"statusDetails": "response_sent_by_backend"},
    })  # fmt: skip


def _azure(r: Request) -> str:
    return json.dumps({
        "timeStamp": f"{r.iso(digits=0)}+00:00", "category": "ApplicationGatewayAccessLog",
        "properties": {"clientIP": r.client, "httpMethod": "GET", "requestUri": r.uri, "httpStatus": r.status,
                       "timeTaken": r.whole, "serverRouted": BACKEND, "serverStatus": str(r.status),
                       "serverResponseLatency": f"{r.upstream:.3f}"},
    })  # fmt: skip


def _rack(r: Request) -> str:
    return f"{r.common} {r.whole:.4f}"


def _uwsgi(r: Request) -> str:
    return (
        f"[pid: 12|app: 0|req: {r.number}/{r.number}] {r.client} () {{40 vars in 600 bytes}} "
        f"[{_moment(r.start):%a %b %d %H:%M:%S %Y}] GET {r.uri} => generated {r.size} bytes in {r.ms} msecs "
        f"(HTTP/1.1 {r.status}) 3 headers in 100 bytes (1 switches on core 0)"
    )


def _iis(r: Request) -> str:
    path, _, query = r.uri.partition("?")
    stamp = f"{_moment(r.end):%Y-%m-%d %H:%M:%S}"
    agent = r.agent.replace(" ", "+")
    return f"{stamp} 10.0.0.1 GET {path} {query or '-'} 443 - {r.client} {agent} - {r.status} 0 0 {r.ms}"


IIS_HEAD = (
    "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-01-31 12:00:00\n"
    "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) "
    "sc-status sc-substatus sc-win32-status time-taken\n"
)


def _cloudfront(r: Request) -> str:
    path, _, query = r.uri.partition("?")
    stamp = f"{_moment(r.end):%Y-%m-%d\t%H:%M:%S}"
    values = ("LAX1", r.size, r.client, "GET", "d1.cloudfront.net", path, r.status, "-", r.agent.replace(" ", "%20"),
              query or "-", "-", "Miss", f"{r.number:x}==", "shop.example", "https", 23, f"{r.whole:.3f}")  # fmt: skip
    return "\t".join((stamp, *map(str, values)))


CLOUDFRONT_HEAD = (
    "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status "
    "cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header "
    "cs-protocol cs-bytes time-taken\n"
)


@dataclass(frozen=True)
class Public:
    """A format.

    Attributes:
        line: a request as a line.
        upstream: whether the time of the backend is in it.
        certainty: what the note on it has to say, at most.
        app: it is the log of an app server.
        head: lines before the first.
        step: the step of its durations, s.
    """

    line: Line
    upstream: bool = False
    certainty: str = "sure"
    app: bool = False
    head: str = ""
    step: float = 0.001


_AT = {"@timestamp": lambda r: f"{r.iso()}Z"}
READ = {
    "combined, two times": Public(lambda r: f"{r.combined} {r.whole:.3f} {r.upstream:.3f}", True, "likely"),
    "combined, upstream's first": Public(lambda r: f"{r.combined} {r.upstream:.3f} {r.whole:.3f}", True, "likely"),
    "combined, labels": Public(lambda r: f'{r.combined} rt={r.whole:.3f} urt="{r.upstream:.3f}"', True),
    "combined, $msec and address": Public(
        lambda r: f"{r.combined} {r.end:.3f} {r.whole:.3f} {BACKEND} {r.upstream:.3f}", True, "likely"
    ),
    "combined, 53.000 ms": Public(lambda r: f"{r.combined} {r.ms}.000 ms", certainty="likely"),
    "combined, 53 ms glued": Public(lambda r: f"{r.combined} {r.ms}ms", certainty="likely"),
    "combined, - 53.000 ms": Public(lambda r: f"{r.combined} - {r.ms}.000 ms", certainty="likely"),
    "combined, took=53ms": Public(lambda r: f"{r.combined} took={r.ms}ms", certainty="likely"),
    "combined, took_ms=53": Public(lambda r: f"{r.combined} took_ms={r.ms}", certainty="likely"),
    "combined, duration_us=53000": Public(lambda r: f"{r.combined} duration_us={r.us}", certainty="likely"),
    "before the status": Public(
        lambda r: f'{r.client} - - [{r.clf()}] "{r.request}" {r.whole:.3f} {r.upstream:.3f} {r.status} {r.size} '
        f'"{r.agent}"', True, "likely",
    ),
    "first in the line": Public(
        lambda r: f'{r.whole:.3f} {r.upstream:.3f} {BACKEND} {r.client} [{r.clf()}] "{r.request}" {r.status} {r.size} '
        f'"{r.agent}"', True, "likely",
    ),
    "the stamp first": Public(
        lambda r: f'[{r.clf()}] {r.client} "{r.request}" "{r.agent}" {r.status} {r.size} {r.upstream:.3f} '
        f'{r.whole:.3f} "https://shop.example/"', True, "likely",
    ),
    "$time_iso8601": Public(
        lambda r: f'{r.client} - - [{r.iso(digits=0)}+00:00] "shop.example" "{r.request}" {r.status} {r.size} "-" '
        f'"curl/7.35.0" {r.whole:.3f}', certainty="likely",
    ),
    "APISIX": Public(
        lambda r: f'{r.client} - - [{r.clf()}] shop.example:9080 "{r.request}" {r.status} {r.size} {r.whole:.3f} "-" '
        f'"{r.agent}" {BACKEND} {r.status} {r.upstream:.3f} "http://shop.example"', True, "likely",
    ),
    "method, path and protocol without quotes": Public(
        lambda r: f"{r.end:.3f} {r.client} GET {r.uri} HTTP/1.1 {r.status} {r.size} {r.whole:.3f} {r.upstream:.3f}",
        True, "likely",
    ),
    "ingress-nginx": Public(_kubernetes, True),
    "ingress-nginx before 0.20": Public(
        lambda r: f'{r.client} - [{r.client}] - - [{r.clf()}] "{r.request}" {r.status} {r.size} "-" "{r.agent}" '
        f"{r.length} {r.whole:.3f} [default-web-80] {BACKEND} {r.size} {r.upstream:.3f} {r.status}", True, "likely",
    ),
    "LTSV": Public(
        lambda r: "\t".join((
            f"time:{_tokyo(r)}", f"host:{r.client}", f"req:{r.request}", f"status:{r.status}", f"size:{r.size}",
            f"ua:{r.agent}", f"reqtime:{r.whole:.3f}", "runtime:-", f"apptime:{r.upstream:.3f}", "vhost:shop.example",
        )), True, "likely",
    ),
    "LTSV with brackets": Public(
        lambda r: "\t".join((f"time:[{r.clf()}]", "method:GET", f"uri:{r.uri}", f"status:{r.status}",
                             f"request_time:{r.whole:.3f}", f"upstream_response_time:{r.upstream:.3f}")), True,
        "likely",
    ),
    "logfmt": Public(
        lambda r: f'time={r.iso()}Z level=info method=GET path="{r.uri}" status={r.status} duration={r.ms}ms',
        certainty="likely",
    ),
    "JSON, $msec as time": Public(
        _json(time=lambda r: r.end, request_uri=lambda r: r.uri, status=lambda r: r.status,
              request_time=lambda r: r.whole, upstream_response_time=lambda r: f"{r.upstream:.3f}",
              upstream_addr=lambda _: BACKEND), True, "likely",
    ),
    "JSON, $msec": Public(
        _json(msec=lambda r: f"{r.end:.3f}", status=lambda r: r.status, request_time=lambda r: r.whole,
              upstream_response_time=lambda r: f"{r.upstream:.3f}"), True, "likely",
    ),
    "JSON, responsetime and upstreamtime": Public(
        lambda r: json.dumps({"@timestamp": f"{r.iso(digits=0)}+00:00", "responsetime": r.whole,
                              "upstreamtime": f"{r.upstream:.3f}", "upstreamhost": BACKEND, "status": str(r.status)}),
        True, "assumed",
    ),
    "JSON, response_time (alp)": Public(
        _json(time=lambda r: f"{r.iso(digits=0)}+00:00", method=lambda _: "GET", uri=lambda r: r.uri,
              status=lambda r: r.status, response_time=lambda r: r.whole), certainty="assumed",
    ),
    "JSON, status_code": Public(
        _json(timestamp=lambda r: f"{r.iso()}Z", status_code=lambda r: r.status, request_time=lambda r: r.whole,
              upstream_response_time=lambda r: f"{r.upstream:.3f}"), True, "likely",
    ),
    "JSON, ms with a fraction": Public(
        _json(timestamp=lambda r: f"{r.iso()}Z", status=lambda r: r.status, request_time=lambda r: r.ms + 0.25,
              upstream_time=lambda r: r.upstream * 1e3 + 0.1), True, "assumed",
    ),
    "JSON, whole ms": Public(
        _json(timestamp=lambda r: f"{r.iso()}Z", status=lambda r: r.status, latency=lambda r: r.ms), certainty="assumed"
    ),
    "JSON, whole ms and the upstream's seconds": Public(
        _json(timestamp=lambda r: f"{r.iso()}Z", status=lambda r: r.status, request_time=lambda r: r.ms,
              upstream_response_time=lambda r: f"{r.upstream:.3f}"), True, "assumed",
    ),
    "JSON, latency_ms": Public(
        _json(timestamp=lambda r: f"{r.iso()}Z", status=lambda r: r.status, latency_ms=lambda r: r.ms),
        certainty="likely",
    ),
    "JSON, durationMs": Public(
        _json(ts=lambda r: round(r.end * 1e3), statusCode=lambda r: r.status, durationMs=lambda r: r.ms + 0.5),
        certainty="likely",
    ),
    "JSON, latency in ns (echo)": Public(
        _json(time=lambda r: f"{r.iso(digits=6)}000Z", status=lambda r: r.status, latency=lambda r: r.us * 1_000 + 123),
        certainty="assumed",
    ),
    "JSON, latency with a unit (Go)": Public(
        _json(time=lambda r: f"{r.iso()}Z", status=lambda r: r.status, latency=lambda r: f"{r.us / 1e3}ms"),
        certainty="likely",
    ),
    "JSON, ECS": Public(
        lambda r: json.dumps({"@timestamp": f"{r.iso()}Z", "http": {"response": {"status_code": r.status},
                              "request": {"method": "GET"}}, "url": {"path": r.uri},
                              "event": {"duration": r.us * 1_000 + 1}}), certainty="assumed",
    ),
    "JSON, nested": Public(
        lambda r: json.dumps({"timestamp": f"{r.iso()}Z", "httpRequest": {"requestMethod": "GET", "status": r.status,
                              "latency": r.whole, "upstream_time": r.upstream}}), True, "assumed",
    ),
    "pino": Public(
        lambda r: json.dumps({"level": 30, "time": round(r.end * 1e3), "pid": 12, "req": {"method": "GET"},
                              "res": {"statusCode": r.status}, "responseTime": r.ms, "msg": "request completed"}),
        certainty="likely", app=True,
    ),
    "lograge JSON": Public(
        lambda r: json.dumps({"method": "GET", "path": r.uri, "controller": "A", "action": "b", "status": r.status,
                              "duration": r.us / 1e3, "@timestamp": f"{r.iso()}Z"}), certainty="likely", app=True,
    ),
    "lograge": Public(
        lambda r: f"I, [{r.iso(digits=6)} #12]  INFO -- : [{r.number:x}] method=GET path={r.uri} format=html "
        f"controller=A action=b status={r.status} duration={r.us / 1e3:.2f} view=1.00 db=2.00", app=True,
    ),
    "Rack": Public(_rack, certainty="assumed", app=True),
    "Gin": Public(
        lambda r: f"[GIN] {_moment(r.end):%Y/%m/%d - %H:%M:%S} | {r.status} |  {r.us / 1e3}ms |   {r.client} | "
        f'GET      "{r.uri}"', app=True,
    ),
    "uWSGI": Public(_uwsgi, app=True),
    "HAProxy": Public(_haproxy, True),
    "Envoy": Public(_envoy, True),
    "Traefik JSON": Public(_traefik_json, True),
    "ALB": Public(_alb, True),
    "Heroku": Public(
        lambda r: f'{r.iso(digits=6)}+00:00 heroku[router]: at=info method=GET path="{r.uri}" host=shop.example '
        f'request_id={r.number:08x} fwd="{r.client}" dyno=web.1 connect=1ms service={r.ms - 1}ms status={r.status} '
        f"bytes={r.size} protocol=https", True,
    ),
    "Kong": Public(_kong, True),
    "Google Cloud": Public(_gcp),
    "Azure": Public(_azure, True, "assumed"),
    "Cloudflare, instants": Public(
        lambda r: json.dumps({"EdgeStartTimestamp": f"{r.iso(r.start)}Z", "EdgeEndTimestamp": f"{r.iso()}Z",
                              "EdgeResponseStatus": r.status, "EdgeTimeToFirstByteMs": round(r.upstream * 1e3),
                              "OriginResponseDurationMs": round(r.upstream * 1e3), "OriginIP": "10.20.0.5"}), True,
    ),
    "Cloudflare, time to the first byte": Public(
        lambda r: json.dumps({"ClientRequestURI": r.uri, "EdgeEndTimestamp": f"{r.iso()}Z",
                              "EdgeResponseStatus": r.status, "EdgeTimeToFirstByteMs": r.ms}),
    ),
    "Squid": Public(
        lambda r: f"{r.end:.3f} {r.ms:6d} {r.client} TCP_MISS/{r.status} {r.size} GET http://shop.example{r.uri} - "
        "HIER_DIRECT/10.20.0.5 text/html",
    ),
    "gorouter": Public(
        lambda r: f'shop.example - [{r.iso(r.start, 6)}000Z] "{r.request}" {r.status} 0 {r.size} "-" "{r.agent}" '
        f'"{r.client}:50000" "{BACKEND}" x_forwarded_for:"-" x_forwarded_proto:"https" vcap_request_id:"{r.number:x}" '
        f'response_time:{r.whole:.6f} gorouter_time:0.000219 app_id:"x" app_index:"0"',
    ),
    "IIS": Public(_iis, head=IIS_HEAD),
    "CloudFront": Public(_cloudfront, head=CLOUDFRONT_HEAD),
    "Apache, %D": Public(lambda r: f"{r.client} - - [{r.clf(r.start)}] {r.combined.partition('] ')[2]} {r.us}",
                         certainty="likely"),
    "Tomcat, ms": Public(lambda r: f"{r.combined} {r.ms}", certainty="assumed"),
    "gunicorn, %(L)s": Public(lambda r: f"{r.combined} {r.us / 1e6:.6f}", certainty="assumed"),
}  # fmt: skip

# Logs without a duration: their numbers must not be taken for one.
REFUSED: dict[str, Line] = {
    "port": lambda r: f"{r.combined} {r.port}",
    "length of the request": lambda r: f"{r.combined} {r.length}",
    "length that depends on the request": lambda r: f"{r.combined} {300 + len(r.uri) + len(r.agent) + len(r.client)}",
    "connection": lambda r: f"{r.combined} {150_000 + r.number // 12}",
    "unix time": lambda r: f"{r.combined} {r.end:.0f}",
    "unix milliseconds": lambda r: f"{r.combined} {r.end * 1e3:.0f}",
    "number of the system": lambda r: f"{r.combined} {64_000 + hash(r.client) % 900}",
    "combined": lambda r: r.combined,
}


def text_of(line: Line, head: str = "", sample: Sequence[Request] | None = None) -> str:
    """The log of a format."""
    return head + "".join(f"{line(each)}\n" for each in sample or requests())


READ |= {
    "Discourse": Public(
        lambda r: f'[{r.clf()}] "shop.example" {r.client} "{r.request}" "{r.agent}" "topics/show" {r.status} {r.size} '
        f'"-" {r.upstream:.3f} {r.whole:.3f} "bob" "0.1" "-"', True, "likely",
    ),
    "Serilog": Public(
        lambda r: json.dumps({"@t": f"{r.iso(digits=6)}0Z", "@mt": "HTTP {RequestMethod} responded in {Elapsed} ms",
                              "RequestMethod": "GET", "StatusCode": r.status, "Elapsed": r.us / 1e3}),
        certainty="assumed",
    ),
    "Python, process_time_ms": Public(
        lambda r: json.dumps({"asctime": f"{_moment(r.end):%Y-%m-%d %H:%M:%S},000", "status_code": r.status,
                              "process_time_ms": r.us / 1e3}), certainty="likely",
    ),
    "zap": Public(
        lambda r: json.dumps({"level": "info", "ts": r.end, "msg": r.uri, "status": r.status, "latency": r.us / 1e6}),
        certainty="likely",
    ),
    "bars between": Public(
        lambda r: f"{r.iso(digits=0)}+00:00 | {r.client} | {r.request} | {r.status} | {r.whole:.3f} | {r.upstream:.3f}",
        True, "likely",
    ),
    "a forwarded list": Public(
        lambda r: f'{r.combined} "{r.client}, 10.0.0.1" "{r.whole:.3f}" "{r.upstream:.3f}" "{BACKEND}"', True, "likely",
    ),
    "JSON, whole µs": Public(
        _json(timestamp=lambda r: round(r.end * 1e3), httpStatus=lambda r: r.status, took=lambda r: r.us),
        certainty="assumed",
    ),
    "bars without blanks": Public(
        lambda r: f"{r.client}|{r.iso(digits=0)}+00:00|{r.request}|{r.status}|{r.agent}||{r.whole:.3f}|"
        f"{r.upstream:.3f}", True, "likely",
    ),
    "quotes and commas": Public(
        lambda r: f'"{r.iso(digits=0)}+00:00","{r.client}","{r.request}","{r.status}","{r.agent}","{r.whole:.3f}",'
        f'"{BACKEND}","{r.upstream:.3f}"', True, "likely",
    ),
    "semicolons": Public(
        lambda r: f"{r.end:.3f};{r.client};{r.request};{r.status};{r.size};{r.upstream:.3f};{r.whole:.3f}", True,
        "likely",
    ),
    "tabs": Public(
        lambda r: f"{r.clf()}\t{r.client}\t{r.request}\t{r.status}\t{r.agent}\trt={r.whole:.3f}\turt={r.upstream:.3f}",
        True, "likely",
    ),
    "Tomcat, ms and thread": Public(
        lambda r: f"{r.common} {r.ms} http-nio-8080-exec-{r.number % 9}", certainty="assumed"
    ),
    "Skipper": Public(lambda r: f"{r.combined} {r.ms} shop.example - -", certainty="assumed"),
    "varnishncsa, first byte and %D": Public(
        lambda r: f"{r.combined} {r.upstream:.6f} {r.us} pass", certainty="likely"
    ),
    "Amazon's API gateway": Public(
        lambda r: json.dumps({"requestId": f"{r.number:x}", "ip": r.client, "requestTime": r.clf(r.start),
                              "httpMethod": "GET", "status": str(r.status), "responseLatency": str(r.ms),
                              "integrationLatency": str(round(r.upstream * 1e3))}), True, "assumed",
    ),
    "Amazon's API gateway, epoch": Public(
        lambda r: json.dumps({"requestTimeEpoch": round(r.start * 1e3), "status": str(r.status),
                              "responseLatency": str(r.ms)}), certainty="assumed",
    ),
    "Linkerd": Public(
        lambda r: json.dumps({"method": "GET", "processing_ns": "103000", "status": r.status, "uri": r.uri,
                              "timestamp": f"{r.iso(digits=6)}000Z", "total_ns": str(r.us * 1_000)}),
        certainty="likely",
    ),
    "Workers": Public(
        lambda r: json.dumps({"EventTimestampMs": round(r.end * 1e3), "CPUTimeMs": 3, "WallTimeMs": r.ms,
                              "Event": {"Response": {"Status": r.status}}}), certainty="likely",
    ),
    "JSON, time_ms": Public(
        _json(ts=lambda r: r.end, status=lambda r: r.status, time_ms=lambda r: r.ms), certainty="likely"
    ),
    "vhost_combined, %D": Public(
        lambda r: f"shop.example:443 {r.client} - - [{r.clf(r.start)}] {r.combined.partition('] ')[2]} {r.us}",
        certainty="likely",
    ),
}  # fmt: skip
REFUSED |= {
    "ratio of gzip": lambda r: f"{r.combined} {(r.number * 37 % 900) / 100 + 1:.2f}",
    "labelled length": lambda r: f"{r.combined} rl={r.length}",
    "an instant named as a duration": lambda r: json.dumps({"reqTimeSec": f"{r.start:.3f}", "statusCode": r.status}),
    "instants alone, as bars": lambda r: f"{r.end:.3f}|{r.client}|{r.request}|{r.status}|{r.size}|{r.agent}",
    "port and thread": lambda r: f"{r.combined} {r.port} http-nio-8080-exec-{r.number % 9}",
    "JSON without a duration": lambda r: json.dumps({"timestamp": f"{r.iso()}Z", "status": r.status, "took": "-"}),
    "JSON, whole seconds, all 0": lambda r: json.dumps({"timestamp": f"{r.iso()}Z", "status": 200, "duration": 0}),
}
