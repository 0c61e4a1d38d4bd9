"""Spans that are lost on the way: the view, both doctors and reconciliation say which minutes, and how many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sojourn.cli import app
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import WARNING
from sojourn.store import connect, load
from sojourn.store.doctor import examine
from sojourn.store.rollups import refresh_spans
from store_support import ask, one, record, tell, write_log
from typer.testing import CliRunner

HOURS = 4
# The beginning of the simulated hours: the last one ended an hour ago.
BEGIN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS + 1)
HOUR = 3600
LAST = (HOURS - 1) * HOUR  # s after BEGIN, the last hour


@pytest.fixture
def dsn(store_dsn: str) -> str:
    """An empty store that counts spans when a test lets it."""
    tell(store_dsn, "SYSTEM STOP VIEW spans_refresh")
    return store_dsn


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
        self.count = each * 60 * hours
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


def pass_time(dsn: str, minutes: int) -> None:
    """Let what has arrived have arrived so many minutes earlier, and let the store count what is due."""
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


def test_which_minutes_lack_how_many_spans(dsn: str) -> None:
    """Ten seconds in one minute, all of another one, and one span; requests of two files."""
    shop = Traffic(dsn, "shop", 30)
    shop.requests("if(number % 3 = 0, 'edge:/b', 'edge:/a')")
    lost = f"second BETWEEN {LAST} + 630 AND {LAST} + 640 OR intDiv(second, 60) = {LAST // 60} + 20 OR second = 7201"
    shop.spans(f"NOT ({lost})")
    assert missing(dsn) == []  # arrived a moment ago
    pass_time(dsn, 11)
    at = LAST // 60
    assert missing(dsn) == [("shop", 120, 30, 1), ("shop", at + 10, 30, 5), ("shop", at + 20, 30, 30)]
    usual = ask(dsn, "SELECT DISTINCT usual, high FROM spans_missing WHERE missing IS NOT NULL")
    assert usual == [(0.0, 0.0)]

    by_hour = ask(
        dsn, "SELECT hour, source, missing, lost, missing_spans FROM reconciliation WHERE missing_spans > 0 ORDER BY ALL"
    )
    hour = (BEGIN + timedelta(seconds=LAST)).replace(tzinfo=None)
    early = (BEGIN + timedelta(hours=2)).replace(tzinfo=None)
    assert [(each[0].replace(tzinfo=None), *each[1:]) for each in by_hour] == [
        (early, "edge:/b", 0, 0, 1), (hour, "edge:/a", 0, 0, 23), (hour, "edge:/b", 0, 0, 12),
    ]  # fmt: skip

    state = examine(dsn)
    minutes = [f"{BEGIN + timedelta(minutes=minute):%Y-%m-%dT%H:%M}" for minute in (120, at + 10, at + 20)]
    assert [(each.minute[:16], each.missing) for each in state.missing_spans] == [*zip(minutes, (1, 5, 30), strict=True)]
    (advice,) = state.advice
    assert advice.what.startswith("36 requests of the service shop of the last day are without a span (")
    assert all(minute in advice.what for minute in minutes)
    done = CliRunner().invoke(app, ["store", "doctor", dsn, "--json"])
    assert done.exit_code == 1
    assert [(each["service"], each["missing"]) for each in json.loads(done.stdout)["missing_spans"]] == [
        ("shop", 1), ("shop", 5), ("shop", 30),
    ]  # fmt: skip
    (finding,) = [each for each in diagnose(dsn).findings if each.code == "spans-missing"]
    assert finding.severity == WARNING
    assert finding.what.startswith("36 requests of the service shop of the last day are without a span (")
    assert "SELECT * FROM spans_missing" in finding.fix


def test_services_that_lose_nothing(dsn: str) -> None:
    """Without spans, with head sampling, with spans by trace and parent, without the headers of the middleware."""
    for name, each in (("without spans", 5), ("sampled", 60), ("half of a few", 2), ("by trace", 5)):
        Traffic(dsn, name, each).requests()
    Traffic(dsn, "sampled", 60).spans("sipHash64(number) % 10 = 0")
    Traffic(dsn, "half of a few", 2).spans("sipHash64(number, 1) % 2 = 0")
    Traffic(dsn, "by trace", 5).spans(by_id=False)
    bare = Traffic(dsn, "answers without headers", 5)
    bare.requests(headers=False)
    bare.spans("number % 2 = 0")
    pass_time(dsn, 11)
    assert missing(dsn) == []
    judged = ask(dsn, "SELECT DISTINCT service FROM spans_missing WHERE missing = 0 ORDER BY service")
    assert judged == [("by trace",), ("half of a few",), ("sampled",)]
    assert 0.85 < one(dsn, "SELECT avg(usual) FROM spans_missing WHERE service = 'sampled'") < 0.95
    assert examine(dsn).advice == []
    diagnosis = diagnose(dsn)
    assert [each for each in diagnosis.findings if each.code == "spans-missing"] == []
    assert any("has its span" in each for each in diagnosis.checked)


def test_a_store_without_spans_judges_nothing(dsn: str) -> None:
    Traffic(dsn, "shop", 5).requests()
    pass_time(dsn, 11)
    assert one(dsn, "SELECT sum(arraySum(counts.without_span)) FROM spans_minute FINAL") == 5 * 60 * HOURS
    assert one(dsn, "SELECT count() FROM spans_missing") == 0
    assert examine(dsn).missing_spans == []
    assert not any("has its span" in each for each in diagnose(dsn).checked)


def test_spans_that_arrive_later_than_lines_are_not_missing(dsn: str) -> None:
    """A minute later they are in time. Hours later they are missing until the minute is counted again."""
    shop = Traffic(dsn, "shop", 10)
    shop.requests()
    shop.spans(f"second < {LAST}")
    pass_time(dsn, 1)
    assert one(dsn, "SELECT count() FROM spans_minute") == 0
    shop.spans(f"second >= {LAST} AND second < {LAST} + 600")
    pass_time(dsn, 10)
    at = LAST // 60
    assert missing(dsn) == [("shop", minute, 10, 10) for minute in range(at + 10, at + 60)]
    shop.spans(f"second >= {LAST} + 600")
    pass_time(dsn, 10)
    assert len(missing(dsn)) == 50  # not due again yet
    pass_time(dsn, 25)
    assert missing(dsn) == []


def test_a_service_with_head_sampling_that_loses_spans_for_some_minutes(dsn: str) -> None:
    sampled = Traffic(dsn, "sampled", 1000)
    sampled.requests()
    at = LAST // 60 + 30
    sampled.spans(f"sipHash64(number) % 10 < 5 AND intDiv(second, 60) NOT IN ({at}, {at + 1})")
    pass_time(dsn, 11)
    minutes = missing(dsn)
    assert [(service, minute, requests) for service, minute, requests, _ in minutes] == [
        ("sampled", at, 1000), ("sampled", at + 1, 1000),
    ]  # fmt: skip
    assert all(450 < count < 550 for *_, count in minutes)


def test_a_route_without_spans_is_no_loss(dsn: str) -> None:
    """Health checks that the tracer leaves out, every third minute, beside a loss on another route."""
    shop = Traffic(dsn, "shop", 10, route="if(number % 30 = 0, '/health', '/r')")
    shop.requests()
    shop.spans(f"number % 30 != 0 AND NOT (second > {LAST} + 60 AND second < {LAST} + 90)")
    pass_time(dsn, 11)
    assert missing(dsn) == [("shop", LAST // 60 + 1, 10, 5)]


def test_a_loss_in_every_hour_is_not_usual(dsn: str) -> None:
    """An agent that is killed once an hour: the median minute of each hour has all its spans."""
    busy = Traffic(dsn, "busy", 120)
    busy.requests()
    busy.spans(f"NOT (second % {HOUR} BETWEEN 100 AND 110)")
    pass_time(dsn, 11)
    assert missing(dsn) == [("busy", hour * 60 + 1, 120, 20) for hour in range(1, HOURS)]  # no hour before the first


def test_requests_and_spans_that_arrive_twice_count_once(dsn: str) -> None:
    shop = Traffic(dsn, "shop", 10)
    for source in ("'edge:/a'", "'edge:/a'", "'edge:/again'"):
        shop.requests(source)
        shop.spans("number % 1800 != 0")
        pass_time(dsn, 11)
    assert missing(dsn) == [("shop", 180, 10, 1)]  # the other one is in the first hour
    assert one(dsn, "SELECT sum(requests) FROM spans_missing") == shop.count


def test_a_load_of_an_embedded_store_counts_what_is_due(dsn: str, tmp_path: object) -> None:
    """Where the engine runs for a moment only."""
    Traffic(dsn, "shop", 10).requests()
    tell(
        dsn,
        "CREATE TABLE earlier AS touched_minutes",
        "INSERT INTO earlier SELECT * REPLACE (touched - INTERVAL 11 MINUTE AS touched) FROM touched_minutes",
        "EXCHANGE TABLES earlier AND touched_minutes",
        "DROP TABLE earlier SYNC",
    )
    load(dsn, write_log(tmp_path / "a.jsonl", record(1)))  # type: ignore[operator]
    assert one(dsn, "SELECT count() FROM spans_minute FINAL") == HOURS * 60
