"""SQL from a line of a table to the keys and numbers of the record that ``sojourn.readers.record`` describes.

A line is first taken apart into its cells (``f``, a list); NULL in a line with another number of cells, or with a quote
inside a cell without quotes. As of other logs (``sojourn.readers.formats.record_sql``), the texts of the record (``r``)
and its numbers (``n_…``, whole microseconds) follow from these.
"""

from __future__ import annotations

from sojourn.model.frame import APP
from sojourn.readers.formats.record_sql import NO_NUMBER, NO_TEXT, NOT_ANSWERED
from sojourn.readers.tables.cells import ABSENT
from sojourn.readers.tables.roles import DURATION, ISO, RELATIVE, ROLES
from sojourn.readers.tables.table_format import TableFormat

ANCHOR = "2020-01-01T00:00:00Z"  # of instants since the beginning of a trace
ANCHOR_US = 1_577_836_800_000_000
ANSWERED = 200
_UNITS = {"s": "1e6", "ms": "1e3", "us": "1"}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


MACROS = (
    "CREATE OR REPLACE TEMP MACRO cell(x) AS (CASE WHEN lower(trim(x)) NOT IN "
    f"({', '.join(map(_quoted, ABSENT))}) THEN trim(x) END)",
    # NaN and infinity are no whole number. The cast accepts 1_000, which means what it says.
    "CREATE OR REPLACE TEMP MACRO cell_us(x, unit) AS (TRY_CAST(round(TRY_CAST(x AS DOUBLE) * unit) AS BIGINT))",
    # A double does not hold the nanoseconds since 1970.
    "CREATE OR REPLACE TEMP MACRO cell_ns_us(x) AS (CASE WHEN contains(x, '.') OR contains(x, 'e') "
    "THEN cell_us(x, 1e-3) ELSE (TRY_CAST(x AS BIGINT) + 500) // 1000 END)",
)


def with_instants(relation: str, _: TableFormat) -> str:
    """Return the relation of fields as it is."""
    return relation


def extract(table: TableFormat, _: object = ()) -> str:
    """Return SQL for the list of the cells of ``line``; NULL in a line of another form."""
    delimiter = _quoted(table.delimiter)
    bar = "[|]" if table.delimiter == "|" else table.delimiter
    one = f' *"(?:[^"]|"")*" *|[^{table.delimiter}"]*'
    whole, each = _quoted(f"(?:(?:{one}){bar})*"), _quoted(f"({one}){bar}")
    bare = """replace(substring(trim(c), 2, length(trim(c)) - 2), '""', '"')"""
    line = "rtrim(line, chr(13) || chr(10))"
    cells = f"""CASE WHEN NOT contains(line, '"') THEN string_split({line}, {delimiter})
        WHEN regexp_full_match({line} || {delimiter}, {whole}) THEN list_transform(
            regexp_extract_all({line} || {delimiter}, {each}, 1),
            lambda c: CASE WHEN starts_with(trim(c), '"') THEN {bare} ELSE c END) END"""
    return f"list_filter([{cells}], lambda c: len(c) = {len(table.names)})[1]"


def matched(_: TableFormat) -> str:
    """Return SQL for whether a line is a row of the table."""
    return "f IS NOT NULL"


def refused(table: TableFormat) -> str:
    """Return SQL for whether a duration of a row is not usable."""
    parts = [role for role, column in table.by_role.items() if column.kind == DURATION and role != "response"]
    cells = [f"({_text(table, role)} IS NOT NULL AND coalesce({_of(table, role)} < 0, true))" for role in parts]
    derived = [f"coalesce(n_{name} < 0, false)" for name in ("header", "response", "service_time")]
    return " OR ".join((*cells, *derived))


def numbers(table: TableFormat) -> dict[str, str]:
    """Return ``n_…`` -> SQL over the cells and the numbers before it."""
    wait, service = _of(table, "wait"), _of(table, "service")
    lasted = "n_request_time - coalesce(n_proxy_queue, 0)"
    response = lasted
    if table.vantage == APP:
        service = NO_NUMBER
    elif {"wait", "service"} <= table.by_role.keys():  # the backend had it for these two, and for nothing else
        response = f"coalesce(coalesce(n_connect, 0) + {wait} + {service}, {lasted})"
    elif "wait" in table.by_role:
        service = f"{lasted} - coalesce(n_connect, 0) - {wait}"
    # Without a duration, the reason of refusal is the duration.
    end = (
        f"TRY({_of(table, 'arrival')} + coalesce(n_request_time, 0))"
        if "end" not in table.by_role
        else _of(table, "end")
    )
    return {
        "n_proxy_queue": _of(table, "proxy_queue"),
        "n_connect": _of(table, "connect"),
        "n_request_time": _request_time(table),
        "n_time": end,
        "n_status": "status_in(r.status)",
        **{f"n_{name}": NO_NUMBER for name in ("request_start", "proxy_start", "queueing_delay")},
        "n_service_time": service,
        "n_response": response,
        "n_header": f"CASE WHEN n_status NOT IN ({', '.join(map(str, NOT_ANSWERED))}) THEN n_response END",
    }


def keys(table: TableFormat) -> dict[str, str]:
    """Return key of the record -> SQL over the cells, as text."""
    texts = {
        ROLES[role].field: _text(table, role)
        for role in ("route", "method", "id", "worker", "host", "status", "backend")
    }
    if "status" not in table.by_role:
        texts["status"] = f"'{ANSWERED}'"
    # In the lists of nginx, commas and colons are between attempts.
    texts["upstream_addr"] = f"replace(replace({texts['upstream_addr']}, ', ', ','), ' : ', ':')"
    lasted = next(role for role in ("response", "service", "arrival") if role in table.by_role)
    return {
        **texts,
        "time": _text(table, "end" if "end" in table.by_role else "arrival"),
        "request_time": _text(table, lasted),
        "upstream_response_time": "'-'",  # one attempt
    }


def own_column(table: TableFormat, key: str) -> str:
    """Return SQL for any column of the table; NULL if there is no such column."""
    return f"cell(f[{table.place(key)}])" if key in table.names else NO_TEXT


def _request_time(table: TableFormat) -> str:
    """Return SQL for the response time."""
    if "response" in table.by_role:
        return _of(table, "response")
    if table.spans:
        return f"TRY({_of(table, 'end')} - {_of(table, 'arrival')})"
    before = [_of(table, "wait")] if "wait" in table.by_role else []
    return " + ".join(("coalesce(n_proxy_queue, 0)", "coalesce(n_connect, 0)", *before, _of(table, "service")))


def _text(table: TableFormat, role: str) -> str:
    """Return SQL for the cell of a role; NULL where it has no value, or no column has the role."""
    return own_column(table, table.by_role[role].name) if role in table.by_role else NO_TEXT


def _of(table: TableFormat, role: str) -> str:
    """Return SQL for an instant or a duration in whole microseconds; NULL where no column has the role."""
    if role not in table.by_role:
        return NO_NUMBER
    column = table.by_role[role]
    cell, unit = f"f[{table.place(column.name)}]", RELATIVE.get(column.unit, column.unit)
    if unit == ISO:
        return f"iso_us({cell})"
    number = f"cell_ns_us({cell})" if unit == "ns" else f"cell_us({cell}, {_UNITS[unit]})"
    if column.kind == DURATION:
        return f"short({number})"
    return f"({ANCHOR_US} + {number})" if column.unit in RELATIVE else number
