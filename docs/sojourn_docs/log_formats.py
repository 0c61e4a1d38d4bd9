"""``docs/reference/log-formats.md``: the formats that are read, and what becomes of samples of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sojourn.model.formatting import formatted
from sojourn.model.frame import APP, PROXY, WHOLE
from sojourn.readers.formats.apache import apache_parts
from sojourn.readers.formats.catalogue import FORMATS, format_by_name
from sojourn.readers.formats.envoy import envoy_parts
from sojourn.readers.formats.haproxy import haproxy_parts
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.nginx import FIELDS as NGINX
from sojourn.readers.formats.template import variables

from sojourn_docs import NOTE

VECTORS = Path(__file__).parents[2] / "tests/vectors/log_formats.json"
VANTAGES = {
    PROXY: "the time of the backend is in it: the queue in front of the app is inferred from it, not measured",
    WHOLE: "whole requests only: their time is `unattributed`",
    APP: "the app server's own: its time is service time; the wait before it is unknown",
}
HEAD = f"""# Log formats

{NOTE}

`sojourn split access.log` and every other command read logs of other programs. The format is recognised by 500 of
the first 10,000 lines of each file, and named in a note with what each variable is read as, and how certain that
is: *sure* (given, labelled, or no other format fits), *likely* (deduced from the values of many lines) or
*assumed* (another reading is possible, and the note says which was taken). `--log-format` sets it instead:

    --log-format '$msec $status $request_time $upstream_response_time'
    --log-format /etc/nginx/nginx.conf:main
    --log-format '%h %l %u %{{end:usec}}t "%r" %>s %b %D'
    --log-format haproxy

It takes a name of the table below, `sojourn` (the [record](record.md) of Sojourn's own configuration),
`FILE:NAME` (a `log_format` in an nginx configuration), or a text in the language of nginx, Apache or
varnishncsa, HAProxy, Envoy, gunicorn or uWSGI, JSON texts included. A format without an instant, a status and a
response time is refused, with the variables to add. In Python the same is `sojourn.log_file(path, format)`.
CSV, TSV and Parquet are [read by the roles of their columns](../how-to/read-a-table.md).

The text is that of the configuration: a value without quotes may hold blanks, JSON may be nested and need not be
valid (a bare `-`), a variable may occur twice. `escape=none` or `escape=json` stands before the text, as in
`log_format`; a whole `log_format` directive is read as well. Numbers and instants divide a line where texts could end
in several places; of two texts without quotes side by side, the first gets as little as fits.

A duration may have its unit behind it: `$request_time=ms`, `%D=ms` (Tomcat before version 10); the units are `s`, `ms`,
`us` and `ns`. Without a text, `--log-format latency=ns,upstream_time=ms` states units of a format that is recognised
by its lines; names are keys, labels (`rt`), variables, directives (`D`) or `request_time`, `upstream_response_time`
and the like. A note says where the log contradicts the format: whole numbers of `$request_time`, which nginx writes
with three decimals; response times far longer than the log; microseconds that are too short. Another names the
first part of the format that refused lines do not fit.

Lines may be wrapped, up to three times; only the lines within are read, and bare lines between them:

- behind a header of syslog (RFC 3164 and RFC 5424), `docker compose logs`, `kubectl logs --timestamps` or
  `--prefix`, or a container runtime (CRI), whose partial lines (`P`) are joined;
- in Docker's `json-file` (`/var/lib/docker/containers/*/*-json.log`), where a `log` without a line end continues in
  the next one of its stream;
- in JSON, as the value of `log`, `message`, `msg` or `MESSAGE` (Fluentd, Fluent Bit, Filebeat, Logstash, Vector,
  `journalctl -o json`). Most values of the key must have a format or be JSON objects, and the objects around them must
  not be requests of their own: a request log in JSON with a `msg` is read by its other keys. A value of several lines
  is refused unless it is a JSON object.

Of a refused line, the number is that of the line in the file, and the text is that of the line within.

A line that does not have its log's format is refused (`other_format`) like any other bad line. Lines are
requests, each once: two equal lines are two requests, unless they contain a request id or the number of a
connection.

What a log's times are seen from decides what they say:

"""
AFTER = """
## Values appended to the combined format

Without a name, what a number means follows from all its values: the longest duration that no line lacks is
`$request_time`; of the others, the longest is `$upstream_response_time`, then `$upstream_header_time` and
`$upstream_connect_time`. The shorter of two is `$upstream_connect_time` if it is at most 5 ms and a tenth of the
longer one (*assumed*). Ten digits, a point and three digits are `$msec`; addresses with a port that recur are
`$upstream_addr`; 32 hexadecimal digits are `$request_id`. A name (`rt=`, `uct=`, `uht=`, `urt=`,
`request_time=` and the like) decides alone. Durations that contradict their names or one another make the format
*assumed*, with a note. A single number of three decimals may be a score or an angle as well: where it depends on
nothing that a duration depends on, the verdict says that it may be no time at all.

A whole number at the end is Apache's `%D` (µs), `%{ms}T` or `%T` (s), in the unit that fits ([below](#units)). It has
to behave like a duration: numbers that are instants, that only grow, that are spread as the ports of clients are, that
depend on the client and the request alone, or that depend on nothing at all, are not read, and the note says why. A
number that exceeds the size of the response by the size of headers is Apache's `%O`. Names of
threads, workers and hosts may stand behind the duration. Four digits behind the point,
behind the common format, are the seconds of Rack's CommonLogger; six are seconds, as gunicorn's `%(L)s` (*assumed*).

The same values may stand anywhere in the line, before the status or first of all: a line with an instant, a request and
a status is taken apart at its blanks, quotes and brackets, or at tabs, bars, semicolons or commas where one of these
stands between all values (five at least).

## Keys and values: JSON, LTSV, logfmt, W3C

What a key holds follows from its name, in any spelling (`responseTime`, `response_time`, `http.response.status_code`,
`{"res": {"statusCode": 200}}`), and from its values: a status has three digits, a stamp is one of the usual forms. A
name of nginx's variables counts more than another one. Lines that an app wrote (Rails with lograge, pino, bunyan) have
the vantage *app*. W3C's format (IIS, CloudFront) is that of its line of
`#Fields:`, which `--log-format` takes as well, for a log that begins behind it.

## Units

A unit is certain where it is written: behind the value (`53.000 ms`, `1.2s`), or in the name (`duration_ms`,
`latencyNs`). Else it follows from the log. A unit is refuted where requests would have taken longer than the log, or
would have ended in another order than their lines. Of those that remain, the one whose median is nearest to 50 ms is
taken, and seconds where three digits stand behind the point, as nginx writes them. Where another unit is plausible, the
format is *assumed*, and the note and the verdict name the factor. `--log-format request_time=ms` sets the unit of a
format that is recognised; in a text it is written behind the variable: `$request_time=ms`.

Without `$msec` a line says in which second its request ended and no more ([why that
matters](../how-to/without-touching-anything.md)).

## Samples

Each is a line of the product's documentation or of a real run of it; the tests read them
(`tests/vectors/log_formats.json`).
"""


APACHE = "%t %{end:usec}t %r %>s %D %{ms}T %{BALANCER_WORKER_NAME}e %{Varnish:time_firstbyte}x %{Varnish:handling}x"
HAPROXY = "%tr %TR %Tw %Tc %Tr %Td %Ta %t %Th %Ti %Tq %Tt %ST %b %s %tsc %rc %ID"
ENVOY = (
    "%START_TIME% %EMIT_TIME% %DURATION% %REQUEST_DURATION% %REQUEST_TX_DURATION% %RESPONSE_DURATION% "
    "%RESPONSE_TX_DURATION% %UPSTREAM_CONNECTION_POOL_READY_DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "
    "%COMMON_DURATION(DS_RX_BEG:US_TX_BEG:us)% %COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)% "
    "%COMMON_DURATION(DS_RX_BEG:US_CX_BEG:us)% %COMMON_DURATION(DS_RX_BEG:US_CX_END:us)% "
    "%COMMON_DURATION(US_RX_BEG:US_RX_END:us)% %UPSTREAM_REQUEST_ATTEMPT_COUNT% %RESPONSE_FLAGS% "
    "%RESPONSE_CODE_DETAILS% %RESPONSE_CODE% %UPSTREAM_HOST%"
)
OF_NGINX = """`$upstream_queue_time` (NGINX Plus, Angie PRO) is the sum over all attempts. Documents do not say whether
`$upstream_response_time` includes it: it does where both together exceed `$request_time`, and is then taken out of the
header and response times; of several attempts, the queue is then left in their times."""
OF_HAPROXY = """`%Tq`, `%Tt` and `%t` begin with the accept of a connection, or with the end of the request before: the
idle time is in them. A request begins after `%Th` and `%Ti`, or else `%TR` before the end of `%Tq`; without these it
begins when it has been read, and its upload is not in its response time. HAProxy before 1.7 writes `%Tq` and `%Tt` in
`option httplog` as well, in the places of `%TR` and `%Ta`: give the text of that format. A time with a plus sign
(`option logasap`) ends at the response headers, so the answer's transfer is unknown. The flag `Q` and `%{+Q}o` are
followed."""
OF_ENVOY = """Most of these durations begin with the request and overlap. What a log has of them divides the response
time as follows; a part that no operator ends is in the one after it.

| part | ends at | by the operators |
| --- | --- | --- |
| `upload` | the end of the request, or a later upstream request | `REQUEST_DURATION`, `DS_RX_END` |
| `retries` | the upstream request of the last attempt | `US_TX_BEG`, `REQUEST_TX_DURATION` less the pool's time |
| `proxy_queue` | a connection of the pool | `UPSTREAM_CONNECTION_POOL_READY_DURATION`, `US_TX_BEG` |
| `connect` | its handshake, where it was opened for this request | `US_CX_BEG`, `US_CX_END`, `US_HS_END` |
| header time | the first byte of the answer | `RESPONSE_DURATION`, `US_RX_BEG`, `x-envoy-upstream-service-time` |
| `transfer` | the end of the answer, or else the end | `US_RX_END` |
| `send` | the end | `DURATION`, `DS_TX_END` |

Envoy sends a request on while it reads it, so a wait for a connection during the upload is upload. Without
`REQUEST_DURATION`, the pool's time is read of requests without a body. The pool's time contains connecting where it
opens a connection. With `US_TX_BEG` alone, `proxy_queue` contains Envoy's filters too. Without a first byte sent, the
time of failed attempts is in the header time. A duration that exceeds `DURATION` is not read. `START_TIME` and
`EMIT_TIME` may have `%s` with `%f`, and formats of dates as ISO 8601 and the common log format write them;
`START_TIME_LOCAL` with a zone.

`RESPONSE_FLAGS` (short or long names) and `RESPONSE_CODE_DETAILS` decide who answered. No app was contacted: `UO`,
`UH`, `NR`, `NC`, `RL`, `RLSE`, `UAEX`, `IH`, `FI`, `LH`, `DPE`, `RFCF`, `NFCF`, `OM`, `DF`, `DO`, `UDO`. None
answered, with status 502, 503 or 504: `UT`, `UC`, `UF`, `UR`, `LR`, `UPE`, `UMSDR`, `SI`, `DT`. Status 0 with `DC`
or `DR` is 499. A request that never had a connection (an empty pool time) waited in `proxy_queue` to its end."""
COLUMNS = (
    "request_time", "proxy_queue", "retries", "connect", "header", "response", "app_service_time", "status", "upstream",
)  # fmt: skip


def page() -> str:
    """Return the whole page."""
    vantages = "\n".join(f"- **{name}**: {text}." for name, text in VANTAGES.items())
    parts = [HEAD + vantages, _formats()]
    parts += [_table("nginx, in `log_format`", {f"${name}": field.meaning for name, field in NGINX.items()})]
    parts += [OF_NGINX]
    for product, parts_of, text, more in (
        ("Apache, in `LogFormat`", apache_parts, APACHE, ""),
        ("HAProxy, in `log-format`", haproxy_parts, HAPROXY, OF_HAPROXY),
        ("Envoy, in `text_format` and `json_format`", envoy_parts, ENVOY, OF_ENVOY),
    ):
        fields = [each for word in text.split() for each in variables(parts_of(word))]
        parts.append(_table(product, {each.text: each.field.meaning or each.field.name for each in fields}))
        parts += [more] if more else []
    return "\n\n".join([*parts, AFTER.strip(), _samples()]) + "\n"


def _formats() -> str:
    head = [
        "## Formats with a name",
        "",
        "| name | format | read as | vantage | step of its instants |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *(_row(name, format_by_name(name)) for name in FORMATS)])


def _row(name: str, form: LineFormat) -> str:
    title = " ".join((f"{form.title}.", *form.notes))
    return f"| `{name}` | {title} | {_reads(form)} | {form.vantage} | {formatted(form.step, 'g')} s |"


def _reads(form: LineFormat) -> str:
    if form.lacks:
        return f"not enough: no {', '.join(form.lacks)}"
    return "; ".join(f"`{variable}` {meaning}" for variable, meaning in form.facts("").mapping)


def _table(title: str, meanings: dict[str, str]) -> str:
    rows = [f"| `{name}` | {meaning} |" for name, meaning in meanings.items() if meaning]
    return "\n".join([f"## {title}", "", "| variable | read as |", "| --- | --- |", *rows])


def _samples() -> str:
    cases: list[dict[str, Any]] = json.loads(VECTORS.read_text("utf-8"))["cases"]
    rows = [f"| [{case['name']}]({case['documented']}) | {_result(case)} |" for case in cases]
    return "\n".join(["| sample | becomes |", "| --- | --- |", *rows])


def _result(case: dict[str, Any]) -> str:
    if "reason" in case:
        return f"refused: `{case['reason']}`"
    values = {name: case["row"].get(name) for name in COLUMNS}
    return ", ".join(f"{name} {value}" for name, value in values.items() if value not in (None, 0.0))
