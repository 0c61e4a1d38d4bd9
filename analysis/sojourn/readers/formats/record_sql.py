"""SQL from a line of a log format to the keys and numbers of the record that ``sojourn.readers.record`` describes.

A line is first taken apart into fields (``f``): by a regular expression, or by the paths of a JSON object. From the
fields follow the texts of the record (``r``) and its numbers (``n_…``, whole microseconds); every rule after that, the
reasons of refusal among them, is the one that Sojourn's own records obey.
"""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.model.components import CLIENT_GONE, PROXY_STATUSES
from sojourn.model.frame import APP, PROXY, WHOLE
from sojourn.readers.formats import envoy_times
from sojourn.readers.formats.fields import CLOCKS, INSTANTS, TEXTS, UNITS, Field, field_sql
from sojourn.readers.formats.line_format import STAMPS, UPSTREAM, LineFormat
from sojourn.readers.formats.pairs import value_sql
from sojourn.readers.formats.template import EVERY_ELEMENT, captured_names, path_keys, pattern_of, variables

# With one of these the answer did not come from the backend, or the client had gone before it did.
NOT_ANSWERED = (0, *PROXY_STATUSES)
# A stamp so close to the beginning of the request is the proxy's own, another is of a proxy in front or of the client.
OWN_STAMP = 10_000  # µs; a line is written after the end that its duration says
NO_SERVER = "<NOSRV>"  # HAProxy: no server was reached
LLM_SLACK_US = 2_000  # the header time and the server's times are cut to milliseconds
NO_TEXT, NO_NUMBER = "NULL::VARCHAR", "NULL::BIGINT"
# Words of Varnish and CloudFront for an answer without the backend.
_CACHED = ("hit", "synth", "error", "redirect", "limitexceeded", "capacityexceeded", "functionexecutionresponse")
_LISTS = ("connect", "header", "response")
ROUNDED_US = 3_000  # of the milliseconds of several durations


def fields_in(log: LineFormat, sql: str) -> list[str]:
    """Return the fields of a format that occur in SQL."""
    return [name for name in log.by_field if field_sql(name) in sql]


def extract(log: LineFormat, fields: Sequence[str]) -> str:
    """Return SQL for the struct of some ``fields`` of ``line``; empty or NULL in a line of another form."""
    if log.parts:
        names = ", ".join(f"'{name}'" for name in captured_names(log.parts, fields))
        pattern = pattern_of(log.parts, fields, before=log.before).replace("'", "''")
        # Without its end: a value may be all up to there.
        return f"regexp_extract(rtrim(line, chr(13) || chr(10)), '(?s){pattern}', [{names}])"
    chosen = [each.field.name for each in log.variables if each.field.name in set(fields)]
    if log.pairs:
        paths = {each.field.name: each.text for each in log.variables}
        return "{" + ", ".join(f'"{name}": {value_sql(paths[name], log.pairs)}' for name in chosen) + "}"
    sources = _json_sources(log)
    values = ", ".join(f'"{name}": {sources[name]}' for name in chosen)
    return f"CASE WHEN json_valid(object_in(line)) THEN {{{values}}} {_as_text(log, chosen)}END"


def _json_sources(log: LineFormat) -> dict[str, str]:
    """Return field of a JSON object -> SQL for its value in ``line``."""
    paths: dict[str, list[str]] = {}
    for path, field in zip(log.paths, log.fields, strict=True):
        if _unit(field) == _unit(log.by_field[field.name]):
            paths.setdefault(field.name, []).append(_value_at(path))
    # The first of its paths that has a value.
    sources = {name: each[0] if len(each) == 1 else f"coalesce({', '.join(each)})" for name, each in paths.items()}
    for path, parts in log.composed:
        for name in (each.field.name for each in variables(parts)):
            pattern = pattern_of(parts, [name]).replace("'", "''")
            sources.setdefault(name, f"nullif(regexp_extract({_value_at(path)}, '(?s){pattern}', 1), '')")
    return sources


def _unit(field: Field) -> str:
    return CLOCKS[field.unit][0] if field.unit in CLOCKS and field.name in INSTANTS else field.unit


def _value_at(path: str) -> str:
    """Return SQL for the text at a path of ``line``; elements of an array are joined as nginx joins attempts."""
    text = f"json_extract_string(line, '{_path(path)}')"
    # An empty array holds as little as null.
    return f"array_to_string({text}, ', ')" if EVERY_ELEMENT in path_keys(path) else f"nullif({text}, '[]')"


def _as_text(log: LineFormat, chosen: Sequence[str]) -> str:
    """Return SQL for the fields of a line that is no JSON, by the text of its format; empty without one."""
    names = captured_names(log.as_text, chosen)
    certain = next((name for name in ("status", "end", "start") if name in names), None)
    if certain is None:
        return ""
    pattern = pattern_of(log.as_text, names).replace("'", "''")
    groups = ", ".join(f"'{name}'" for name in names)
    value = "unescaped_json(m['{}'])" if log.escape == "json" else "m['{}']"
    fields = ", ".join(f'"{name}": ' + (value.format(name) if name in names else NO_TEXT) for name in chosen)
    match = f"regexp_extract(rtrim(line, chr(13) || chr(10)), '(?s){pattern}', [{groups}])"
    of_match = f"list_transform([{match}], lambda m: CASE WHEN m['{certain}'] != '' THEN {{{fields}}} END)[1]"
    # A line of another form costs no attempt: RE2 is slow where nothing fits.
    return f"WHEN object_in(line) IS NOT NULL THEN {of_match} "


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
        "n_service_time": _service_time(log),
    }
    if envoy_times.is_timed_by_points(log):
        return values | {"n_time": _time(log)} | envoy_times.numbers()
    if not log.has("proxy_start"):
        if log.has("upload"):
            values["n_proxy_start"] = f"TRY(n_time - n_request_time + {_took(log, 'upload')})"
        elif _stamp_of_header(log):
            begun = "TRY(n_time - n_request_time)"
            values["n_proxy_start"] = (
                f"CASE WHEN abs(n_request_start - {begun}) <= {OWN_STAMP} THEN n_request_start "
                f"WHEN n_request_start IS NOT NULL THEN {begun} END"
            )
    return values | _upstream_numbers(log)


def with_instants(relation: str, log: LineFormat) -> str:
    """Return a relation of fields with the columns that ``keys`` and ``numbers`` of some formats rest on."""
    return envoy_times.with_instants(relation, log) if envoy_times.is_timed_by_points(log) else relation


def keys(log: LineFormat) -> dict[str, str]:
    """Return key of the record -> SQL over the fields, as text."""
    values = {name: _plain_text(log, field_sql(name)) for name in TEXTS if log.has(name)}
    if log.has("request"):
        for number, name in enumerate(("method", "uri", "protocol"), 1):
            values.setdefault(name, _plain_text(log, f"split_part({field_sql('request')}, ' ', {number})"))
    if log.url and "uri" in values:
        values["uri"] = rf"regexp_replace({values['uri']}, '^\w+://[^/]*', '')"
    if "query" in values:
        path, query = values.get("uri", "''"), values.pop("query")
        values["uri"] = f"{path} || {query}"
    if "body_bytes_sent" in values:
        values.setdefault("bytes_sent", values.pop("body_bytes_sent"))
        values.pop("body_bytes_sent", None)
    values["time"] = _first(log, *STAMPS)
    timed = ("request_time", "service_time", *(("start",) if log.has("start", "end") else ()), "first_byte")
    timed += ("until_header", "start") if log.first("emitted", "until_header") else ("session_time",)
    # Empty where the backend was not reached.
    values["request_time"] = "'0'" if log.has("exchange") else _first(log, *timed)
    values["status"] = _first(log, "status")
    for name in ("queueing_delay", "service_time", "request_start", "proxy_start"):
        values[name] = _first(log, name) if log.vantage != APP else NO_TEXT
    if _stamp_of_header(log):
        instant = _instant(log, "request_start")
        values["request_start"] = f"CASE WHEN {instant} IS NOT NULL THEN {values['request_start']} END"
    return values | _upstream_keys(log)


def own_column(log: LineFormat, key: str) -> str:
    """Return SQL for a column of the user's own; NULL if it is blank or the format does not have it."""
    value = _plain_text(log, field_sql(key))
    return f"CASE WHEN NOT blank({field_sql(key)}) THEN {value} END" if log.has(key) else NO_TEXT


def _plain_text(log: LineFormat, text: str) -> str:
    """Return SQL for a text without nginx's escapes; those of a JSON object are read with it."""
    if log.escape == "default":
        return f"unescaped({text})"
    return f"unescaped_json({text})" if log.escape == "json" and not log.json else text


def _first(log: LineFormat, *names: str) -> str:
    """Return SQL for the first of these fields that a format has, as text; NULL without any."""
    name = log.first(*names)
    return NO_TEXT if name is None else field_sql(name)


def _instant(log: LineFormat, name: str) -> str:
    return CLOCKS[log.by_field[name].unit][0].format(field_sql(name)) if log.has(name) else NO_NUMBER


def _stamp_of_header(log: LineFormat) -> bool:
    """Return whether the stamp is the request's header, which may be of a proxy in front or of the client."""
    return log.has("request_start") and log.by_field["request_start"].unit == "stamp"


def _took(log: LineFormat, name: str) -> str:
    """Return SQL for a duration; NULL where it did not take place, which proxies write as -1 or -."""
    return f"took({field_sql(name)}, {UNITS[log.by_field[name].unit]})" if log.has(name) else NO_NUMBER


def _signed(log: LineFormat, name: str) -> str:
    return f"short(scaled({field_sql(name)}, {UNITS[log.by_field[name].unit]}))" if log.has(name) else NO_NUMBER


def _service_time(log: LineFormat) -> str:
    """Return SQL for the service time.

    An inference server (text-generation-inference) reports its queue and the whole: the rest is service. A request of
    several prompts has the sums of all of these, which do not fit into it: its service time is unknown.
    """
    if log.has("service_time"):
        return _signed(log, "service_time")
    queue, inference = _took(log, "llm_queue"), _took(log, "llm_inference")
    if log.has("llm_total", "llm_queue"):
        whole, service = _took(log, "llm_total"), f"{_took(log, 'llm_total')} - {queue}"
    elif log.has("llm_inference"):
        whole, service = f"{inference} + coalesce({queue}, 0)", inference
    else:
        return NO_NUMBER
    header = "coalesce(duration(last_of(r.upstream_header_time)), n_request_time)"
    return f"CASE WHEN {whole} <= {header} + {LLM_SLACK_US} THEN {service} END"


def _request_time(log: LineFormat) -> str:
    if name := log.first("request_time"):
        return f"scaled(ltrim({field_sql(name)}, '+'), {UNITS[log.by_field[name].unit]})"
    if log.vantage == APP:
        return _signed(log, "service_time")
    if log.has("session_time"):
        return f"scaled(ltrim({field_sql('session_time')}, '+'), 1000) - ({_before_request(log)})"
    return _request_time_of_parts(log)


def _request_time_of_parts(log: LineFormat) -> str:
    lasted = f"TRY({_instant(log, 'end')} - {_instant(log, 'start')})"
    if log.has("upload", "header", "send"):
        whole = " + ".join(_took(log, name) for name in ("upload", "header", "send"))
        return f"coalesce({whole}, {lasted})"
    return lasted if log.has("start", "end") else _sum_of_parts(log)


def _sum_of_parts(log: LineFormat) -> str:
    if log.has("exchange"):
        parts: tuple[str, ...] = ("connect", "exchange")
    elif log.has("first_byte", "transfer"):
        parts = ("upload", "proxy_queue", "connect", "first_byte", "transfer")
    else:
        return NO_NUMBER
    return " + ".join(f"coalesce({_took(log, name)}, 0)" for name in parts if log.has(name))


def _before_request(log: LineFormat) -> str:
    """Return SQL for the time from the accept of a connection to the request, as far as HAProxy's log has it.

    Without the time of reading the request alone, the request begins when it has been read.
    """
    if log.has("handshake", "idle"):
        return f"coalesce({_took(log, 'handshake')}, 0) + coalesce({_took(log, 'idle')}, 0)"
    if log.has("until_read"):
        upload = f" - coalesce({_took(log, 'upload')}, 0)" if log.has("upload") else ""
        return f"coalesce({_took(log, 'until_read')}, 0){upload}"
    return "0"


def _time(log: LineFormat) -> str:
    if log.first(*STAMPS) == "accept":
        session = f"({_before_request(log)}) + n_request_time"
        return f"TRY({_instant(log, 'accept')} + {session})"
    if log.has("end") or not log.has("start"):
        return _instant(log, log.first("end", "emitted") or "end")
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
        times = {f"n_{name}": f"duration(r.upstream_{name}_time)" for name in _LISTS}  # in s by _upstream_keys
        if log.has("proxy_queue"):
            within = f"CASE WHEN {_queue_within(log)} THEN total_of({field_sql('proxy_queue')}) ELSE 0 END"
            times |= {name: f"less({times[name]}, {within})" for name in ("n_header", "n_response")}
        return times
    if log.has("header"):
        header = _took(log, "header")
    elif log.has("first_byte"):
        header = f"coalesce(n_connect, 0) + {_took(log, 'first_byte')}"
    elif log.has("exchange"):
        header = f"CASE WHEN {answered} THEN coalesce(n_connect, 0) + {_took(log, 'exchange')} END"
    else:
        header = f"CASE WHEN {answered} THEN {_took(log, 'response')} END"
    return {"n_connect": _took(log, "connect"), "n_header": header, "n_response": _response(log)}


def _response(log: LineFormat) -> str:
    if log.has("exchange"):
        return f"coalesce(n_connect, 0) + {_took(log, 'exchange')}"
    if log.has("response"):
        return _took(log, "response")
    if log.has("transfer"):
        response = f"n_header + {_took(log, 'transfer')}"
        partial = _partial(log)
        return f"CASE WHEN NOT ({partial}) THEN {response} END" if partial else response
    return "n_header" if log.has("send") else NO_NUMBER  # all that came after the headers was sending


def _partial(log: LineFormat) -> str:
    """Return SQL for whether HAProxy wrote a line before the answer ended (option logasap)."""
    counts = [name for name in ("request_time", "session_time", "bytes_sent") if log.has(name)]
    return " OR ".join(f"starts_with({field_sql(name)}, '+')" for name in counts)


def _upstream_keys(log: LineFormat) -> dict[str, str]:
    """Return the lists of attempts as nginx writes them; for other logs, one attempt whose durations are numbers."""
    lists = {f"upstream_{name}_time": NO_TEXT for name in _LISTS}
    if envoy_times.is_timed_by_points(log):
        return envoy_times.lists(log) | {"upstream_status": NO_TEXT}
    address, status = _backend(log), _first(log, "upstream_status")
    if log.lists and log.vantage == PROXY:
        lists |= {f"upstream_{name}_time": _list_in_seconds(log, name) for name in _LISTS if log.has(name)}
        if not log.has("header"):  # the response includes the transfer; without an answer there is no header
            unanswered = ", ".join(f"'{code}'" for code in NOT_ANSWERED)
            lists["upstream_header_time"] = (
                f"CASE WHEN {_first(log, 'status')} NOT IN ({unanswered}) THEN {lists['upstream_response_time']} END"
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


def _list_in_seconds(log: LineFormat, name: str) -> str:
    factor = UNITS[log.by_field[name].unit] / UNITS["s"]
    return field_sql(name) if factor == 1 else f"list_in_seconds({field_sql(name)}, {factor:.9f})"


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
    if log.lists:
        return _queue_of_attempts(log)
    took = _took(log, "proxy_queue")
    return f"CASE WHEN {retried} THEN 0 ELSE {took} END" if (retried := _retried(log)) else took


def _queue_of_attempts(log: LineFormat) -> str:
    """Return SQL for the time in the queue of an nginx upstream; 0 where it is within the times of several attempts.

    Documents do not say whether ``$upstream_response_time`` includes ``$upstream_queue_time``. It does where both
    together exceed the response time.
    """
    if not log.has("proxy_queue"):
        return NO_NUMBER
    queue = f"total_of({field_sql('proxy_queue')})"
    return f"CASE WHEN {_queue_within(log)} AND is_list({_attempt_text(log)}) THEN 0 ELSE {queue} END"


def _queue_within(log: LineFormat) -> str:
    both = f"total_of({field_sql('proxy_queue')}) + total_of({_attempt_text(log)})"
    return f"coalesce({both} > n_request_time + {ROUNDED_US}, false)"


def _attempt_text(log: LineFormat) -> str:
    return _first(log, "response", "header")


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
    """Return SQL for whether a cache answered a request by itself; empty where the log does not have it."""
    field = log.first("handling", "hitmiss")
    words = ", ".join(f"'{word}'" for word in _CACHED)
    return f"lower({field_sql(field)}) IN ({words})" if field and not log.has("upstream_addr") else ""


def _path(path: str) -> str:
    """Return a path of ``joined_path`` as a JSON path, quoted for SQL."""
    text = "$"
    for key in path_keys(path):
        if isinstance(key, int):
            text += "[*]" if key == EVERY_ELEMENT else f"[{key}]"
        else:
            text += f'."{key}"'
    return text.replace("'", "''")
