"""A store of one day of requests, generated inside the engine, and the dashboards' queries without rollups."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from sojourn.store import connect, init, refresh_rollups
from sojourn.store.senders import INSERT_SETTINGS

from benchmarks.odd_lines import ESCAPED, NOT_ASCII, ODD, OTHER_BACKEND, THOUSAND

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
BLOCK = 2_000_000
LARGEST_PART = 1 << 30  # bytes: merging two larger ones would need their space twice

# Per cent of the day's requests in each hour, UTC.
HOURS = (2.0, 1.4, 1.0, 0.9, 1.0, 1.5, 2.4, 3.4, 4.4, 5.0, 5.3, 5.4, 5.6, 5.3, 5.0, 4.9, 5.0, 5.3, 5.6, 6.3, 9.0, 6.6,
         4.6, 3.1)  # fmt: skip
WORST = HOURS.index(max(HOURS))
SERVICES, ROUTES, WORKERS = 2, 20, 8  # workers: of each backend
SERVICE, BUSY = 0.05, 0.5  # s, mean; of the workers' time in the worst hour, over all backends, at most
FIRST, REST = 0.7, 0.3  # the most popular backend of a service has 1 / FIRST times the mean load

# Each backend's requests go to its workers in turn, and wait until the worker is free: the k-th of a worker begins when
# it has come and the one before has ended (Lindley 1952). A block begins with free workers. Routes of uneven
# popularity, some odd records (odd_lines), random request ids, no trace ids. Times as nginx writes them, in ms.
ROWS = """
INSERT INTO incoming_rows (time, request_time, request_start, proxy_start, status, service, route, proxy, worker,
    method, uri, remote_addr, request_id, attempt_addr, attempt_status, attempt_connect, attempt_header,
    attempt_response, app_queueing_delay, app_service_time, source, connection, connection_requests)
WITH
    {ends} AS ends,
    [0.001] AS refused
SELECT
    came + toIntervalMillisecond(lasted) AS time,
    toDecimal64(lasted, 6) / 1000 AS request_time,
    came AS request_start,
    came AS proxy_start,
    multiIf(kind = 'abandoned', 499, kind = 'timed out', 504, 200) AS status,
    ['shop', 'api'][service_number + 1] AS service,
    concat('/r', toString(route_number)) AS route,
    'edge-1' AS proxy,
    if(unanswered, '', toString(1000 + worker_number)) AS worker,
    if(number % 5 = 0, 'POST', 'GET') AS method,
    concat('/r', toString(route_number), '/items/', toString(number % 100000), multiIf(
        kind = 'escaped', {escaped}, kind = 'not ASCII', {not_ascii}, '')) AS uri,
    concat('10.9.', toString(number % 64), '.', toString(number % 250)) AS remote_addr,
    lower(hex(sipHash128(number))) AS request_id,
    arrayConcat(if(retried, [{other}], []), [concat('10.1.', backend, ':8080')]) AS attempt_addr,
    arrayConcat(if(retried, [502], []), [if(unanswered, 504, 200)]) AS attempt_status,
    arrayConcat(if(retried, refused, []), [0.0]) AS attempt_connect,
    arrayConcat(if(retried, refused, []), [if(unanswered, NULL, answered / 1000)]) AS attempt_header,
    arrayConcat(if(retried, refused, []), [answered / 1000]) AS attempt_response,
    if(unanswered, NULL, toDecimal64(waited + 200 + 1000 * retried, 6) / 1000000) AS app_queueing_delay,
    if(unanswered, NULL, toDecimal64(worked, 6) / 1000000) AS app_service_time,
    'edge-1:/var/log/nginx/sojourn.jsonl' AS source,
    number % 1000 AS connection,
    number AS connection_requests
FROM
(
    SELECT
        *,
        kind = 'retried' AS retried,
        kind IN ('abandoned', 'timed out') AS unanswered,
        lead - min(lead) OVER (
            PARTITION BY backend, worker_number ORDER BY number
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS waited,
        intDiv(waited + worked + 800, 1000) AS answered,
        answered + retried AS lasted
    FROM
    (
        -- The work ahead of a request if its worker had never been free, less the time that has passed.
        SELECT *, sum(worked) OVER (
                PARTITION BY backend, worker_number ORDER BY number
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) - worked - toInt64(toUnixTimestamp64Micro(came)) AS lead
        FROM
        (
            SELECT *, row_number() OVER (PARTITION BY backend ORDER BY number) % {workers} AS worker_number
            FROM
            (
                SELECT
                    number,
                    (number + sipHash64(number, 5) / pow(2, 64)) * 100 / {rows} AS passed,
                    arrayFirstIndex(part -> part > passed, ends) AS hour,
                    if(hour = 1, 0, ends[hour - 1]) AS hour_began,
                    toDateTime64({begin}, 3, 'UTC') + toIntervalMillisecond(toInt64(
                        (hour - 1 + (passed - hour_began) / (ends[hour] - hour_began)) * 3600000)) AS came,
                    toUInt8({routes} * pow(sipHash64(number, 1) / pow(2, 64), 3)) AS route_number,
                    route_number % {services} AS service_number,
                    sipHash64(number, 2) / pow(2, 64) AS uniform,
                    toUInt16({backends} * uniform * ({first_part} + {rest} * uniform)) AS backend_number,
                    concat(toString(service_number), '.', toString(backend_number)) AS backend,
                    toInt64(-log((sipHash64(number, 3) % 1000000 + 1) / 1e6) * {mean} * 1e6) + 100 AS worked,
                    sipHash64(number, 4) % {thousand} AS draw,
                    {kinds}[arrayFirstIndex(end -> draw < end, {kind_ends})] AS kind
                FROM numbers({first}, {block})
            )
        )
    )
)
"""

_RAW = """FROM requests_split
    WHERE time >= toDateTime({begin}) AND time <= toDateTime({end}) AND status != 101"""
_WAITED, _WORKED = "coalesce(queueing_delay, connect, 0)", "ifNull(service_time, 0)"
_SUMS = f"""count(), countIf(status BETWEEN 500 AND 599), countIf(status = 504), countIf(status = 499),
    sum(request_time), sum({_WAITED}), sum({_WORKED})"""
_PARTS = f"{_WAITED}, {_WORKED}, upload, retries, ifNull(transfer, 0), redirected, send, unattributed"

# (dashboard, panel) -> SQL that computes the same figures from all requests.
RAW = {
    ("verdict", "Verdict"): f"""
        SELECT {_SUMS}, sum(upload), sum(ifNull(transfer, 0)), sum(send), sum(retries),
            sum(unattributed) + sum(redirected), quantile(0.99)(request_time) {_RAW}""",
    ("verdict", "p99 of the response"): f"SELECT quantile(0.99)(request_time) {_RAW}",
    ("verdict", "Requests"): f"SELECT count() {_RAW}",
    ("verdict", "Mean response time, split"): f"""
        SELECT toStartOfMinute(time) AS t, {_SUMS} {_RAW} GROUP BY t ORDER BY t""",
    ("verdict", "What the slowest 1 % are made of"): f"""
        WITH (SELECT quantile(0.99)(request_time) {_RAW}) AS p99
        SELECT request_time >= p99 AS tail, count(), sumForEach([{_PARTS}]) {_RAW} GROUP BY tail""",
    ("verdict", "By route"): f"""
        SELECT route, {_SUMS}, quantile(0.99)(request_time), quantile(0.99)(queueing_delay),
            quantile(0.99)(service_time) {_RAW} GROUP BY route""",
    ("distributions", "Response time: percentiles"): f"""
        SELECT toStartOfMinute(time) AS t, quantiles(0.5, 0.9, 0.99, 0.999)(request_time) {_RAW}
        GROUP BY t ORDER BY t""",
    ("load", "Busy workers"): f"""
        SELECT toStartOfMinute(time) AS t, upstream, sum({_WORKED}) / 60, uniqExact(worker) {_RAW}
        GROUP BY t, upstream ORDER BY t""",
}  # fmt: skip


def raw_queries() -> dict[tuple[str, str], str]:
    """Return the panels' queries against the requests themselves, over the day."""
    ends = {"begin": int(BEGIN.timestamp()), "end": int(END.timestamp())}
    return {panel: text.format(**ends) for panel, text in RAW.items()}


def make_store(dsn: str, rows: int, progress: Callable[[str], None]) -> None:
    """Create a store and fill it with ``rows`` requests of one day, rollups included.

    Raises:
        SojournError: the store cannot be created.
    """
    init(dsn)
    with connect(dsn) as store:
        store.client.command(
            f"ALTER TABLE requests MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = {LARGEST_PART}"
        )
        store.client.command("SYSTEM STOP VIEW rollup_refresh")  # it would compute minutes that are not complete
        for first in range(0, rows, BLOCK):
            block = min(BLOCK, rows - first)
            store.client.command(rows_sql(rows, first, block), settings=INSERT_SETTINGS)
            progress(f"{first + block:,} of {rows:,} rows made")
        refresh_rollups(store)
        progress("rollups made")


def rows_sql(rows: int, first: int, block: int) -> str:
    """Return the INSERT of ``block`` of the day's ``rows`` requests, from the ``first`` on."""
    per_second = rows * HOURS[WORST] / 100 / 3600
    backends = math.ceil(per_second * SERVICE / BUSY / WORKERS / SERVICES)
    usable = {kind: part for kind, part in ODD.items() if kind != "damaged"}  # a damaged line is no row
    return ROWS.format(
        begin=int(BEGIN.timestamp()), rows=rows, first=first, block=block,
        ends=[round(end, 1) for end in accumulate(HOURS)],
        services=SERVICES, routes=ROUTES, workers=WORKERS, backends=backends, mean=SERVICE,
        first_part=FIRST, rest=REST, thousand=THOUSAND, kinds=list(usable), kind_ends=list(accumulate(usable.values())),
        escaped=f"'{ESCAPED}'", not_ascii=f"'{NOT_ASCII}'", other=f"'{OTHER_BACKEND}'",
    )  # fmt: skip
