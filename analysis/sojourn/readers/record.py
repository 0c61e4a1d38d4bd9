"""The log record (one JSON object per line) and the SQL that reads it strictly, with a reason for every refusal.

nginx writes every value as a string: a number (``is_number``), ``-``, nothing, or a list with one element per attempt
(``, ``) and internal redirect (`` : ``). A line without a valid time, status or request time is refused; any other
value in another form is dropped, and its request remains. Instants and durations become whole microseconds here, so
that their sums are exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType

from sojourn.readers.attempts import (
    ATTEMPT_MACROS,
    ATTEMPTS_OF_LINE,
    after_backend,
    at_backend,
    before_backend,
    redirects,
)
from sojourn.readers.formats import record_sql
from sojourn.readers.formats.fields import MACROS as FORMAT_MACROS
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.tables import table_sql
from sojourn.readers.tables.table_format import TableFormat

TEXT_KEYS = (
    "request_id", "trace_id", "span_id", "method", "uri", "protocol", "host", "remote_addr",
)  # fmt: skip
NAME_KEYS = ("proxy", "service", "route", "worker", "stamp", "upstream_cache_status", "limit_req_status")
WHOLE_KEYS = ("bytes_sent", "request_length", "connection", "connection_requests")
LIST_KEYS = (
    "upstream_addr", "upstream_status", "upstream_connect_time", "upstream_header_time", "upstream_response_time",
)  # fmt: skip
KEYS = (
    "time", "status", "request_time", "request_start", "proxy_start", "queueing_delay", "service_time",
    *NAME_KEYS, *LIST_KEYS, *TEXT_KEYS, *WHOLE_KEYS,
)  # fmt: skip

REASONS = {
    "empty_line": "the line is empty",
    "other_format": "the line does not have the format of its log",
    "line_too_long": "the line is longer than 1 MiB",
    "invalid_json": "not JSON",
    "incomplete_line": "the last line has no line end: it was still being written, or is truncated",
    "not_an_object": "JSON, but not an object",
    "missing_time": "no time",
    "invalid_time": "time is not unix seconds",
    "missing_request_time": "no request_time",
    "invalid_request_time": "request_time is not a number of seconds, or negative, or absurd",
    "missing_status": "no status",
    "invalid_status": "status is not a number from 0 to 999",
    "invalid_duration": "a duration of the table is not a number, or negative, or longer than its response",
    "damaged_compression": "the compressed stream is damaged here",
    "cut_while_read": "the file became shorter while it was read; the missing lines may be in a rotated copy",
}
# A line loses the value, and its request remains.
DROPPED_REASONS = {
    "invalid_request_start": "request_start or proxy_start is not unix seconds",
    "invalid_upstream_time": "an upstream time is neither a number nor -, or negative, or absurd",
    "upstream_lists_differ": "a list of upstream times has another length than the list of addresses",
}
DROPPED = "dropped"

# Of ``upstream_cache_status``: the app headers of the answer came from the cache, so they are of an earlier request.
FROM_CACHE = ("HIT", "STALE", "UPDATING", "REVALIDATED")

EARLIEST_INSTANT, LATEST_INSTANT = 1_000_000_000_000_000, 9_999_999_999_999_999  # us since 1970
ROUTE_PART = "/(?:[^/]*[0-9]{3}[^/]*|[0-9][^/]*|[0-9a-fA-F]{8}[^/]*|[^/]{25,})"

# Numbers have the format of nginx; a cast would also accept 1_000, +1, 1e3, .5 and " 1".
MACROS = (
    # A line that cannot be parsed costs 60 times what a good one does: of those that do not even begin as an object
    # there may be millions.
    "CREATE OR REPLACE TEMP MACRO object_in(line) AS (CASE WHEN starts_with(line, '{') "
    "OR starts_with(ltrim(line, ' \t'), '{') THEN line END)",
    "CREATE OR REPLACE TEMP MACRO blank(x) AS (x IS NULL OR x = '' OR x = '-')",
    r"CREATE OR REPLACE TEMP MACRO is_number(x) AS (regexp_matches(x, '^-?[0-9]+(\.[0-9]+)?$'))",
    f"CREATE OR REPLACE TEMP MACRO from_cache(x) AS (coalesce(x IN {FROM_CACHE}, false))",
    # A number of more than 64 bits fails in the outer cast and becomes NULL, like any other text.
    "CREATE OR REPLACE TEMP MACRO micros(x) AS "
    "(CASE WHEN is_number(x) THEN TRY_CAST(round(TRY_CAST(x AS DOUBLE) * 1e6) AS BIGINT) END)",
    "CREATE OR REPLACE TEMP MACRO whole(x) AS (CASE WHEN is_number(x) THEN TRY_CAST(x AS BIGINT) END)",
    r"CREATE OR REPLACE TEMP MACRO status_in(x) AS "
    r"(CASE WHEN regexp_matches(x, '^[0-9]+(\.0+)?$') THEN TRY_CAST(x AS BIGINT) END)",
    # No request took 1e9 s (31 years). Below that, sums of seconds keep their microseconds, and no date overflows.
    "CREATE OR REPLACE TEMP MACRO short(us) AS (CASE WHEN us BETWEEN -999999999999999 AND 999999999999999 THEN us END)",
    "CREATE OR REPLACE TEMP MACRO duration(x) AS (short(micros(x)))",
    # The time of an attempt is - or a number that is not negative.
    "CREATE OR REPLACE TEMP MACRO untimely(x) AS (x != '-' AND coalesce(duration(x) < 0, true))",
    f"CREATE OR REPLACE TEMP MACRO plausible(us) AS (us BETWEEN {EARLIEST_INSTANT} AND {LATEST_INSTANT})",
    "CREATE OR REPLACE TEMP MACRO is_list(x) AS (coalesce(contains(x, ', ') OR contains(x, ' : '), false))",
    "CREATE OR REPLACE TEMP MACRO parts_of(x) AS (string_split_regex(x, ', | : '))",
    "CREATE OR REPLACE TEMP MACRO last_of(x) AS (CASE WHEN is_list(x) THEN parts_of(x)[-1] ELSE x END)",
    "CREATE OR REPLACE TEMP MACRO times_garbled(x) AS (CASE WHEN is_list(x) "
    "THEN len(list_filter(parts_of(x), lambda e: untimely(e))) > 0 "
    "OR coalesce(list_sum(list_transform(parts_of(x), lambda e: duration(e))) > 999999999999999, false) "
    "ELSE NOT blank(x) AND untimely(x) END)",
    "CREATE OR REPLACE TEMP MACRO length_of(x) AS (CASE WHEN x IS NULL OR x = '' THEN 0 "
    "WHEN is_list(x) THEN len(parts_of(x)) ELSE 1 END)",
    "CREATE OR REPLACE TEMP MACRO attempts_of(a) AS (CASE WHEN blank(a) THEN 0 ELSE length_of(a) END)",
    "CREATE OR REPLACE TEMP MACRO lengths_differ(a, x) AS (NOT blank(x) AND NOT blank(a) "
    "AND length_of(x) != attempts_of(a))",
    # The path with ``:id`` for each part that looks like an identifier: low cardinality, never the raw URI. RE2 has no
    # look-ahead, so a part is judged by what it contains: three digits in a row, a digit first, eight hex digits first,
    # or more than 24 characters.
    "CREATE OR REPLACE TEMP MACRO template_of(u) AS (regexp_replace(split_part(split_part(u, '?', 1), '#', 1), "
    f"'{ROUTE_PART}', '/:id', 'g'))",
    *ATTEMPT_MACROS,
    *FORMAT_MACROS,
    *table_sql.MACROS,
)


# Numbers are parsed once, under these names; a list of attempts has no single number and is NULL here.
NUMBERS = {
    "n_time": "micros(r.time)",
    "n_request_time": "micros(r.request_time)",
    "n_status": "status_in(r.status)",
    "n_request_start": "micros(r.request_start)",
    "n_proxy_start": "micros(r.proxy_start)",
    "n_connect": "duration(r.upstream_connect_time)",
    "n_header": "duration(r.upstream_header_time)",
    "n_response": "duration(r.upstream_response_time)",
    "n_queueing_delay": "duration(r.queueing_delay)",
    "n_service_time": "duration(r.service_time)",
    "n_proxy_queue": "NULL::BIGINT",
}
TIMES = ("connect", "header", "response")
STARTS = ("request_start", "proxy_start")


def _sound() -> str:
    """Return a cheap condition for valid lines; only other lines are checked for a reason, which is slow."""
    numbers = " AND ".join(
        f"CASE WHEN n_{name} IS NULL THEN blank(r.upstream_{name}_time) ELSE n_{name} >= 0 END" for name in TIMES
    )
    starts = " AND ".join(
        f"CASE WHEN n_{name} IS NULL THEN blank(r.{name}) ELSE plausible(n_{name}) END" for name in STARTS
    )
    return (
        f"coalesce(plausible(n_time) AND n_request_time >= 0 AND plausible(TRY(n_time - n_request_time)) "
        f"AND n_status BETWEEN 100 AND 999 AND {starts} AND {numbers} "
        "AND NOT is_list(r.upstream_addr), false)"
    )


def _reason(log: LineFormat | None = None) -> str:
    form = (
        f"WHEN NOT ({_rules(log).matched(log)}) THEN 'other_format'"
        if log is not None and not log.json
        else f"""
        WHEN NOT json_valid(line) {"" if log is None else "AND f IS NULL "}THEN 'invalid_json'
        WHEN NOT starts_with(ltrim(line, ' \t'), '{{') THEN 'not_an_object'"""
    )
    unusable = table_sql.refused(log) if isinstance(log, TableFormat) else "false"
    # Without an instant of the end, it is the start and the response time.
    by_start = log is not None and log.has("start") and not log.has("end")
    times = (
        "WHEN NOT coalesce(plausible(n_time), false) THEN 'invalid_time'",
        "WHEN blank(r.request_time) THEN 'missing_request_time'",
    )
    first, second = reversed(times) if by_start else times
    return f"""CASE WHEN is_sound AND NOT ({unusable}) THEN NULL ELSE CASE
        WHEN trim(line, ' \t\r\n') = '' THEN 'empty_line'
        {form}
        WHEN blank(r.time) THEN 'missing_time'
        {first}
        {second}
        WHEN coalesce(n_request_time < 0 OR NOT plausible(TRY(n_time - n_request_time)), true)
            THEN 'invalid_request_time'
        WHEN blank(r.status) THEN 'missing_status'
        WHEN coalesce(n_status NOT BETWEEN 0 AND 999, true) THEN 'invalid_status'
        WHEN {unusable} THEN 'invalid_duration'
    END END"""


def _judgement() -> list[dict[str, str]]:
    """Return stages of name -> SQL, each over those before it: whether a line is plainly sound, and what it loses.

    A stage is a SELECT of its own: DuckDB copies the SQL of a name into every use of it in the same SELECT. Where the
    response time of the attempts is lost, the instant of the headers has no end to be compared with.
    """
    lost_starts = {
        f"lost_{name}": f"NOT is_sound AND NOT coalesce(plausible(n_{name}), blank(r.{name}))" for name in STARTS
    }
    garbled = {
        f"garbled_{name}": f"NOT is_sound AND coalesce(times_garbled(r.upstream_{name}_time), false)" for name in TIMES
    }
    differ = {
        f"differs_{name}": f"NOT is_sound AND lengths_differ(r.upstream_addr, r.upstream_{name}_time)" for name in TIMES
    }
    lost = {name: f"garbled_{name} OR differs_{name}" for name in TIMES}
    lost["header"] += f" OR {lost['response']}"
    causes = {
        "invalid_request_start": lost_starts,
        "invalid_upstream_time": garbled,
        "upstream_lists_differ": differ,
    }
    texts = ", ".join(f"CASE WHEN {' OR '.join(names)} THEN '{cause}' END" for cause, names in causes.items())
    dropped = f"CASE WHEN NOT is_sound THEN nullif(concat_ws(', ', {texts}), '') END"
    attempts = [{name: sql} for name, sql in ATTEMPTS_OF_LINE.items()]
    return [
        {"is_sound": _sound()}, lost_starts | garbled | differ | attempts[0],
        {f"lost_{name}": sql for name, sql in lost.items()} | {DROPPED: dropped}, *attempts[1:],
    ]  # fmt: skip


def _of_backend(name: str) -> str:
    number, times = f"n_{name}", f"r.upstream_{name}_time"
    return (
        f"CASE WHEN lost_{name} THEN NULL WHEN {number} IS NOT NULL THEN {number} "
        f"ELSE duration({at_backend(times)}) END"
    )


def _of_others(sql: str) -> str:
    return f"CASE WHEN n_response IS NOT NULL OR lost_response THEN 0 ELSE {sql} END"


def _start(name: str) -> str:
    return f"CASE WHEN NOT lost_{name} THEN n_{name} END"


OF_APP = "NOT from_cache(r.upstream_cache_status)"  # the app's headers are of this request
# Canonical column -> SQL. Times in whole microseconds; the reader makes seconds of them.
EXPRESSIONS: dict[str, str] = {
    "time": "make_timestamp(n_time)",
    "start": "make_timestamp(TRY(n_time - n_request_time))",
    "status": "TRY_CAST(n_status AS SMALLINT)",  # also computed for refused lines
    "request_time": "n_request_time",
    "request_start": f"make_timestamp({_start('request_start')})",
    "proxy_start": f"make_timestamp(coalesce({_start('proxy_start')}, {_start('request_start')}))",
    "upstream": f"CASE WHEN NOT blank(r.upstream_addr) THEN {at_backend('r.upstream_addr')} END",
    "attempts": "least(CASE WHEN r.upstream_addr IS NULL THEN length_of(r.upstream_response_time) "
    "ELSE attempts_of(r.upstream_addr) END, 32767)::SMALLINT",
    "retries": _of_others(before_backend("r.upstream_response_time")),
    "redirects": _of_others(redirects("r.upstream_response_time")),
    "redirected": _of_others(after_backend("r.upstream_response_time")),
    "connect": _of_backend("connect"),
    "header": _of_backend("header"),
    "response": _of_backend("response"),
    "app_queueing_delay": f"CASE WHEN {OF_APP} THEN n_queueing_delay END",
    "app_service_time": f"CASE WHEN {OF_APP} AND n_service_time >= 0 THEN n_service_time END",
    "app_garbled": f"{OF_APP} AND (coalesce(n_service_time < 0, NOT blank(r.service_time)) "
    "OR (n_queueing_delay IS NULL AND NOT blank(r.queueing_delay)))",
    "route": "CASE WHEN blank(r.route) THEN template_of(r.uri) ELSE r.route END",
    **{key: f"CASE WHEN NOT blank(r.{key}) THEN r.{key} END" for key in NAME_KEYS if key not in ("route", "worker")},
    "worker": f"CASE WHEN {OF_APP} AND NOT blank(r.worker) THEN r.worker END",
    **{key: f"r.{key}" for key in TEXT_KEYS},
    **{key: f"whole(r.{key})" for key in WHOLE_KEYS},
    **{key: f"r.{key}" for key in LIST_KEYS},
    "proxy_queue": "n_proxy_queue",
    "vantage": "NULL::VARCHAR",
    "time_step": "0.001::DOUBLE",
    DROPPED: DROPPED,
}
# Route and path apart, for readers to which a path is no route: ``route`` is null where the log names none.
PATH = "path"
ROUTE_AND_PATH = {
    "route": "CASE WHEN NOT blank(r.route) THEN r.route END",
    PATH: "CASE WHEN blank(r.route) THEN template_of(r.uri) END",
}
# The identity of a record: its request id and the keys that distinguish two records of one id, as in a store
# (collector/clickhouse/incoming/rows.sql). A lean record has no id: its proxy, connection, number of the request on the
# connection and time distinguish it. Without one of these, but with the number of its connection, the identity is the
# whole line. A line without that has no identity: two requests may be equal to the last byte.
RECORD = "record"
IDENTITY = (
    "request_id", "time", "request_time", "status", "upstream_addr", "proxy", "service", "route", "connection",
    "connection_requests",
)  # fmt: skip
INSTEAD_OF_ID = ("proxy", "connection", "connection_requests")
_IDENTIFIED = f"NOT blank(r.request_id) OR NOT ({' OR '.join(f'blank(r.{key})' for key in INSTEAD_OF_ID)})"
EXPRESSIONS[RECORD] = (
    f"CASE WHEN {_IDENTIFIED} THEN hash({', '.join(f'r.{key}' for key in IDENTITY)}) "
    "WHEN NOT blank(r.connection) THEN hash(rtrim(line, '\r\n')) END"
)
# The same as a text, which ``sojourn.readers.shape`` builds as well, for a common hash. A log contains the separator
# only as an escape.
SEPARATOR = "\x1f"
IDENTITY_TEXT = (
    f"CASE WHEN {_IDENTIFIED} THEN coalesce(r.request_id, '') || "
    + " || ".join(
        f"chr(31) || CASE WHEN r.{key} IS NULL THEN '0' ELSE '1' || r.{key} END"
        for key in IDENTITY
        if key != "request_id"
    )
    + " WHEN NOT blank(r.connection) THEN rtrim(line, '\r\n') END"
)
MICROSECONDS = (
    "request_time",
    "proxy_queue",
    "retries",
    "redirects",
    "redirected",
    "connect",
    "header",
    "response",
    "app_queueing_delay",
    "app_service_time",
)


def keys_needed(columns: Sequence[str], expressions: Mapping[str, str] = EXPRESSIONS) -> tuple[str, ...]:
    """Return the keys of a record that ``columns`` are computed from, including custom keys."""
    extra = [name for name in columns if name not in expressions]
    selected = (expressions[name] for name in columns if name in expressions)
    text = " ".join(
        (*selected, *NUMBERS.values(), *(sql for stage in _judgement() for sql in stage.values()), _reason())
    )
    return tuple(dict.fromkeys([*(key for key in KEYS if re.search(rf"\br\.{key}\b", text)), *extra]))


def _rules(log: LineFormat) -> ModuleType:
    """Return the module with the SQL from a line of this format to its record."""
    return table_sql if isinstance(log, TableFormat) else record_sql


def records_query(
    columns: tuple[str, ...],
    relation: str,
    expressions: Mapping[str, str] = EXPRESSIONS,
    log: LineFormat | None = None,
) -> str:
    """Return the SQL from ``relation(line, number)`` to ``columns`` (of ``expressions``), with reasons of refusal.

    A column that is not in ``expressions`` is a custom key, with a name that ``sojourn.model.frame.is_extra`` allows.
    ``log``: the format of the lines; None: Sojourn's own record.

    Additional columns: number, reason, raw. ``reason`` is NULL for an accepted record; otherwise the first key
    of ``REASONS`` that holds, and ``raw`` the line.
    """
    keys = keys_needed(columns, expressions)
    own = [name for name in columns if name not in expressions]
    if log is None:
        struct = "{" + ", ".join(f'"{key}": "VARCHAR"' for key in keys) + "}"
        record = f"number, TRY(json_transform(object_in(line), '{struct}')) AS r"
        numbers = NUMBERS
    else:
        rules = _rules(log)
        texts, numbers = rules.keys(log), rules.numbers(log)
        expressions = {**expressions, "vantage": f"'{log.vantage}'", "time_step": f"{log.step}::DOUBLE"}
        texts_by_key = {key: texts.get(key, record_sql.NO_TEXT) for key in keys if key not in own}
        texts_by_key |= {key: rules.own_column(log, key) for key in own}
        used = " ".join((*texts_by_key.values(), *numbers.values(), rules.with_instants("", log), rules.matched(log)))
        fields = rules.extract(log, record_sql.fields_in(log, used))
        texts_of_record = ", ".join(f'"{key}": {sql}' for key, sql in texts_by_key.items())
        record = f"* EXCLUDE (line), {{{texts_of_record}}} AS r"
        relation = f"(SELECT line, number, {fields} AS f FROM {relation})"  # noqa: S608 - names of ours
        relation = rules.with_instants(relation, log)
    expressions = {**{name: f'CASE WHEN NOT blank(r."{name}") THEN r."{name}" END' for name in own}, **expressions}
    selected = ",\n        ".join(f'{expressions[name]} AS "{name}"' for name in columns)
    stages = f"(SELECT line, {record} FROM {relation})"  # noqa: S608 - names of ours
    for stage in (numbers, *_judgement(), {"reason": _reason(log)}):
        of_stage = ", ".join(f"{sql} AS {name}" for name, sql in stage.items())
        stages = f"(SELECT *, {of_stage} FROM {stages})"  # noqa: S608 - names of ours
    return f"""
        SELECT {selected},
        number, reason,
        CASE WHEN reason IS NOT NULL THEN rtrim(line, '\r\n') END AS raw
        FROM {stages}"""  # noqa: S608 - columns are checked names, the rest is ours
