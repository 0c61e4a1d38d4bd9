"""SQL from a line of a log format to the keys and numbers of the record that ``sojourn.readers.record`` describes.

A line is first taken apart into fields (``f``): by a regular expression, or by the paths of a JSON object. From the
fields follow the texts of the record (``r``) and its numbers (``n_…``, whole microseconds); every rule after that, the
reasons of refusal among them, is the one that Sojourn's own records obey.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.model.components import CLIENT_GONE, PROXY_STATUSES
from sojourn.model.frame import APP, PROXY, WHOLE
from sojourn.readers.formats.fields import CLOCKS, TEXTS, UNITS
from sojourn.readers.formats.line_format import UPSTREAM, LineFormat
from sojourn.readers.formats.template import HEADER, captured_names, pattern_of

# With one of these the answer did not come from the backend, or the client had gone before it did.
NOT_ANSWERED = (0, *PROXY_STATUSES)
NO_SERVER = "<NOSRV>"  # HAProxy: no server was reached
NO_TEXT, NO_NUMBER = "NULL::VARCHAR", "NULL::BIGINT"
_LISTS = ("connect", "header", "response")


def field_sql(name: str) -> str:
    """Return SQL for a field, as text."""
    return f'f."{name}"'


def fields_in(log: LineFormat, sql: str) -> list[str]:
    """Return the fields of a format that occur in SQL."""
    return [name for name in log.by_field if field_sql(name) in sql]


def bare_line(log: LineFormat) -> str:
    """Return SQL for ``line``, of a JSON object without the header of a shipper of logs."""
    return f"regexp_replace(line, '^{HEADER}', '')" if log.json and log.header else "line"


def extract(log: LineFormat, fields: Sequence[str]) -> str:
    """Return SQL for the struct of some ``fields`` of ``line``; empty or NULL in a line of another form."""
    if not log.json:
        names = ", ".join(f"'{name}'" for name in captured_names(log.parts, fields))
        pattern = pattern_of(log.parts, fields, before=log.before).replace("'", "''")
        # Without its end: a value may be all up to there.
        return f"regexp_extract(rtrim(line, chr(13) || chr(10)), '(?s){pattern}', [{names}])"
    paths = {each.field.name: each.text for each in log.variables if each.field.name in set(fields)}
    # An empty array holds as little as null.
    texts = {name: f"nullif(json_extract_string(line, '{_path(path)}'), '[]')" for name, path in paths.items()}
    values = ", ".join(f'"{name}": {sql}' for name, sql in texts.items())
    return f"CASE WHEN json_valid(object_in(line)) THEN {{{values}}} END"


def matched(log: LineFormat) -> str:
    """Return SQL for whether a line has the format."""
    if log.json:
        return "f IS NOT NULL"
    # Never empty in a line that has the format.
    certain = log.first("status", "end", "start") or next(iter(log.by_field))
    return f"coalesce({field_sql(certain)} != '', false)"


def numbers(log: LineFormat) -> dict[str, str]:
    """Return ``n_…`` -> SQL over the fields and the numbers before it."""
    values = {
        "n_request_time": _request_time(log),
        "n_time": _time(log),
        "n_status": _status(log),
        "n_request_start": _instant(log, "request_start"),
        "n_proxy_queue": _proxy_queue(log),
        "n_proxy_start": _instant(log, "proxy_start"),
        "n_queueing_delay": _signed(log, "queueing_delay") if log.vantage != APP else NO_NUMBER,
        "n_service_time": _signed(log, "service_time"),
    }
    if log.has("upload") and not log.has("proxy_start"):
        values["n_proxy_start"] = f"TRY(n_time - n_request_time + {_took(log, 'upload')})"
    return values | _upstream_numbers(log)


def keys(log: LineFormat) -> dict[str, str]:
    """Return key of the record -> SQL over the fields, as text."""
    values = {name: field_sql(name) for name in TEXTS if log.has(name)}
    if log.has("request"):
        for number, name in enumerate(("method", "uri", "protocol"), 1):
            values.setdefault(name, f"split_part({field_sql('request')}, ' ', {number})")
    if log.url and "uri" in values:
        values["uri"] = rf"regexp_replace({values['uri']}, '^\w+://[^/]*', '')"
    if "query" in values:
        path, query = values.get("uri", "''"), values.pop("query")
        values["uri"] = f"{path} || {query}"
    if "body_bytes_sent" in values:
        values.setdefault("bytes_sent", values.pop("body_bytes_sent"))
        values.pop("body_bytes_sent", None)
    values["time"] = _first(log, "end", "start")
    timed = ("request_time", "service_time", *(("start",) if log.has("start", "end") else ()), "first_byte")
    values["request_time"] = _first(log, *timed)
    values["status"] = _first(log, "status")
    for name in ("queueing_delay", "service_time", "request_start", "proxy_start"):
        values[name] = _first(log, name) if log.vantage != APP else NO_TEXT
    return values | _upstream_keys(log)


def own_column(log: LineFormat, key: str) -> str:
    """Return SQL for a column of the user's own; NULL if it is blank or the format does not have it."""
    return f"CASE WHEN NOT blank({field_sql(key)}) THEN {field_sql(key)} END" if log.has(key) else NO_TEXT


def _first(log: LineFormat, *names: str) -> str:
    """Return SQL for the first of these fields that a format has, as text; NULL without any."""
    name = log.first(*names)
    return NO_TEXT if name is None else field_sql(name)


def _instant(log: LineFormat, name: str) -> str:
    return CLOCKS[log.by_field[name].unit][0].format(field_sql(name)) if log.has(name) else NO_NUMBER


def _took(log: LineFormat, name: str) -> str:
    """Return SQL for a duration; NULL where it did not take place, which proxies write as -1 or -."""
    return f"took({field_sql(name)}, {UNITS[log.by_field[name].unit]})" if log.has(name) else NO_NUMBER


def _signed(log: LineFormat, name: str) -> str:
    return f"short(scaled({field_sql(name)}, {UNITS[log.by_field[name].unit]}))" if log.has(name) else NO_NUMBER


def _request_time(log: LineFormat) -> str:
    if name := log.first("request_time"):
        return f"scaled(ltrim({field_sql(name)}, '+'), {UNITS[log.by_field[name].unit]})"
    if log.vantage == APP:
        return _signed(log, "service_time")
    lasted = f"TRY({_instant(log, 'end')} - {_instant(log, 'start')})"
    if log.has("upload", "header", "send"):
        whole = " + ".join(_took(log, name) for name in ("upload", "header", "send"))
        return f"coalesce({whole}, {lasted})"
    if log.has("start", "end"):
        return lasted
    if log.has("first_byte", "transfer"):
        parts = ("upload", "proxy_queue", "connect", "first_byte", "transfer")
        return " + ".join(f"coalesce({_took(log, name)}, 0)" for name in parts if log.has(name))
    return NO_NUMBER


def _time(log: LineFormat) -> str:
    if log.has("end") or not log.has("start"):
        return _instant(log, "end")
    return f"TRY({_instant(log, 'start')} + n_request_time)"


def _status(log: LineFormat) -> str:
    status = field_sql("status")
    if not log.has("status"):
        return NO_NUMBER
    if not log.has("termination"):
        return f"whole({status})"
    # HAProxy writes -1 where no answer was sent; the state begins with C where the client had gone.
    absent = f"CASE WHEN starts_with({field_sql('termination')}, 'C') THEN {CLIENT_GONE} ELSE 0 END"
    return f"CASE WHEN {status} = '-1' THEN {absent} ELSE whole({status}) END"


def _upstream_numbers(log: LineFormat) -> dict[str, str]:
    times = _times_of_attempt(log)
    if log.lists and log.vantage == PROXY:
        return times
    if cached := _cached(log):
        return {name: f"CASE WHEN NOT ({cached}) THEN {sql} END" for name, sql in times.items()}
    if not (log.has("upstream_addr") or log.has("server_name")):
        return times
    # Where the backend is named, a request without one was answered by the proxy itself.
    return {name: f"CASE WHEN NOT blank(r.upstream_addr) THEN {sql} END" for name, sql in times.items()}


def _times_of_attempt(log: LineFormat) -> dict[str, str]:
    answered = f"n_status NOT IN ({', '.join(map(str, NOT_ANSWERED))})"
    if log.vantage == APP:
        return {"n_connect": NO_NUMBER, "n_header": "n_request_time", "n_response": "n_request_time"}
    if log.vantage == WHOLE:
        header = f"CASE WHEN {answered} THEN n_request_time END"
        return {"n_connect": NO_NUMBER, "n_header": header, "n_response": "n_request_time"}
    if log.lists:
        return {f"n_{name}": f"duration(r.upstream_{name}_time)" for name in _LISTS}
    if log.has("header"):
        header = _took(log, "header")
    elif log.has("first_byte"):
        header = f"coalesce(n_connect, 0) + {_took(log, 'first_byte')}"
    else:
        header = f"CASE WHEN {answered} THEN {_took(log, 'response')} END"
    response = NO_NUMBER
    if log.has("response"):
        response = _took(log, "response")
    elif log.has("transfer"):
        response = f"n_header + {_took(log, 'transfer')}"
    elif log.has("send"):  # all that came after the headers was sending
        response = "n_header"
    return {"n_connect": _took(log, "connect"), "n_header": header, "n_response": response}


def _upstream_keys(log: LineFormat) -> dict[str, str]:
    """Return the lists of attempts as nginx writes them; for other logs, one attempt whose durations are numbers."""
    lists = {f"upstream_{name}_time": NO_TEXT for name in _LISTS}
    address, status = _backend(log), _first(log, "upstream_status")
    if log.lists and log.vantage == PROXY:
        lists |= {f"upstream_{name}_time": field_sql(name) for name in _LISTS if log.has(name)}
        if not log.has("header"):  # the response includes the transfer; without an answer there is no header
            unanswered = ", ".join(f"'{code}'" for code in NOT_ANSWERED)
            lists["upstream_header_time"] = (
                f"CASE WHEN {field_sql('status')} NOT IN ({unanswered}) THEN {lists['upstream_response_time']} END"
            )
        if address == NO_TEXT:
            timed = lists[f"upstream_{log.first(*UPSTREAM)}_time"]
            lists["upstream_response_time"] = f"CASE WHEN NOT blank({timed}) THEN {timed} END"
    elif log.vantage == PROXY:
        timed = field_sql(log.first(*UPSTREAM) or "")
        lists["upstream_response_time"] = f"CASE WHEN NOT blank({timed}) AND {timed} != '-1' THEN '-' END"
        if retried := _retried(log):
            failed = f"printf('%.3f, -', {_took(log, 'proxy_queue')} / 1e6)"
            lists["upstream_response_time"] = (
                f"CASE WHEN {retried} THEN {failed} ELSE {lists['upstream_response_time']} END"
            )
            address = f"CASE WHEN {retried} THEN replace('@, @', '@', {address}) ELSE {address} END"
    else:
        lists["upstream_response_time"] = "'-'"
    return {**lists, "upstream_addr": address, "upstream_status": status}


def _retried(log: LineFormat) -> str:
    """Return SQL for whether HAProxy's %Tw is the time of failed attempts: with retries, and no request before it."""
    if not log.has("proxy_queue", "retries", "server_queue", "backend_queue", "server_name"):
        return ""
    retries, ahead = field_sql("retries"), [field_sql(name) for name in ("server_queue", "backend_queue")]
    return (
        f"({_took(log, 'proxy_queue')} > 0 AND ltrim({retries}, '+') != '0' "
        f"AND {' AND '.join(f'{each} = 0::VARCHAR' for each in ahead)})"
    )


def _proxy_queue(log: LineFormat) -> str:
    took = _took(log, "proxy_queue")
    return f"CASE WHEN {retried} THEN 0 ELSE {took} END" if (retried := _retried(log)) else took


def _backend(log: LineFormat) -> str:
    if cached := _cached(log):
        return f"CASE WHEN {cached} THEN '-' END"
    if not log.has("server_name"):
        # A line without the key, or with null in it, went to no backend.
        return f"coalesce({field_sql('upstream_addr')}, '-')" if log.has("upstream_addr") else NO_TEXT
    server, pool = field_sql("server_name"), f"coalesce({_first(log, 'backend_name')}, '')"
    # A request that reached no server waited in the queue of the pool, or was answered by the proxy.
    waited = f"WHEN {_took(log, 'proxy_queue')} > 0 THEN {pool} " if log.has("proxy_queue") else ""
    return f"CASE WHEN {server} != '{NO_SERVER}' THEN {pool} || '/' || {server} {waited}ELSE '-' END"


def _cached(log: LineFormat) -> str:
    """Return SQL for whether Varnish answered a request by itself; empty where the log does not have it."""
    field = log.first("handling", "hitmiss")
    return f"{field_sql(field)} IN ('hit', 'synth', 'error')" if field and not log.has("upstream_addr") else ""


def _path(path: str) -> str:
    """Return a JSON path of keys joined by ".", quoted for SQL."""
    return "$" + "".join(f'."{key}"' for key in path.split(".")).replace("'", "''")
