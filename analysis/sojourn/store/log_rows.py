"""Lines of other formats as rows of the table ``requests``: the reader's own rules, and the attempts as arrays.

DuckDB hands over whole microseconds as decimals without a fraction; moving the point makes them the exact seconds that
ClickHouse keeps, and no float is involved.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sojourn.model.redaction import network_of, redacting
from sojourn.readers.attempts import REDIRECT
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.record import DROPPED, EXPRESSIONS, LIST_KEYS, NAME_KEYS, TEXT_KEYS, WHOLE_KEYS, records_query

MICROSECONDS = pa.decimal128(18, 0)
SECONDS = pa.decimal128(18, 6)
OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"

_ATTEMPTS = EXPRESSIONS["attempts"]


def _decimal(sql: str) -> str:
    return f"TRY_CAST({sql} AS DECIMAL(18, 0))"


def _times(name: str) -> str:
    """Return the times of all attempts."""
    x = f"r.upstream_{name}_time"
    return f"""CASE WHEN lost_{name} THEN list_resize([]::DECIMAL(18, 0)[], {_ATTEMPTS})
        WHEN {_ATTEMPTS} = 1 AND n_{name} IS NOT NULL THEN [{_decimal(f"n_{name}")}]
        WHEN {_ATTEMPTS} = 0 THEN []::DECIMAL(18, 0)[]
        WHEN blank({x}) THEN list_resize([]::DECIMAL(18, 0)[], {_ATTEMPTS})
        ELSE last_ones(list_transform(parts_of({x}), lambda e: {_decimal("duration(e)")}), {_ATTEMPTS}) END"""


MACROS = (
    "CREATE OR REPLACE TEMP MACRO last_ones(list, n) AS (CASE WHEN len(list) >= n THEN list[-n:] "
    "ELSE list_concat(list_resize([list[1]][:0], n - len(list)), list) END)",
    # Statuses say which attempt is the backend's: of an internal redirect, all are known or none.
    "CREATE OR REPLACE TEMP MACRO of_attempts(list, n, x) AS (CASE WHEN redirects_in(x) AND len(list) != n "
    "THEN list_resize([list[1]][:0], n) ELSE last_ones(list, n) END)",
    "CREATE OR REPLACE TEMP MACRO status_of(e) AS (CASE WHEN regexp_full_match(e, '[0-9]{1,3}') "
    "THEN e::USMALLINT ELSE 0::USMALLINT END)",
)

# Column of the table -> SQL over the parsed record.
STORED: dict[str, str] = {
    "time": EXPRESSIONS["time"],
    "request_time": _decimal("n_request_time"),
    "request_start": EXPRESSIONS["request_start"],
    "proxy_start": EXPRESSIONS["proxy_start"],
    "status": "TRY_CAST(n_status AS USMALLINT)",
    **{key: f"coalesce({EXPRESSIONS[key]}, '')" for key in (*NAME_KEYS, *TEXT_KEYS)},
    **{key: EXPRESSIONS[key] for key in WHOLE_KEYS},
    "attempt_addr": f"""CASE WHEN {_ATTEMPTS} = 0 THEN []::VARCHAR[]
        WHEN r.upstream_addr IS NULL THEN list_resize([]::VARCHAR[], {_ATTEMPTS}, '')
        WHEN {_ATTEMPTS} = 1 THEN [r.upstream_addr] ELSE parts_of(r.upstream_addr) END""",
    "attempt_status": f"""CASE WHEN {_ATTEMPTS} = 0 THEN []::USMALLINT[]
        WHEN blank(r.upstream_status) THEN list_resize([]::USMALLINT[], {_ATTEMPTS}, 0)
        ELSE list_transform(of_attempts(parts_of(r.upstream_status), {_ATTEMPTS}, addressed),
            lambda e: status_of(coalesce(e, ''))) END""",
    "attempt_connect": _times("connect"),
    "attempt_header": _times("header"),
    "attempt_response": _times("response"),
    "redirects_after": f"""CASE WHEN {_ATTEMPTS} < 2 THEN []::USMALLINT[] ELSE list_filter(
        list_transform(separators_of(addressed), lambda e, i: CASE WHEN e = '{REDIRECT}' THEN i::USMALLINT END),
        lambda e: e IS NOT NULL) END""",
    "app_queueing_delay": _decimal(EXPRESSIONS["app_queueing_delay"]),
    "app_service_time": _decimal(EXPRESSIONS["app_service_time"]),
    "app_garbled": EXPRESSIONS["app_garbled"],
    "proxy_queue": _decimal("coalesce(n_proxy_queue, 0)"),
    DROPPED: f"coalesce({DROPPED}, '')",
    "vantage": EXPRESSIONS["vantage"],
    "time_step": EXPRESSIONS["time_step"],
}
assert not set(LIST_KEYS) & set(STORED)  # noqa: S101 - what nginx wrote as lists is stored as arrays


def rows_query(form: LineFormat | None) -> str:
    """Return the SQL from lines (``block``) of a format to rows of ``requests``, without ``source``."""
    assert form is not None, "a store parses Sojourn's own lines"  # noqa: S101
    columns = STORED
    if not form.has("request_id"):
        # Equal lines may be different requests: the number of the line distinguishes them.
        columns = {**columns, "request_id": "'line-' || printf('%016x', hash(line, number))"}
    return records_query(tuple(columns), "block", columns, form)


def request_rows(accepted: pl.DataFrame, source: str) -> pa.Table:
    """Return parsed records as Arrow for ``requests``: decimals in seconds, with their source, redacted."""
    table = accepted.drop("number").to_arrow()
    table = table.cast(pa.schema([(each.name, _short(each.type)) for each in table.schema])).combine_chunks()
    if redacting():
        table = redacted_rows(table)
    columns = [in_seconds(column.chunk(0)) if column.num_chunks else column for column in table.columns]
    table = pa.table(columns, names=table.column_names)
    return table.append_column("source", pa.repeat(pa.scalar(source, pa.string()), len(table)))


def _short(kind: pa.DataType) -> pa.DataType:
    """Return a type of Polars as the one with offsets of 32 bits that ClickHouse reads."""
    if pa.types.is_large_list(kind):
        return pa.list_(_short(kind.value_type))
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def redacted_rows(rows: pa.Table) -> pa.Table:
    """Return the rows with queries taken off ``uri`` and ``remote_addr`` cut to its network; texts without nulls."""
    paths = pc.replace_substring_regex(rows["uri"], "(?s)[?#].*", "")
    rows = rows.set_column(rows.schema.get_field_index("uri"), "uri", paths)
    # IPv4 at once, nearly all there is; the networks left are few, and are looked at one by one.
    cut = pc.replace_substring_regex(rows["remote_addr"], rf"^((?:::ffff:)?(?:{OCTET}\.){{3}}){OCTET}$", r"\10")
    encoded = pc.dictionary_encode(cut.combine_chunks())
    networks = pa.array([network_of(each) for each in encoded.dictionary.to_pylist()], pa.string())
    return rows.set_column(rows.schema.get_field_index("remote_addr"), "remote_addr", networks.take(encoded.indices))


def in_seconds(array: pa.Array) -> pa.Array:
    """Return decimals of whole microseconds, or lists of them, as decimals of seconds with the same digits."""
    if array.type == MICROSECONDS:
        return pa.Array.from_buffers(SECONDS, len(array), array.buffers(), offset=array.offset)
    if pa.types.is_list(array.type) and array.type.value_type == MICROSECONDS:
        return pa.Array.from_buffers(
            pa.list_(SECONDS), len(array), array.buffers()[:2], offset=array.offset, children=[in_seconds(array.values)]
        )
    return array
