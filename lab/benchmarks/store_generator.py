"""A store of one day of requests, generated inside the engine, and the dashboards' queries without rollups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sojourn.store import connect, init, refresh_rollups

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
BLOCK = 2_000_000
LARGEST_PART = 1 << 30  # bytes: merging two larger ones would need their space twice

# Two services, twenty routes, eight backends; one request in 200 fails. Random request ids, no trace ids.
ROWS = """
INSERT INTO incoming_rows (time, request_time, request_start, proxy_start, status, service, route, proxy, worker,
    method, uri, remote_addr, request_id, attempt_addr, attempt_status, attempt_connect, attempt_header,
    attempt_response, app_queueing_delay, app_service_time, source, connection, connection_requests)
SELECT ended, response, started, started, if(failed, 504, 200), service, route, 'edge-1', toString(number % 32),
    if(number % 5 = 0, 'POST', 'GET'), concat(route, '/', toString(number)), '10.1.2.3', lower(hex(sipHash128(number))),
    [concat('10.0.0.', toString(number % 8), ':8080')], [if(failed, 504, 200)], [0.0002], [if(failed, NULL, header)],
    [toDecimal64(header + 0.0004, 6)], if(failed, NULL, waited + 0.01), if(failed, NULL, worked),
    'edge-1:/var/log/nginx/sojourn.jsonl', number % 1000, number
FROM
(
    SELECT number, number % 200 = 7 AS failed, ['shop', 'api'][number % 3 % 2 + 1] AS service,
        concat('/r', toString(number % 20)) AS route,
        toDecimal64(-log((sipHash64(number) % 1000000 + 1) / 1e6) / 10, 6) AS waited,
        toDecimal64(0.02 - log((sipHash64(number, 2) % 1000000 + 1) / 1e6) / 20, 6) AS worked,
        waited + worked AS header, header + 0.002 AS response,
        toDateTime64({begin} + number * 86400 / {rows}, 6, 'UTC') AS ended,
        ended - toIntervalMicrosecond(toInt64(response * 1000000)) AS started
    FROM numbers({first}, {block})
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
        for first in range(0, rows, BLOCK):
            block = min(BLOCK, rows - first)
            store.client.command(ROWS.format(begin=int(BEGIN.timestamp()), rows=rows, first=first, block=block))
            progress(f"{first + block:,} of {rows:,} rows made")
        refresh_rollups(store)
        progress("rollups made")
