"""The length of a recovery, from synthetic records and waits; and a run without a burst has none."""

from __future__ import annotations

import numpy as np
import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import ClientRecord
from sojourn_lab.results.analyses.recovery import (
    SEVERAL,
    IntendedRequest,
    burst_of,
    emptied_at,
    intended_requests,
    served_again,
    spell_of,
)
from sojourn_lab.scenario.load import StepsLoad

pytestmark = pytest.mark.alone


def record(name: str, intended: float, *, attempt: int = 1, status: int | None = 200) -> ClientRecord:
    """Return an attempt that was answered at once, or, without a status, was not."""
    return ClientRecord(
        case="c", id=name, user=None, service_time=0.1, intended=intended, sent=intended, done=intended + 0.1,
        status=status, error=None if status else "timeout", attempt=attempt,
    )  # fmt: skip


def requests_each_second(served: list[bool]) -> list[IntendedRequest]:
    """Return one request a second, from 0 on."""
    return [IntendedRequest(float(number), each, 1) for number, each in enumerate(served)]


def test_burst_is_the_step_with_the_highest_rate() -> None:
    burst = burst_of(StepsLoad(rates=[10, 90, 20, 0, 20], at=[1.0, 1.5, 4.0, 6.0]))
    assert (burst.begin, burst.end, burst.rate, burst.rate_after, burst.over) == (1.0, 1.5, 90, 20, 4.0)
    first = burst_of(StepsLoad(rates=[90, 10], at=[2.0]))
    assert (first.begin, first.end, first.over) == (0.0, 2.0, None)
    with pytest.raises(LabError, match="ends with its highest rate"):
        burst_of(StepsLoad(rates=[10, 90], at=[1.0]))


def test_a_request_is_served_if_any_of_its_attempts_was() -> None:
    records = [
        record("b", 2.0, status=503),
        record("a", 1.0, status=None),
        record("a", 1.3, attempt=2, status=None),
        record("a", 1.6, attempt=3),
        record("b", 2.2, attempt=2, status=None),
        record("c", 3.0, status=404),
    ]
    assert intended_requests(records) == [
        IntendedRequest(1.0, True, 3),
        IntendedRequest(2.0, False, 2),
        IntendedRequest(3.0, False, 1),
    ]


def test_recovery_begins_at_the_first_of_a_run_of_which_nine_in_ten_are_served() -> None:
    served = requests_each_second([False] * 10 + [True] * 40)
    # Two failures among the first twenty are still a recovery, but it does not begin with one of them.
    assert served_again(served, 0.0, 100.0) == 10.0
    # A single served request is no recovery.
    lucky = requests_each_second(([False] * 4 + [True]) * 6 + [True] * SEVERAL)
    recovered = served_again(lucky, 0.0, 100.0)
    assert recovered is not None
    assert recovered >= 24.0
    assert served_again(requests_each_second([True] * SEVERAL), 0.0, 100.0) == 0.0
    # From the end of the burst, not from the request after it.
    assert served_again(requests_each_second([True] * (SEVERAL + 1)), 0.5, 100.0) == 0.5


def test_recovery_outside_the_window_is_none() -> None:
    assert served_again(requests_each_second([False] * 100), 0.0, 100.0) is None
    assert served_again(requests_each_second([True] * (SEVERAL - 1)), 0.0, 100.0) is None
    assert served_again(requests_each_second([False] * 50 + [True] * 50), 0.0, 60.0) is None
    assert served_again([], 0.0, 60.0) is None


def test_queue_is_empty_at_the_first_instant_without_a_waiting_request() -> None:
    arrived, left = np.array([0.0, 1.0, 2.0, 7.0]), np.array([3.0, 4.0, 6.0, 9.0])
    assert emptied_at(arrived, left, 2.5) == 6.0
    assert emptied_at(arrived, left, 6.5) == 6.5
    assert emptied_at(arrived, left, 8.0) == 9.0
    assert emptied_at(arrived, left, -1.0) == -1.0
    assert emptied_at(arrived, left, 20.0) == 20.0
    assert emptied_at(np.array([]), np.array([]), 1.0) is None
    # One arrives at the instant at which the other leaves: the queue is empty in between.
    assert emptied_at(np.array([0.0, 3.0]), np.array([3.0, 5.0]), 1.0) == 3.0


def test_the_law_of_work_conservation_for_a_queue_in_another_order() -> None:
    """One worker, service 1 s, five requests queued at 0: in any order, no request waits from 4 s on."""
    arrived = np.zeros(5)
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        assert emptied_at(arrived, np.array(order, dtype=np.float64), 0.5) == 4.0


def test_pressure_counts_attempts_and_share_counts_intended_requests() -> None:
    records = [record("a", 1.0, status=None), record("a", 1.5, attempt=2, status=None), record("b", 2.0)]
    intended = intended_requests(records)
    assert spell_of(intended, records, 0.0, 4.0, capacity=0.5) == {
        "wanted": 2, "share": 0.5, "attempts": 1.5, "pressure": 1.5,
    }  # fmt: skip
    assert spell_of(intended, records, 10.0, 11.0, capacity=0.5) == {
        "wanted": 0, "share": None, "attempts": None, "pressure": 0.0,
    }  # fmt: skip
