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
}
# Fields of the record that are texts, with their own names.
TEXTS = (
    "method", "uri", "query", "protocol", "host", "remote_addr", "request_id", "trace_id", "span_id", "service",
    "route", "worker", "proxy", "stamp", "upstream_cache_status", "limit_req_status", "bytes_sent", "body_bytes_sent",
    "request_length", "connection", "connection_requests",
)  # fmt: skip
INSTANTS = ("end", "start", "request_start", "proxy_start")
DURATIONS = (
    "request_time", "upload", "proxy_queue", "connect", "first_byte", "header", "transfer", "response", "exchange",
    "send",
    "queueing_delay", "service_time",
)  # fmt: skip

# Unit of a duration -> microseconds in it.
UNITS: dict[str, float] = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}
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
    # Proxies write -1 for what did not take place.
    "CREATE OR REPLACE TEMP MACRO took(x, unit) AS (CASE WHEN NOT starts_with(x, '-') "
    "THEN short(scaled(ltrim(x, '+'), unit)) END)",
)


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
        if self.name not in FIELDS:
            return ""
        return FIELDS[self.name] + (f" ({UNIT_NAMES[self.unit]})" if self.unit in UNIT_NAMES else "")


UNIT_NAMES = {
    "s": "s", "ms": "ms", "us": "µs", "ns": "ns",
    "clf": "to the second", "clf_ms": "to the millisecond", "ctime": "to the second", "gin": "to the second",
    "ruby": "to the second",
    "iso": "to the second", "iso_ms": "to the millisecond", "iso_us": "to the microsecond", "whole_s": "to the second",
}  # fmt: skip
