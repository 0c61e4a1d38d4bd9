"""Requests and spans of simulated hours in a store, with spans that are missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sojourn.store import connect
from sojourn.store.rollups import refresh_spans
from store_support import ask, tell

HOURS = 4
# The beginning of the simulated hours: the last one ended an hour ago.
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS + 1)


class Traffic:
    """Requests of one service at even distances, from BEGIN on, and their spans.

    Args:
        dsn: the store.
        service: the service, in the ids too.
        each: requests a minute.
        route: SQL for the route of request ``number``.
        hours: how long.
    """

    def __init__(self, dsn: str, service: str, each: int, route: str = "'/r'", hours: int = HOURS) -> None:
        self.dsn, self.service, self.each, self.route = dsn, service, each, route
        self.count = int(each * 60 * hours)
        self.id = f"lower(hex(sipHash128('{service}', number)))"
        self.end = f"fromUnixTimestamp64Micro(toInt64({BEGIN.timestamp():.0f} * 1e6 + (number + 0.5) * 60e6 / {each}))"

    def requests(self, source: str = "'edge:/a'", *, headers: bool = True) -> None:
        """Insert the lines; ``headers``: the app reports its service time."""
        columns = (
            "time, request_time, status, request_id, trace_id, span_id, source, service, route, app_service_time, "
            "attempt_addr, attempt_status, attempt_connect, attempt_header, attempt_response"
        )
        tell(
            self.dsn,
            f"INSERT INTO incoming_rows ({columns}) SELECT {self.end}, 0.1, 200, {self.id}, {self.id}, 'parent', "
            f"{source}, '{self.service}', {self.route}, {'0.05' if headers else 'NULL'}, ['a:1'], [200], [0.], [0.1], "
            f"[0.1] FROM numbers({self.count})",
        )

    def spans(self, where: str = "1", *, by_id: bool = True) -> None:
        """Insert the spans of the requests for which ``where`` holds, of ``number`` and ``second`` after BEGIN."""
        request, parent = (self.id, "''") if by_id else ("''", "'parent'")
        tell(
            self.dsn,
            "INSERT INTO spans (start, end, trace_id, span_id, parent_span_id, request_id, service, kind) "
            f"SELECT {self.end} - INTERVAL 90 MILLISECOND, {self.end}, {self.id}, toString(number), {parent}, "
            f"{request}, 'of the app', 'server' FROM (SELECT number, (number + 0.5) * 60 / {self.each} AS second "
            f"FROM numbers({self.count})) WHERE {where}",
        )


def pass_time(dsn: str, minutes: int, *, count: bool = True) -> None:
    """Let what has arrived have arrived so many minutes earlier; ``count``: let the store count what is due."""
    earlier = f"- INTERVAL {minutes} MINUTE"
    tell(
        dsn,
        "CREATE TABLE earlier_touched AS touched_minutes",
        f"INSERT INTO earlier_touched SELECT minute, touched {earlier}, computed, arrived FROM touched_minutes",
        "CREATE TABLE earlier_spans AS spans_minute",
        f"INSERT INTO earlier_spans SELECT * REPLACE (computed {earlier} AS computed) FROM spans_minute FINAL",
        "EXCHANGE TABLES earlier_touched AND touched_minutes",
        "EXCHANGE TABLES earlier_spans AND spans_minute",
        "DROP TABLE earlier_touched SYNC",
        "DROP TABLE earlier_spans SYNC",
    )
    if count:
        with connect(dsn) as store:
            refresh_spans(store)


def missing(dsn: str) -> list[tuple[str, int, int, int]]:
    """Service, minute after BEGIN, requests and missing spans, of minutes with missing spans."""
    return [
        (service, (int(minute) - int(BEGIN.timestamp())) // 60, requests, count)
        for service, minute, requests, count in ask(
            dsn,
            "SELECT service, toUnixTimestamp(minute), sum(requests), sum(missing) FROM spans_missing "
            "GROUP BY service, minute HAVING sum(missing) > 0 ORDER BY service, minute",
        )
    ]
