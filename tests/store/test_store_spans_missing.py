"""Spans that are lost on the way: the view, both doctors and reconciliation say which minutes, and how many."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from sojourn.cli import app
from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import WARNING
from sojourn.store import load
from sojourn.store.doctor import examine
from spans_support import BEGIN, HOURS, Traffic, missing, pass_time
from store_support import ask, one, record, tell, write_log
from typer.testing import CliRunner

HOUR = 3600
LAST = (HOURS - 1) * HOUR  # s after BEGIN, the last hour


@pytest.fixture
def dsn(store_dsn: str) -> str:
    """An empty store that counts spans when a test lets it."""
    tell(store_dsn, "SYSTEM STOP VIEW spans_refresh")
    return store_dsn


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

    columns = "hour, source, missing, lost, missing_spans"
    by_hour = ask(dsn, f"SELECT {columns} FROM reconciliation WHERE missing_spans > 0 ORDER BY ALL")
    hour = (BEGIN + timedelta(seconds=LAST)).replace(tzinfo=None)
    early = (BEGIN + timedelta(hours=2)).replace(tzinfo=None)
    assert [(each[0].replace(tzinfo=None), *each[1:]) for each in by_hour] == [
        (early, "edge:/b", 0, 0, 1), (hour, "edge:/a", 0, 0, 23), (hour, "edge:/b", 0, 0, 12),
    ]  # fmt: skip

    state = examine(dsn)
    minutes = [f"{BEGIN + timedelta(minutes=minute):%Y-%m-%dT%H:%M}" for minute in (120, at + 10, at + 20)]
    in_state = [(each.minute[:16], each.missing) for each in state.missing_spans]
    assert in_state == list(zip(minutes, (1, 5, 30), strict=True))
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


def test_a_load_of_an_embedded_store_counts_what_is_due(dsn: str, tmp_path: Path) -> None:
    """Where the engine runs for a moment only."""
    Traffic(dsn, "shop", 10).requests()
    pass_time(dsn, 11, count=False)
    load(dsn, write_log(tmp_path / "a.jsonl", record(1)))
    assert one(dsn, "SELECT count() FROM spans_minute FINAL") == HOURS * 60
