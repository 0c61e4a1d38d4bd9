"""``docs/reference/columns.md``: every column of the canonical frame and of the split, with type, unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import polars as pl
from sojourn.analyses.split.run import split_from
from sojourn.components.expressions import SPAN_FACTS
from sojourn.model.components import COMPONENTS
from sojourn.model.frame import SCHEMA

from sojourn_docs import NOTE

HEAD = f"""# Columns

{NOTE}

One row is one request as nginx logged it. Instants are UTC with microseconds, durations are seconds; a value that is
not known is null, never 0. The same names hold in Python (`sojourn.read(…).rows`, `sojourn.split(…).rows`), in the
Parquet file of `sojourn split --parquet` and, where the store has them, in [its tables](sql.md). How each is written
by nginx: [the log record](record.md); how they add up: [what exactly is
measured](../explanation/what-is-measured.md).
"""

READ: dict[str, tuple[str, str]] = {
    "time": ("utc", "end of the request, when the record was written"),
    "start": ("utc", "`time` - `request_time`: when nginx began to read the request"),
    "status": ("", "what the client was answered"),
    "request_time": ("s", "response time as nginx saw it"),
    "request_start": ("utc", "the stamp the app was sent"),
    "proxy_start": ("utc", "nginx's own clock when it built the upstream request"),
    "proxy_queue": ("s", "in the proxy's own queue, for a place at the backend (HAProxy); null: it has none"),
    "upstream": ("", "address of the backend: of the last attempt, or of the answer that led to an internal redirect"),
    "attempts": ("", "upstream attempts, internal redirects included; 0: never proxied"),
    "retries": ("s", "all attempts before the backend's"),
    "redirects": ("s", "those of them whose answer an internal redirect replaced: they did not fail"),
    "redirected": ("s", "attempts after the backend's: where its internal redirect led to"),
    "connect": ("s", "the backend's attempt, until it was connected; null: no connection"),
    "header": ("s", "the backend's attempt, until the response headers; null: no answer"),
    "response": ("s", "the backend's attempt, until the end of the answer"),
    "app_queueing_delay": ("s", "as the app measured it: its clock less the stamp, signed"),
    "app_service_time": ("s", "as the app measured it, start to response headers"),
    "app_garbled": ("", "the app answered something that is no duration"),
    "route": ("", "as configured or answered; else a template of the path"),
    "service": ("", "as configured; else the server's name"),
    "proxy": ("", "which nginx"),
    "worker": ("", "process, or process.thread, that served it"),
    "stamp": ("", "`own`, `inbound` or `refused:<reason>`"),
    "upstream_cache_status": ("", "what nginx's cache did: `HIT`, `MISS`, `EXPIRED` and others"),
    "limit_req_status": ("", "what `limit_req` did: `PASSED`, `DELAYED`, `REJECTED` and others"),
    "vantage": (
        "",
        "what the times are seen from: `proxy`, `whole` (whole requests only) or `app` (the app server); null: `proxy`",
    ),
    "time_step": ("s", "the step in which `time` counts: 0.001 for `$msec`, 1 for `$time_local`"),
    "dropped": ("", "reasons for which values of the line are not used, joined by commas; null: all are used"),
    "bytes_sent": ("bytes", "to the client, headers included"),
    "request_length": ("bytes", "from the client, headers included"),
    "request_id": ("", "joins log, spans and packets"),
    "trace_id": ("", "joins spans"),
    "span_id": ("", "what nginx sent as parent of the app's span; unique only together with `trace_id`"),
    "method": ("", ""),
    "uri": ("", "without the query, unless the log keeps it"),
    "protocol": ("", ""),
    "host": ("", ""),
    "remote_addr": ("", "network of the client; its address, where the log keeps it"),
    "connection": ("", "number of the client's connection"),
    "connection_requests": ("", "which request on it, from 1"),
    "upstream_addr": ("", "the list as nginx wrote it"),
    "upstream_status": ("", "the list as nginx wrote it"),
    "upstream_connect_time": ("", "the list as nginx wrote it, s"),
    "upstream_header_time": ("", "the list as nginx wrote it, s"),
    "upstream_response_time": ("", "the list as nginx wrote it, s"),
}
OF_SPANS: dict[str, tuple[str, str]] = {
    "span_start": ("utc", "start of the work in the app's span, by the app's clock"),
    "span_seconds": ("s", "how long it lasted: how long a worker was held"),
    "span_service_time": ("s", "what it says of the time to the response headers"),
    "span_queueing_delay": ("s", "what it says of the delay since the stamp, signed"),
    "span_waited": ("s", "time in the server's own queue, before `span_start`"),
    "span_route": ("", "its route, for requests whose app could not answer one"),
}
OF_THE_SPLIT: dict[str, tuple[str, str]] = {
    "proxied": ("", "the request was sent to an upstream"),
    "answered": ("", "the upstream answered"),
    "app_start": ("s", "the app's start less `proxy_start`, clocks not corrected"),
    "half_tick": (
        "s",
        "by which `proxy_start` is too early on average: 0.0005 in whole milliseconds, 0 where it is finer",
    ),
    "app_service": ("s", "service time by header, else by span"),
    "queue_source": ("", "where the queue comes from: `stamp`, `span`, `duration`, `inferred`, `none`"),
    "wasted": ("s", "a worker was held for a client already gone; from its span"),
    "clock_offset": ("s", "the app's clock less nginx's, as subtracted from the delay; 0 where it is not significant"),
    "clock_tolerance": ("s", "how far the offset may be below `clock_offset`: a queue below 0 by less is not negative"),
    "log_requests": ("", "number of requests of the log, the same in every row: a frame with fewer rows was filtered"),
    "queueing_delay": ("s", "`proxy_queue` + `connect` + `queue`"),
    "queue_by_duration": ("s", "`header` - `connect` - `app_service`: the same wait without any clock"),
    "inferred_workers": ("", "number of workers with which the queue was inferred; null where it is not"),
    "late_stamp": ("", "the logged stamp lies after the begin of the upstream request: `proxy_start` is null"),
    "impossible": ("", "the app's own delay is longer than the response: `queue` is `queue_by_duration`, or null"),
}


def page() -> str:
    """Return the whole page.

    Raises:
        ValueError: a column is described that is not there, or there without a description.
    """
    schema = _split_schema()
    added = {name: schema[name] for name in schema if name not in SCHEMA and name not in SPAN_FACTS}
    added |= {name: schema[name] for name in COMPONENTS}
    described = OF_THE_SPLIT | {name: ("s", text) for name, text in COMPONENTS.items()}
    parts = [HEAD, "## The canonical frame", "", *_table(SCHEMA, READ), ""]
    parts += ["Any other key that the log holds (a tenant, say) can be read, too: as text, under its own name.", ""]
    parts += ["## Joined from spans", "", *_table(SPAN_FACTS, OF_SPANS), ""]
    parts += ["## Added by the split", ""]
    parts += ["`connect` and `retries` are those above, null and 0 where nothing was proxied.", ""]
    return "\n".join([*parts, *_table(added, described), ""])


def _split_schema() -> Mapping[str, pl.DataType]:
    """Return the types of a frame after the split."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return split_from(pl.DataFrame({"time": [now], "status": [200], "request_time": [0.1]})).rows.collect_schema()


def _table(schema: Mapping[str, pl.DataType], described: Mapping[str, tuple[str, str]]) -> list[str]:
    if set(schema) != set(described):
        raise ValueError(f"columns and descriptions differ: {sorted(set(schema) ^ set(described))}")
    order = schema if list(schema) == list(described) else described
    rows = [
        f"| `{name}` | {_type(schema[name])} | {_unit(described[name][0])} | {described[name][1]} |" for name in order
    ]
    return ["| column | type | unit | |", "| --- | --- | --- | --- |", *rows]


def _unit(unit: str) -> str:
    return "UTC" if unit == "utc" else unit


def _type(dtype: pl.DataType) -> str:
    return "Datetime(us)" if isinstance(dtype, pl.Datetime) else str(dtype)
