"""SQL for the parts of a request that Envoy proxied, from whichever of its operators a log has.

Most of Envoy's durations begin with the request and overlap. Each ends at an instant (``POINTS``), and the instants
divide the response time:

    0 | upload | retries | proxy_queue, connect | header | response | request_time

The request is forwarded while it is read, so a wait for a connection of the pool during the upload is upload. The
aliases are whole microseconds since the start, NULL where unreached. No instant lies before the one it follows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sojourn.model.components import CLIENT_GONE, PROXY_STATUSES
from sojourn.readers.formats.fields import CLOCKS, UNITS, field_sql, span_points
from sojourn.readers.formats.line_format import LineFormat

_ONLY_OF_ENVOY = (
    "until_sent", "until_header", "after_header", "pool_ready", "attempt_count", "response_flags",
    "response_code_details",
)  # fmt: skip
_SPANS = {
    "upload": ("ds_rx_beg", "ds_rx_end"),
    "until_sent": ("ds_rx_beg", "us_tx_end"),
    "until_header": ("ds_rx_beg", "us_rx_beg"),
    "after_header": ("us_rx_beg", "ds_tx_end"),
}
_USED = ("ds_rx_end", "us_cx_beg", "us_cx_end", "us_hs_end", "us_tx_beg", "us_tx_end", "us_rx_beg", "us_rx_end")
NULL = "NULL::BIGINT"
_ALIAS = re.compile(r"\b(?:raw|e)_\w+")
_STATUS, _FLAGS, _DETAILS = field_sql("status"), field_sql("response_flags"), field_sql("response_code_details")
_HOST, _RECEIVED, _COUNT = field_sql("upstream_addr"), field_sql("request_length"), field_sql("attempt_count")
_DURATION = field_sql("request_time")
MILLISECOND = 1000
MOST_ATTEMPTS = 100
# Short and long names of RESPONSE_FLAGS. The client left; the cache answered; no connection was made; no
# backend was contacted; the backend did not answer.
_GONE = ("DC", "DR", "DownstreamConnectionTermination", "DownstreamRemoteReset")
_CACHED = ("RFCF", "ResponseFromCacheFilter")
_UNCONNECTED = ("UF", "UpstreamConnectionFailure")
_UNCONTACTED = (
    "UO", "UH", "NR", "NC", "RL", "RLSE", "UAEX", "IH", "FI", "LH", "DPE", "NFCF", "OM", "DF", "DO", "UDO",
    "UpstreamOverflow", "NoHealthyUpstream", "NoRouteFound", "NoClusterFound", "RateLimited", "RateLimitServiceError",
    "UnauthorizedExternalService", "InvalidEnvoyRequestHeaders", "FaultInjected", "FailedLocalHealthCheck",
    "DownstreamProtocolError", "NoFilterConfigFound", "OverloadManagerTerminated",
    "OverloadManager", "DnsResolutionFailed", "DropOverload", "DropOverLoad", "UnconditionalDropOverload",
)  # fmt: skip
_UNANSWERED = (
    "UT", "UC", "UR", "LR", "UPE", "UMSDR", "SI", "DT", *_GONE, *_UNCONNECTED, "UpstreamRequestTimeout",
    "UpstreamConnectionTermination", "UpstreamRemoteReset", "LocalReset", "UpstreamProtocolError",
    "UpstreamMaxStreamDurationReached", "StreamIdleTimeout", "DurationTimeout",
)  # fmt: skip
_ANSWERED = "^(?:via_upstream|upstream_reset_after_response_started)"


def is_timed_by_points(log: LineFormat) -> bool:
    """Return whether the durations of a format are those of Envoy."""
    return any(name in _ONLY_OF_ENVOY or span_points(name) for name in log.by_field)


def status_sql(log: LineFormat) -> str:
    """Return SQL for the status; 499 where the client left before an answer, which Envoy writes as 0."""
    gone = _flagged(log, _GONE)
    if log.has("response_code_details"):
        gone += f" OR coalesce({_DETAILS}, '') LIKE 'downstream_remote_disconnect%'"
    return f"CASE WHEN {_STATUS} = '0' AND ({gone}) THEN {CLIENT_GONE} ELSE whole({_STATUS}) END"


def instants(log: LineFormat) -> dict[str, str]:
    """Return alias -> SQL over the fields and the aliases before it."""
    reached = _reachable(log)
    raw = {f"raw_{point}": sql for point, sql in reached.items()}
    host = f"NOT coalesce(blank({_HOST}) OR upper({_HOST}) = 'UNKNOWN', true)"
    return {
        **raw,
        "raw_duration": _duration(log),
        "raw_service": took(log, "header"),
        "raw_pool": took(log, "pool_ready"),
        "e_whole": _whole(reached),
        **{f"e_{each}": f"within(raw_{each}, e_whole)" if each in reached else NULL for each in _USED},
        "e_service": "within(raw_service, e_whole)",
        "e_pool": "within(raw_pool, e_whole)",
        "e_count": f"whole({_COUNT})" if log.has("attempt_count") else NULL,
        "e_no_body": _without_body(log),
        "e_status": status_sql(log),
        "e_local": f"e_status IN (0, {', '.join(map(str, PROXY_STATUSES))}) AND ({_local(log)})",
        "e_header": "coalesce(e_us_rx_beg, within(e_ds_rx_end + e_service, e_whole))",
        "e_answered": "NOT e_local AND coalesce(e_header, e_service) IS NOT NULL",
        "e_contacted": f"NOT (coalesce(e_count = 0, false) OR {_flagged(log, _CACHED)} "
        f"OR ({_flagged(log, _UNCONTACTED)} AND NOT e_answered))"
        + (f" AND {host}" if log.has("upstream_addr") else ""),
        # Without a body, or when it is sent again, the first byte leaves with the last.
        "e_sending": "coalesce(e_us_tx_beg, CASE WHEN e_no_body OR e_count > 1 THEN e_us_tx_end END)",
        "e_sent": "CASE WHEN e_sending IS NOT NULL THEN least(e_sending, e_header) END",
        "e_built": "CASE WHEN e_pool <= e_sent THEN e_sent - e_pool END",
        "e_read": _read(reached),
        "e_begin": f"CASE WHEN coalesce(e_count, 1) <= 1 AND e_built > e_read + {MILLISECOND} THEN e_built "
        "WHEN e_read IS NOT NULL THEN e_read "
        # The service time begins with the end of the request, which is then unknown.
        "WHEN e_header IS NOT NULL OR e_service IS NULL THEN coalesce(e_built, e_sent) END",
        "e_retries": "CASE WHEN e_count > 1 AND e_sent > e_begin THEN greatest(coalesce(e_built, e_sent) - e_begin, 0) "
        "ELSE 0 END",
        "e_since": "coalesce(e_begin, 0) + e_retries",
        "e_wait": _wait(log),
        "e_connect": _connect(reached),
        "e_queue": "CASE WHEN e_wait IS NOT NULL THEN e_wait - coalesce(e_connect, 0) END",
        "e_attempt": "e_since + coalesce(e_queue, 0)",
        "e_first": "CASE WHEN e_answered THEN greatest(CASE WHEN e_header IS NOT NULL THEN e_header - e_attempt "
        "ELSE e_service - coalesce(e_queue, 0) END, 0) END",
        "e_last": "CASE WHEN e_answered AND e_us_rx_end >= e_header "
        "THEN greatest(e_us_rx_end - e_attempt, e_first) END",
    }


def with_instants(relation: str, log: LineFormat) -> str:
    """Return a relation with the aliases of ``instants`` as columns.

    Each is computed below those that rest on it: an alias of the same SELECT would be computed at every use.
    """
    expressions = instants(log)
    depth: dict[str, int] = {}
    for name, sql in expressions.items():
        depth[name] = 1 + max((depth[used] for used in _ALIAS.findall(sql)), default=0)
    for level in range(1, max(depth.values()) + 1):
        columns = ", ".join(f"{expressions[name]} AS {name}" for name in depth if depth[name] == level)
        relation = f"(SELECT *, {columns} FROM {relation})"  # noqa: S608 - expressions of ours
    return relation


def numbers() -> dict[str, str]:
    """Return ``n_…`` -> SQL over the aliases, for the numbers that differ from those of other formats."""
    return {
        "n_request_time": "e_whole",
        "n_status": "e_status",
        "n_proxy_queue": "CASE WHEN e_contacted THEN e_queue END",
        "n_proxy_start": "CASE WHEN e_begin IS NOT NULL THEN TRY(n_time - e_whole + e_begin) END",
        "n_connect": "CASE WHEN e_contacted THEN e_connect END",
        "n_header": "CASE WHEN e_contacted THEN e_first END",
        # Of several attempts the list below has the times.
        "n_response": "CASE WHEN e_contacted AND coalesce(e_count, 1) <= 1 THEN e_last END",
    }


def lists(log: LineFormat) -> dict[str, str]:
    """Return the lists of attempts as nginx writes them: of failed attempts, the first has the time of all."""
    count = f"least(e_count, {MOST_ATTEMPTS})::INTEGER"
    several = "e_contacted AND e_count > 1"
    address, evidence = "NULL::VARCHAR", "true"
    if log.has("upstream_addr"):
        every = f"repeat({_HOST} || ', ', {count} - 1) || {_HOST}"
        address = f"CASE WHEN NOT e_contacted THEN '-' WHEN e_count > 1 THEN {every} ELSE {_HOST} END"
    else:
        evidence = "coalesce(e_header, e_service, e_sent, e_us_tx_end) IS NOT NULL OR coalesce(e_count > 0, false)"

    def times(first: str, last: str) -> str:
        return f"CASE WHEN {several} THEN attempts_list({count}, seconds_of({first}), seconds_of({last}))"

    return {
        "upstream_addr": address,
        "upstream_connect_time": times(NULL, "e_connect") + " END",
        "upstream_header_time": times(NULL, "e_first") + " END",
        "upstream_response_time": times("e_retries", "e_last") + f" WHEN e_contacted AND ({evidence}) THEN '-' END",
    }


def took(log: LineFormat, name: str) -> str:
    """Return SQL for a duration; NULL where it did not take place."""
    return f"took({field_sql(name)}, {UNITS[log.by_field[name].unit]})" if log.has(name) else NULL


def _reachable(log: LineFormat) -> dict[str, str]:
    """Return point -> SQL for each instant that follows from the durations of a format, the finest durations first."""
    edges = []
    for name, field in log.by_field.items():
        if points := _SPANS.get(name) or span_points(name):
            edges.append((field.step, *points, took(log, name)))
    edges.sort(key=lambda edge: (edge[0], edge[1] != "ds_rx_beg"))
    reached = {"ds_rx_beg": "0"}
    while True:
        level: dict[str, list[str]] = {}
        for _, begin, end, sql in edges:
            if begin in reached and end not in reached:
                level.setdefault(end, []).append(sql if begin == "ds_rx_beg" else f"{_at(begin)} + {sql}")
            elif end in reached and begin not in reached:
                level.setdefault(begin, []).append(f"{_at(end)} - {sql}")
        if not level:
            break
        reached |= {point: f"coalesce({', '.join(each)}, {NULL})" for point, each in level.items()}
    del reached["ds_rx_beg"]
    return reached


def _at(point: str) -> str:
    return "0" if point == "ds_rx_beg" else f"raw_{point}"


def _duration(log: LineFormat) -> str:
    """Return SQL for the response time that a log has, or that its instants have between them."""
    if log.has("request_time"):
        return f"scaled(ltrim({_DURATION}, '+'), {UNITS[log.by_field['request_time'].unit]})"
    end = log.first("end", "emitted")
    return f"TRY({_clock(log, end)} - {_clock(log, 'start')})" if end and log.has("start") else NULL


def _whole(reached: Mapping[str, str]) -> str:
    """Return SQL for the response time: in microseconds where the last byte has them."""
    if "ds_tx_end" not in reached:
        return "raw_duration"
    return (
        f"CASE WHEN raw_duration IS NULL OR raw_ds_tx_end BETWEEN raw_duration AND raw_duration + {MILLISECOND - 1} "
        "THEN raw_ds_tx_end ELSE raw_duration END"
    )


def _clock(log: LineFormat, name: str) -> str:
    return CLOCKS[log.by_field[name].unit][0].format(field_sql(name))


def _flagged(log: LineFormat, flags: tuple[str, ...]) -> str:
    """Return SQL for whether a request has any of these flags."""
    if not log.has("response_flags"):
        return "false"
    return rf"regexp_matches(coalesce({_FLAGS}, ''), '(?:^|,)(?:{'|'.join(flags)})(?:,|$)')"


def _local(log: LineFormat) -> str:
    """Return SQL for whether Envoy answered, and not the backend."""
    local = _flagged(log, (*_UNANSWERED, *_UNCONTACTED))
    if log.has("response_code_details"):
        local += f" OR (NOT coalesce(blank({_DETAILS}), true) AND NOT regexp_matches({_DETAILS}, '{_ANSWERED}'))"
    return f"e_status IN (0, {CLIENT_GONE}) OR {local}"


def _without_body(log: LineFormat) -> str:
    """Return SQL for whether a request certainly has no body."""
    if log.has("request_length"):
        return f"coalesce({_RECEIVED} = '0', false)"
    return f"coalesce({field_sql('method')} IN ('GET', 'HEAD'), false)" if log.has("method") else "false"


def _read(reached: Mapping[str, str]) -> str:
    """Return SQL for the instant at which the request was read, or else the response began."""
    if "ds_rx_end" in reached:
        # The response began before the request ended: it was forwarded while it was read.
        return (
            "CASE WHEN e_ds_rx_end IS NULL AND raw_ds_rx_end IS NOT NULL THEN NULL "
            "WHEN e_ds_rx_end IS NULL AND e_header IS NULL THEN e_whole "
            "WHEN e_ds_rx_end IS NULL OR e_ds_rx_end > e_header THEN coalesce(e_built, e_sent, 0) ELSE e_ds_rx_end END"
        )
    return "CASE WHEN e_service <= e_us_rx_beg THEN e_us_rx_beg - e_service END"


def _wait(log: LineFormat) -> str:
    """Return SQL for the wait for a connection after the request was read.

    Of a request with a body whose end is unknown, the wait may have passed during the upload: it is not read.
    """
    after = "CASE WHEN e_no_body THEN 0 ELSE coalesce(e_ds_rx_end, e_read, 0) END"
    room = (
        "CASE WHEN e_header IS NOT NULL THEN e_header - e_since WHEN e_service IS NOT NULL THEN e_service "
        "ELSE e_whole - e_since END"
    )
    never = (
        "WHEN e_pool IS NULL AND NOT e_answered AND e_contacted THEN greatest(e_whole - e_since, 0) "
        if log.has("pool_ready")
        else ""
    )
    before_last = "CASE WHEN e_us_tx_end IS NOT NULL THEN greatest(e_us_tx_end - e_since, 0) ELSE e_whole END"
    return (
        "CASE WHEN e_sent IS NOT NULL AND e_begin IS NOT NULL THEN greatest(e_sent - e_since, 0) "
        f"WHEN NOT e_no_body AND e_read IS NULL THEN NULL WHEN {_flagged(log, _UNCONNECTED)} THEN 0 "
        f"{never}WHEN e_pool IS NOT NULL THEN greatest(least(e_pool - {after}, {room}, {before_last}), 0) END"
    )


def _connect(reached: Mapping[str, str]) -> str:
    """Return SQL for connecting, where the connection was opened for this request and not for one before it."""
    if not {"us_cx_beg", "us_cx_end"} <= reached.keys():
        return NULL
    connected = "coalesce(e_us_hs_end, e_us_cx_end)"
    return (
        f"CASE WHEN e_sent IS NULL OR e_begin IS NULL THEN NULL WHEN e_us_cx_beg IS NULL OR {connected} IS NULL THEN 0 "
        f"ELSE least(greatest(least({connected}, e_sent) - greatest(e_us_cx_beg, e_since), 0), e_wait) END"
    )
