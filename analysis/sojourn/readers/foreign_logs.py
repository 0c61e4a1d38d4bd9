"""Logs of other formats: what each lacks of a split, and the lines that make its product write it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sojourn.model.formatting import printable
from sojourn.model.frame import APP, Records
from sojourn.readers.formats.detect import OWN_KEYS, detected_format
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.suggestion import Suggestion, suggested_format

LINES = 200  # of the refused lines
LENGTH = 2_000  # characters of a line
TIMED = (
    'log_format timed escape=json \'{"time":"$msec","method":"$request_method",\'\n'
    '    \'"uri":"$uri","status":"$status","request_time":"$request_time",\'\n'
    '    \'"upstream_addr":"$upstream_addr",\'\n'
    '    \'"upstream_response_time":"$upstream_response_time"}\';\n'
    "access_log /var/log/nginx/sojourn.jsonl timed;"
)
SWITCH = "include sojourn/sojourn.conf;\naccess_log /var/log/nginx/sojourn.jsonl sojourn;"
IN_NGINX = "nginx.conf, inside http"
LOOK = "sojourn doctor /etc/nginx/nginx.conf"

_STAMPED = "the stamp (X-Request-Start) and the app's own times"
_FRONT = "docs/how-to/load-balancer-in-front.md"
_OTHERS = "docs/how-to/other-proxies.md"


@dataclass(frozen=True)
class ForeignFormat:
    """The format of a log without Sojourn's records.

    Attributes:
        name: the name of the format.
        holds: the times in it.
        lacks: values that a split needs in addition.
        advice: the remedy, as a clause.
        fix: the lines of the remedy.
        into: the file for these lines; empty: they are a command.
        because: a sentence on values that are not read.
    """

    name: str
    holds: str
    lacks: str
    advice: str
    fix: str = LOOK
    into: str = ""
    because: str = ""

    @property
    def sentence(self) -> str:
        """The times in the log, the missing values, and the remedy."""
        because = f" {self.because}" if self.because else ""
        return f"It has {self.holds}; it lacks {self.lacks}.{because} To have these, {self.advice}."


def _of_nginx(name: str, holds: str, lacks: str = _STAMPED) -> ForeignFormat:
    return ForeignFormat(name, holds, lacks, "let nginx write them to a second log", SWITCH, IN_NGINX)


def _of_stamping_proxy(name: str, holds: str, lacks: str, fix: str, into: str) -> ForeignFormat:
    advice = f"give the log of the nginx behind this proxy, and let the proxy send its own stamp ({_FRONT})"
    return ForeignFormat(name, holds, lacks, advice, fix, into)


def _of_proxy(name: str, holds: str, lacks: str = _STAMPED) -> ForeignFormat:
    return ForeignFormat(name, holds, lacks, f"give the log of the nginx behind this proxy ({_FRONT})")


HAPROXY = _of_stamping_proxy(
    "HAProxy's HTTP log (option httplog)",
    "milliseconds of reading the request, of waiting in HAProxy's own queue, of connecting, of waiting for the "
    "server's headers, and of the whole request (TR/Tw/Tc/Tr/Ta)",
    _STAMPED,
    "http-request set-header X-Request-Start t=%[date(0,us)]",
    "the frontend of haproxy.cfg",
)
HAPROXY_TCP = _of_stamping_proxy(
    "HAProxy's TCP log (option tcplog)",
    "milliseconds of waiting in HAProxy's own queue, of connecting, and of the whole session (Tw/Tc/Tt)",
    f"single requests, {_STAMPED}",
    "mode http\nhttp-request set-header X-Request-Start t=%[date(0,us)]",
    "the frontend of haproxy.cfg",
)
ENVOY = _of_stamping_proxy(
    "Envoy's access log",
    "milliseconds of the whole request and of the upstream (DURATION, x-envoy-upstream-service-time)",
    _STAMPED,
    'request_headers_to_add: [{header: {key: x-request-start, value: "t=%START_TIME(%s.%3f)%"}, '
    "append_action: OVERWRITE_IF_EXISTS_OR_ADD}]",
    "Envoy's route configuration",
)
CADDY = ForeignFormat(
    "Caddy's JSON access log",
    "the duration of the whole request in seconds",
    f"upstream times, {_STAMPED}",
    f"let Caddy stamp, and append the rest to its log ({_OTHERS})",
    "vars sojourn_start t={time.now.unix_ms}\nheader_up X-Request-Start {vars.sojourn_start}  # in reverse_proxy",
    "the site in the Caddyfile",
)
APACHE_TIMES = _of_stamping_proxy(
    "Apache's combined format with a duration (%D or %T)",
    "the duration of the whole request",
    f"upstream times, {_STAMPED}",
    'RequestHeader set X-Request-Start "%t"',
    "Apache's virtual host",
)
ALB = _of_proxy(
    "the access log of an AWS load balancer",
    "seconds in the load balancer, in the target until its headers, and of sending the answer "
    "(request, target and response processing time)",
)
TRAEFIK = _of_proxy(
    "Traefik's access log", "the duration of the whole request in milliseconds", f"upstream times, {_STAMPED}"
)
TRAEFIK_JSON = ForeignFormat(
    "Traefik's JSON access log",
    "nanoseconds of the whole request, of the backend, and in Traefik itself (Duration, OriginDuration, Overhead)",
    _STAMPED,
    f"let Traefik keep these headers in its log, and stamp by a plugin ({_OTHERS})",
    "headers: {defaultMode: drop, names: {X-Request-Start: keep, X-Queueing-Delay: keep, X-Service-Time: keep, "
    "X-Worker: keep, X-Route: keep}}",
    "accessLog.fields of Traefik's static configuration",
)
COMBINED = ForeignFormat(
    "the common or combined format of nginx, Apache and gunicorn",
    "the second in which each request ended and no duration",
    "response times and upstream times",
    "log $msec, $request_time, $upstream_addr and $upstream_response_time of nginx; the queue is then inferred. Or add "
    "%D to Apache's LogFormat",
    TIMED,
    IN_NGINX,
)
COMBINED_TIMES = _of_nginx(
    "nginx's combined format with durations", "the durations that were added ($request_time, $upstream_…_time)"
)
INGRESS = ForeignFormat(
    "the default log of ingress-nginx",
    "response times and upstream response times",
    f"connect and header times, {_STAMPED}",
    "let the controller write them (docs/how-to/kubernetes-ingress-nginx.md)",
    "kubectl edit configmap --namespace ingress-nginx ingress-nginx-controller",
)
UWSGI = ForeignFormat(
    "uWSGI's request log",
    "milliseconds that uWSGI worked on each request",
    "the wait before uWSGI and the stamp (X-Request-Start)",
    "give the log of the nginx in front of uWSGI",
)
_OWN_TIMES = "the app's own times"
HEROKU = ForeignFormat(
    "the log of Heroku's router", "milliseconds of connecting, and to the end of the response", _OWN_TIMES,
    "wrap the app in the middleware: Heroku's router sends X-Request-Start itself",
    "sojourn split router.log --app-log app.log",
)  # fmt: skip
# Name of a format -> what it lacks; of those that nginx did not write.
_BY_NAME = {
    "kamal-proxy": ForeignFormat(
        "kamal-proxy's log",
        "nanoseconds of the whole request",
        "the app's own times",
        f"let it log the stamp, which it sends, and the app's headers ({_OTHERS})",
        "logging: {request_headers: [X-Request-Start], "
        "response_headers: [X-Queueing-Delay, X-Service-Time, X-Worker, X-Route]}",
        "proxy in Kamal's config/deploy.yml",
    ),
    "thruster": ForeignFormat(
        "Thruster's log",
        "milliseconds of the whole request",
        _STAMPED,
        f"give the log of the proxy in front of it, with the app's headers ({_OTHERS})",
        'docker logs kamal-proxy | grep \'"msg":"Request"\' | sojourn split -',
    ),
    "heroku": HEROKU,
    "kong": _of_proxy("Kong's JSON log", "milliseconds of the whole request and of the upstream"),
    "gcp": _of_proxy("the log of a Google Cloud load balancer", "the duration of the whole request"),
    "cloudflare": _of_proxy("Cloudflare's Logpush", "the times of the edge and of the origin"),
    "squid": _of_proxy("Squid's access log", "the duration of the whole request"),
    "gorouter": _of_proxy("the access log of Cloud Foundry's gorouter", "the duration of the whole request"),
    "w3c": _of_proxy("W3C's extended format", "the duration of the whole request"),
}
_OF_AN_APP = ForeignFormat(
    "the log of an app server", "the time that the app worked on each request", "the wait before the app",
    "give the log of the proxy in front, with --app-log for this one", "sojourn split access.log --app-log app.log",
)  # fmt: skip
_OF_OTHERS = _of_proxy("the log of another program", "what its keys say")
NGINX_ERRORS = _of_nginx("nginx's error log", "messages", "requests and their times")
NGINX_JSON = _of_nginx("JSON lines of nginx's variables without all keys of Sojourn's record", "what its keys say")
OTHER_JSON = ForeignFormat(
    "JSON lines without the keys of Sojourn's record", "other keys", "time, status and request_time", "name the keys"
)
UNKNOWN = ForeignFormat("text in a format that is not recognised", "", "", "")
_PAGE = "docs/reference/log-formats.md"

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_DAY = r"\[\d\d/\w{3}/\d{4}:[\d:]{8}"
_CLF = re.compile(rf"\S+ \S+ .{{0,200}}?{_DAY} [+-]\d{{4}}\] {_QUOTED} (?:\d{{3}}|-) (?:\d+|-)")
# What follows the status and the size; the first that fits.
_AFTER_CLF = (
    (re.compile(rf" {_QUOTED} {_QUOTED} \d+ (?:{_QUOTED}|-) (?:{_QUOTED}|-) \d+ms$"), TRAEFIK),
    (re.compile(rf" {_QUOTED} {_QUOTED} \d+ \d+\.\d{{3}} \[[^\]]*\] \[[^\]]*\] "), INGRESS),
    (re.compile(rf"(?: {_QUOTED}){{0,3}} \d+(?:us|ms|s)?$"), APACHE_TIMES),
    (re.compile(r".*(?:^|[\s=\"\[:])\d+\.\d{3}(?=$|[\s\"\],;])"), COMBINED_TIMES),
    (re.compile(r""), COMBINED),
)
_HAPROXY = rf"(?:.{{0,200}}? )?\S{{1,100}}:\d+ {_DAY}\.\d{{3}}\] \S{{1,100}} \S{{1,200}} "
_OF_TEXT = (
    (re.compile(rf"{_HAPROXY}[+-]?\d+(?:/[+-]?\d+){{4}} "), HAPROXY),
    (re.compile(rf"{_HAPROXY}[+-]?\d+(?:/[+-]?\d+){{2}} "), HAPROXY_TCP),
    (re.compile(rf"\[\d{{4}}-\d\d-\d\dT[\d:.]+Z\] {_QUOTED} \d+ "), ENVOY),
    (re.compile(r"(?:[a-z2]+ )?\d{4}-\d\d-\d\dT[\d:.]+Z \S+ \S+:\d+ \S+ (?:-?[\d.]+ ){3}[\d-]+ "), ALB),
    (re.compile(r"\[pid: \d+\|app: "), UWSGI),
    (re.compile(r"\d{4}/\d\d/\d\d [\d:]{8} \[\w+\] \d+#\d+: "), NGINX_ERRORS),
)
_KEY = re.compile(r'"(\w+)" ?: ?')  # no JSON parser: the end of a long line may be missing
_REQUIRED = {"time", "status", "request_time"}
_NGINX_VARIABLES = {
    "remote_addr", "time_local", "time_iso8601", "body_bytes_sent", "request_time", "msec", "http_user_agent",
    "http_referer", "upstream_addr", "upstream_response_time", "request_method", "request_uri",
}  # fmt: skip


def format_of_line(line: str) -> ForeignFormat | None:
    """Return the format of one line; None if it is unknown, or may be one of Sojourn's records."""
    text = line[:LENGTH].strip()
    if text.startswith("{"):
        return _format_of_object(set(_KEY.findall(text)), text)
    if (begin := _CLF.match(text)) is not None:
        rest = text[begin.end() :]
        return next(each for pattern, each in _AFTER_CLF if pattern.match(rest))
    return next((each for pattern, each in _OF_TEXT if pattern.match(text)), None)


def _format_of_object(keys: set[str], text: str) -> ForeignFormat | None:
    if OWN_KEYS & keys or keys >= _REQUIRED:
        return None
    if {"ts", "request"} <= keys and '"request":{' in text.replace(" ", ""):
        return CADDY
    if {"Duration", "RequestMethod"} <= keys:
        return TRAEFIK_JSON
    if {"response_flags", "duration"} <= keys:
        return ENVOY
    if len(_NGINX_VARIABLES & keys) >= 2:
        return NGINX_JSON
    return None if _REQUIRED & keys else OTHER_JSON


def foreign_format(lines: Iterable[str]) -> ForeignFormat | None:
    """Return the format that more than half of these lines have; None without such a format."""
    sample = [line for line in lines if line.strip()]
    counts = Counter(format_of_line(line) for line in sample)
    if not counts:
        return None
    most, count = counts.most_common(1)[0]
    if most is None or count <= 0.5 * counts.total():
        return None
    if most is OTHER_JSON:
        return _with_suggestion(OTHER_JSON, suggested_format(sample))
    if most in (APACHE_TIMES, COMBINED_TIMES) and (log := detected_format(sample)) and log.lacks:
        return replace(COMBINED, because=" ".join(log.notes))
    return most


def unrecognised(lines: Sequence[str]) -> ForeignFormat:
    """Return what is to be said of lines of text whose format is not recognised."""
    return _with_suggestion(UNKNOWN, suggested_format(lines))


def _with_suggestion(form: ForeignFormat, suggestion: Suggestion) -> ForeignFormat:
    sees = printable(", ".join(suggestion.sees), 300) or "nothing that is recognised"
    text = suggestion.text if suggestion.sees else "$time_local $status $request_time"
    advice = (
        f"give its format, for example --log-format '{text}' with the variables that are missing (a duration that is "
        f"not in s has its unit behind it: $request_time=ms), or --log-format nginx.conf:NAME if nginx writes it "
        f"({_PAGE})"
    )
    lacks = ", ".join(suggestion.lacks) or "nothing, as it seems"
    return replace(form, holds=sees, lacks=lacks, advice=advice, fix=f"sojourn split LOG --log-format '{text}'")


def advice_on(log: LineFormat, lines: Sequence[str]) -> ForeignFormat:
    """Return what a log that is read lacks of a split.

    Args:
        log: its format.
        lines: its first lines.
    """
    if log.vantage == APP:
        return foreign_format(lines) or _OF_AN_APP
    if by_name := _BY_NAME.get(log.name):
        return by_name
    return foreign_format(lines) or (NGINX_JSON if log.lists else _OF_OTHERS)


def format_of_rejects(records: Records) -> ForeignFormat | None:
    """Return the format of the kept refused lines; None if there are none, or if they may be Sojourn's records."""
    lines = [str(each["raw"]) for each in records.rejects[:LINES]]
    form = foreign_format(lines)
    if form is None and sum(not line.lstrip().startswith("{") for line in lines) > 0.5 * len(lines):
        return unrecognised([line for line in lines if line.strip()])
    return form


def refused_as(records: Records) -> str:
    """Return sentences about the format of the refused lines; empty if it is unknown.

    Args:
        records: of sources without any accepted line; the first of its ``rejects`` decide.
    """
    form = format_of_rejects(records)
    if form is None:
        return ""
    of_line = (each for each in records.rejects if (one := format_of_line(str(each["raw"]))) and one.name == form.name)
    source = next(of_line, records.rejects[0])["source"]
    return f"{printable(source or 'The log', 200)} is {form.name}. {form.sentence}"
