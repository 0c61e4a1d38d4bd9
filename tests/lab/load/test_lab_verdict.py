"""The thresholds at which a run is void, at their edges."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import plan_for
from sojourn_lab.load.generator.summary import quantiles_of, summary_of
from sojourn_lab.load.generator.verdict import lag_limit
from sojourn_lab.load.plan import ClientRecord, Summary, Window
from sojourn_lab.scenario.load import AnyLoad, ClosedLoad, ConstantLoad


def record(intended: float, lag: float, response: float, error: str | None = None) -> ClientRecord:
    sent = intended + lag
    return ClientRecord("test", "x", None, 0.0, intended, sent, None, sent + response, 200, 0, error)


def summed(load: AnyLoad, records: list[ClientRecord], dropped: list[float] | None = None) -> Summary:
    plan = plan_for(Path("unused"), "http://unused", load, duration=10.0)
    window = Window(100.0, 110.0)
    return summary_of(plan, window, records=records, dropped=dropped or [], loop_lag=[0.001], cpu=0.1)


def evenly(count: int, lag: float, response: float) -> list[ClientRecord]:
    return [record(100.0 + 10.0 * number / count, lag, response) for number in range(count)]


def test_a_lag_of_ten_milliseconds_is_always_allowed_and_five_percent_of_a_long_response() -> None:
    assert lag_limit(None) == lag_limit(0.0) == lag_limit(0.19) == 0.010
    assert lag_limit(1.0) == 0.05
    assert not summed(ConstantLoad(10.0), evenly(100, 0.0099, 0.01)).void
    assert summed(ConstantLoad(10.0), evenly(100, 0.0101, 0.01)).void
    assert not summed(ConstantLoad(10.0), evenly(100, 0.049, 1.0)).void


def test_one_late_request_in_a_thousand_does_not_spoil_a_run() -> None:
    records = evenly(1000, 0.0, 0.1)
    records[500] = record(105.0, 0.5, 0.1)
    assert not summed(ConstantLoad(100.0), records).void


def test_the_event_loop_s_lag_counts_by_itself() -> None:
    plan = plan_for(Path("unused"), "http://unused", ClosedLoad(1), duration=10.0)
    records = evenly(100, 0.0, 0.1)
    late = summary_of(plan, Window(100.0, 110.0), records=records, dropped=[], loop_lag=[0.02] * 100, cpu=0.97)
    assert len(late.void) == 1
    assert "20.0 ms" in late.void[0]
    assert "97% of a core" in late.void[0]


def test_a_dropped_request_voids_the_run_and_is_part_of_what_was_offered() -> None:
    summary = summed(ConstantLoad(10.0), evenly(99, 0.0, 0.1), dropped=[105.0, 99.0])
    assert (summary.offered, summary.sent, summary.dropped) == (100, 99, 1)
    assert len(summary.void) == 1


def test_less_than_98_percent_sent_in_time_is_void() -> None:
    # Late ones that left after the window's end: sent, but not when they were meant to be.
    def with_late(count: int) -> Summary:
        late = [record(109.9, 1.0, 0.001) for _ in range(count)]
        return summed(ConstantLoad(10.0), [*evenly(100 - count, 0.0, 100.0), *late])

    assert with_late(2).sent == 100  # the limit follows the median response: 5 s here
    late = [record(109.9, 1.0, 0.001) for _ in range(3)]
    summary = summed(ConstantLoad(10.0), [*evenly(97, 0.0, 0.001), *late])
    assert summary.sent == 97
    assert any("97 of 100" in reason for reason in summary.void)


def test_a_window_with_no_request_is_void() -> None:
    assert any("shorter than a response" in reason for reason in summed(ClosedLoad(1), []).void)
    assert any("no instant" in reason for reason in summed(ConstantLoad(1.0), []).void)
    assert not summed(ClosedLoad(1), [record(100.0, 0.0, 0.1)]).void


def test_a_request_belongs_to_the_window_it_was_intended_in() -> None:
    records = [
        record(99.999, 0.0, 5.0),
        record(100.0, 0.0, 5.0),
        record(109.999, 0.0, 5.0),
        record(110.0, 0.0, 5.0),
    ]
    summary = summed(ClosedLoad(1), records)
    assert (summary.requests, summary.offered) == (4, 2)
    assert summary.latency.corrected.mean == pytest.approx(5.0)


def test_quantiles_are_exact() -> None:
    figures = quantiles_of(number / 1000.0 for number in range(1001))
    assert (figures.p50, figures.p90, figures.p99, figures.max) == pytest.approx((0.5, 0.9, 0.99, 1.0))
    assert quantiles_of([]).mean is None
