"""The quantities a log format can contain, and the SQL that reads each into whole microseconds or text.

A format maps its variables onto these fields; ``sojourn.readers.formats.record_sql`` computes the record from them.
"""

from __future__ import annotations

from dataclasses import dataclass

# Field -> meaning. Durations of the proxy are parts of one request, in the order in which they pass.
FIELDS = {
    "end": "instant at which the request ended",
    "start": "instant at which the request began",
    "request_time": "response time",
    "upload": "upload",
    "proxy_queue": "proxy_queue",
    "connect": "connect",
    "first_byte": "from the connection to the response headers",
    "header": "connect to the response headers",
    "transfer": "transfer",
    "response": "connect to the end of the response",
    "exchange": "from the connection to the end of the response",
    "send": "send",
    "queueing_delay": "queueing delay, as the app measured it",
    "service_time": "service time, as the app measured it",
    "llm_queue": "time in the queue of an inference server",
    "llm_inference": "inference, as the server measured it",
    "llm_total": "the whole request in an inference server",
    "request_start": "the stamp that the app was sent",
    "proxy_start": "instant at which the upstream request was built",
    "status": "status",
    "request": "method, URI and protocol",
    "upstream_addr": "backend",
    "upstream_status": "status of the backend",
    "backend_name": "name of the backend's pool",
    "server_name": "name of the backend",
    "termination": "state of the session at its end",
    "handling": "whether the cache answered",
    "hitmiss": "whether the cache answered",
    "retries": "number of retries",
    # Of HAProxy, from the accept of the connection: the idle time before a request is in them.
    "accept": "instant at which the connection was accepted",
    "handshake": "handshake",
    "idle": "idle time before the request",
    "until_read": "from the accept to the end of the request, idle time included",
    "session_time": "from the accept to the end of the answer, idle time included",
    # Of Envoy, whose durations overlap: most begin with the request.
    "emitted": "instant at which the line was written",
    "until_sent": "from the start to the last byte of the request sent to the backend",
    "until_header": "from the start to the response headers",
    "after_header": "from the response headers to the last byte of the answer",
    "pool_ready": "proxy_queue, and connect where the pool opens a connection",
    "attempt_count": "number of attempts",
    "response_flags": "whether an app answered",
    "response_code_details": "whether an app answered",
}
# Instant of a request in Envoy (COMMON_DURATION) -> what it is. In the order in which they mostly pass.
POINTS = {
    "ds_rx_beg": "the start",
    "ds_rx_end": "the end of the request",
    "us_cx_beg": "the beginning of the connection to the backend",
    "us_cx_end": "the connection to the backend",
    "us_hs_end": "the end of its TLS handshake",
    "us_tx_beg": "the first byte sent to the backend",
    "us_tx_end": "the last byte sent to the backend",
    "us_rx_beg": "the response headers",
    "us_rx_body_beg": "the first byte of the answer's body",
    "us_rx_end": "the end of the answer",
    "ds_tx_beg": "the first byte sent to the client",
    "ds_tx_end": "the last byte sent to the client",
}
UNTIL_HEADER = (
    "until_header",
    *(f"{point}_to_us_rx_beg" for point in ("ds_rx_beg", "ds_rx_end", "us_tx_beg", "us_tx_end")),
)
# Fields of the record that are texts, with their own names.
TEXTS = (
    "method", "uri", "query", "protocol", "host", "remote_addr", "request_id", "trace_id", "span_id", "service",
    "route", "worker", "proxy", "stamp", "upstream_cache_status", "limit_req_status", "bytes_sent", "body_bytes_sent",
    "request_length", "connection", "connection_requests",
)  # fmt: skip
INSTANTS = ("end", "start", "emitted", "accept", "request_start", "proxy_start")
DURATIONS = (
    "request_time", "upload", "proxy_queue", "connect", "first_byte", "header", "transfer", "response", "exchange",
    "send", "queueing_delay", "service_time", "until_sent", "until_header", "after_header", "pool_ready",
    "handshake", "idle", "until_read", "session_time",
)  # fmt: skip

# Unit of a duration -> microseconds in it.
UNITS: dict[str, float] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}
UNIT_WORDS = {
    "milliseconds": "ms", "millisecond": "ms", "milli": "ms", "millis": "ms", "mili": "ms", "msec": "ms", "msecs": "ms",
    "ms": "ms",
    "microseconds": "us", "microsecond": "us", "microsec": "us", "micro": "us", "micros": "us", "usec": "us",
    "usecs": "us", "µs": "us", "us": "us",
    "nanoseconds": "ns", "nanosecond": "ns", "nano": "ns", "nanos": "ns", "nsec": "ns", "nsecs": "ns", "ns": "ns",
    "seconds": "s", "second": "s", "secs": "s", "sec": "s", "s": "s",
}  # fmt: skip
CLF = r"\d\d/\w{3}/\d{4}:[\d:]{8} [+-]\d{4}"  # a pattern of the instant of a common log
# Format of an instant -> SQL for microseconds since 1970, and the step in which it counts, s.
CLOCKS = {
    "clf": ("clf_us({})", 1.0),
    "clf_ms": ("clf_ms_us({})", 0.001),
    "ctime": ("ctime_us({})", 1.0),
    "gin": ("gin_us({})", 1.0),
    "ruby": ("ruby_us({})", 1.0),
    "iso": ("iso_us({})", 1.0),
    "iso_ms": ("iso_us({})", 0.001),
    "iso_us": ("iso_us({})", 1e-6),
    "s": ("micros({})", 0.001),
    "ms": ("scaled({}, 1000)", 0.001),
    "us": ("scaled({}, 1)", 1e-6),
    "ns": ("scaled({}, 0.001)", 1e-6),
    "whole_s": ("micros({})", 1.0),
    "stamp": ("stamp_us({})", 0.001),
}
MACROS = (
    # A unit behind the number (Go writes 1.2s, 350µs) counts in place of the format's.
    "CREATE OR REPLACE TEMP MACRO unit_behind(x, unit) AS (CASE WHEN ends_with(x, 'ms') THEN 1000 "
    "WHEN ends_with(x, 'us') OR ends_with(x, 'µs') THEN 1 WHEN ends_with(x, 'ns') THEN 0.001 "
    "WHEN ends_with(x, 's') THEN 1000000 ELSE unit END)",
    "CREATE OR REPLACE TEMP MACRO scaled(x, unit) AS (CASE WHEN is_number(x) "
    "THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE) * unit) AS BIGINT) "
    r"WHEN regexp_matches(x, '^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(ms|us|µs|ns|s)?$') "
    "THEN TRY_CAST(round(TRY_CAST(rtrim(x, 'mµuns') AS DOUBLE) * unit_behind(x, unit)) AS BIGINT) END)",
    "CREATE OR REPLACE TEMP MACRO clf_us(x) AS (epoch_us(try_strptime(trim(x, '[]'), '%d/%b/%Y:%H:%M:%S %z')))",
    "CREATE OR REPLACE TEMP MACRO clf_ms_us(x) AS (epoch_us(try_strptime(x, '%d/%b/%Y:%H:%M:%S.%g')))",
    "CREATE OR REPLACE TEMP MACRO ctime_us(x) AS (epoch_us(try_strptime(x, '%a %b %d %H:%M:%S %Y')))",
    "CREATE OR REPLACE TEMP MACRO gin_us(x) AS (epoch_us(try_strptime(x, '%Y/%m/%d - %H:%M:%S')))",
    "CREATE OR REPLACE TEMP MACRO ruby_us(x) AS (epoch_us(try_strptime(x, '%d/%b/%Y %H:%M:%S')))",
    # Without a zone it is UTC. W3C's date and time are columns of their own.
    "CREATE OR REPLACE TEMP MACRO iso_us(x) AS (epoch_us(TRY_CAST("
    r"replace(replace(x, ',', '.'), chr(9), ' ') || "
    r"CASE WHEN regexp_matches(x, '(?:Z|[+-]\d\d:?\d\d)$') THEN '' ELSE 'Z' END "
    "AS TIMESTAMPTZ)))",
    # nginx writes quotes, backslashes and what is not printable ASCII as \xXX, which is DuckDB's text of bytes.
    r"CREATE OR REPLACE TEMP MACRO unescaped(x) AS (CASE WHEN contains(x, '\x') "
    "THEN coalesce(TRY(decode(TRY_CAST(x AS BLOB))), x) ELSE x END)",
    r"CREATE OR REPLACE TEMP MACRO unescaped_json(x) AS (CASE WHEN contains(x, '\') "
    """THEN coalesce(json_extract_string('"' || x || '"', '$'), x) ELSE x END)""",
    # A list of attempts, with its separators.
    "CREATE OR REPLACE TEMP MACRO list_in_seconds(x, factor) AS (array_to_string(list_transform("
    "regexp_extract_all(x, ', | : |[^, ]+'), "
    "lambda e: CASE WHEN is_number(e) THEN printf('%.9f', TRY_CAST(e AS DOUBLE) * factor) ELSE e END), ''))",
    # X-Request-Start, its unit by its digits as the middleware reads it; a client may have sent any other text.
    "CREATE OR REPLACE TEMP MACRO stamp_digits(x) AS (nullif(replace(regexp_extract(x, "
    r"'^[ \t]*(?:t=)?([1-9](?:\d{9}(?:\.\d{1,9})?|\d{12}(?:\.\d{1,6})?|\d{15}|\d{18}))[ \t]*$', 1), '.', ''), ''))",
    "CREATE OR REPLACE TEMP MACRO stamp_us(x) AS (TRY_CAST(rpad(left(stamp_digits(x), 16), 16, '0') AS BIGINT))",
    # Proxies write -1 for what did not take place.
    "CREATE OR REPLACE TEMP MACRO took(x, unit) AS (CASE WHEN NOT starts_with(x, '-') "
    "THEN short(scaled(ltrim(x, '+'), unit)) END)",
    # Of a list of attempts, all of them.
    "CREATE OR REPLACE TEMP MACRO total_of(x) AS (short(coalesce(CASE WHEN is_list(x) THEN "
    "TRY_CAST(list_sum(list_transform(parts_of(x), lambda e: duration(e))) AS BIGINT) ELSE duration(x) END, 0)))",
    "CREATE OR REPLACE TEMP MACRO less(x, y) AS (CASE WHEN x IS NOT NULL THEN greatest(x - y, 0) END)",
    # Durations are cut to milliseconds: one that exceeds the whole by more contradicts it, and is not read.
    "CREATE OR REPLACE TEMP MACRO within(x, whole) AS "
    "(CASE WHEN x BETWEEN 0 AND whole + 1000 THEN least(x, whole) END)",
    "CREATE OR REPLACE TEMP MACRO seconds_of(us) AS (coalesce(printf('%.6f', us / 1e6), '-'))",
    "CREATE OR REPLACE TEMP MACRO attempts_list(n, first, last) AS "
    "(CASE WHEN n > 1 THEN first || repeat(', -', n - 2) || ', ' || last END)",
)


def field_sql(name: str) -> str:
    """Return SQL for a field, as text."""
    return f'f."{name}"'


def span(begin: str, end: str) -> str:
    """Return the name of the field that holds the time between two ``POINTS``."""
    return f"{begin}_to_{end}"


def span_points(name: str) -> tuple[str, str] | None:
    """Return the two ``POINTS`` between which a field holds the time; None if it is another field."""
    begin, _, end = name.partition("_to_")
    return (begin, end) if begin in POINTS and end in POINTS else None


@dataclass(frozen=True)
class Field:
    """What a variable of a format holds.

    Attributes:
        name: of ``FIELDS`` or ``TEXTS``; any other name is a column of the user's own, as text.
        unit: of a duration (``UNITS``), or format of an instant (``CLOCKS``).
        pattern: regular expression (RE2) of its value; empty: up to the next character of the format.
        optional: the format may leave it out, with the blank before it.
        quoted: it stands in quotes or not.
    """

    name: str
    unit: str = ""
    pattern: str = ""
    optional: bool = False
    quoted: bool = False

    @property
    def step(self) -> float:
        """The step in which an instant counts, or the unit of a duration, s."""
        return CLOCKS[self.unit][1] if self.name in INSTANTS else UNITS[self.unit] / 1e6 if self.unit else 0.0

    @property
    def meaning(self) -> str:
        """The component or quantity it is read as, with its unit; empty for a text."""
        text = FIELDS.get(self.name, "")
        if points := span_points(self.name):
            text = f"from {POINTS[points[0]]} to {POINTS[points[1]]}"
        if not text:
            return ""
        return text + (f" ({UNIT_NAMES[self.unit]})" if self.unit in UNIT_NAMES else "")


UNIT_NAMES = {
    "s": "s", "ms": "ms", "us": "µs", "ns": "ns",
    "clf": "to the second", "clf_ms": "to the millisecond", "ctime": "to the second", "gin": "to the second",
    "ruby": "to the second",
    "iso": "to the second", "iso_ms": "to the millisecond", "iso_us": "to the microsecond", "whole_s": "to the second",
    "stamp": "in the unit of its size",
}  # fmt: skip
