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

Lines may stand behind a header: of syslog (RFC 3164 and RFC 5424), `docker compose logs`, `kubectl logs
--timestamps` or `--prefix`, or a container runtime. It is not read.

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
*assumed*, with a note.

A whole number at the end is Apache's `%D` (µs), `%{ms}T` or `%T` (s), whose unit follows from its size and from
the order of the lines, in which requests end: *likely* `%D` with a median of 10,000 and more, *assumed*
otherwise. A number that exceeds the size of the response by the size of headers is Apache's `%O`, no duration.
Six digits behind the point are seconds, as gunicorn's `%(L)s` (*assumed*). In JSON, a response time in whole
numbers is taken as milliseconds (*assumed*).

Without `$msec` a line says in which second its request ended and no more ([why that
matters](../how-to/without-touching-anything.md)).

## Samples

Each is a line of the product's documentation or of a real run of it; the tests read them
(`tests/vectors/log_formats.json`).
"""


APACHE = "%t %{end:usec}t %r %>s %D %{ms}T %{BALANCER_WORKER_NAME}e %{Varnish:time_firstbyte}x %{Varnish:handling}x"
HAPROXY = "%tr %TR %Tw %Tc %Tr %Td %Ta %ST %b %s %tsc %ID"
ENVOY = (
    "%START_TIME% %DURATION% %REQUEST_DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% %RESPONSE_CODE% %UPSTREAM_HOST%"
)
COLUMNS = (
    "request_time", "proxy_queue", "retries", "connect", "header", "response", "app_service_time", "status", "upstream",
)  # fmt: skip


def page() -> str:
    """Return the whole page."""
    vantages = "\n".join(f"- **{name}**: {text}." for name, text in VANTAGES.items())
    parts = [HEAD + vantages, _formats()]
    parts += [_table("nginx, in `log_format`", {f"${name}": field.meaning for name, field in NGINX.items()})]
    for product, parts_of, text in (
        ("Apache, in `LogFormat`", apache_parts, APACHE),
        ("HAProxy, in `log-format`", haproxy_parts, HAPROXY),
        ("Envoy, in `text_format` and `json_format`", envoy_parts, ENVOY),
    ):
        fields = [each for word in text.split() for each in variables(parts_of(word))]
        parts.append(_table(product, {each.text: each.field.meaning or each.field.name for each in fields}))
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
