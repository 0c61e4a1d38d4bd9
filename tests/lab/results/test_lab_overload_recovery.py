"""How long a recovery takes, from records and waits whose truth is known; and that a run without a burst has none."""

from __future__ import annotations

import numpy as np
import pytest
from sojourn_lab.errors import LabError
from sojourn_lab.load.plan import ClientRecord
from sojourn_lab.results.analyses.recovery import SEVERAL, Asked, asked_of, burst_of, emptied_at, served_again, spell_of
from sojourn_lab.scenario.load import StepsLoad

pytestmark = pytest.mark.alone


def record(name: str, intended: float, *, attempt: int = 1, status: int | None = 200) -> ClientRecord:
    """Return an attempt that was answered at once, or, without a status, was not."""
    return ClientRecord(
        case="c", id=name, user=None, service_time=0.1, intended=intended, sent=intended, done=intended + 0.1,
        status=status, error=None if status else "timeout", attempt=attempt,
    )  # fmt: skip


def asked_each_second(served: list[bool]) -> list[Asked]:
    """Return one request a second, from 0 on."""
    return [Asked(float(number), each, 1) for number, each in enumerate(served)]


def test_the_burst_is_the_spell_with_the_highest_rate() -> None:
    burst = burst_of(StepsLoad(rates=[10, 90, 20, 0, 20], at=[1.0, 1.5, 4.0, 6.0]))
    assert (burst.begin, burst.end, burst.rate, burst.rate_after, burst.over) == (1.0, 1.5, 90, 20, 4.0)
    first = burst_of(StepsLoad(rates=[90, 10], at=[2.0]))
    assert (first.begin, first.end, first.over) == (0.0, 2.0, None)
    with pytest.raises(LabError, match="nothing to recover"):
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
    assert asked_of(records) == [Asked(1.0, True, 3), Asked(2.0, False, 2), Asked(3.0, False, 1)]


def test_clients_are_served_again_from_the_first_of_many_of_whom_nine_in_ten_are() -> None:
    served = asked_each_second([False] * 10 + [True] * 40)
    # Two failures among the first twenty are still a recovery, but it does not begin with one of them.
    assert served_again(served, 0.0, 100.0) == 10.0
    # A lucky one in between is none.
    lucky = asked_each_second(([False] * 4 + [True]) * 6 + [True] * SEVERAL)
    result = served_again(lucky, 0.0, 100.0)
    assert result is not None
    assert result >= 24.0
    assert served_again(asked_each_second([True] * SEVERAL), 0.0, 100.0) == 0.0
    # From the end of the burst, not from the request after it.
    assert served_again(asked_each_second([True] * (SEVERAL + 1)), 0.5, 100.0) == 0.5


def test_what_was_not_seen_is_no_recovery() -> None:
    assert served_again(asked_each_second([False] * 100), 0.0, 100.0) is None
    assert served_again(asked_each_second([True] * (SEVERAL - 1)), 0.0, 100.0) is None
    assert served_again(asked_each_second([False] * 50 + [True] * 50), 0.0, 60.0) is None
    assert served_again([], 0.0, 60.0) is None


def test_a_queue_is_empty_at_the_first_instant_at_which_nobody_waits() -> None:
    arrived, left = np.array([0.0, 1.0, 2.0, 7.0]), np.array([3.0, 4.0, 6.0, 9.0])
    assert emptied_at(arrived, left, 2.5) == 6.0
    assert emptied_at(arrived, left, 6.5) == 6.5
    assert emptied_at(arrived, left, 8.0) == 9.0
    assert emptied_at(arrived, left, -1.0) == -1.0
    assert emptied_at(arrived, left, 20.0) == 20.0
    assert emptied_at(np.array([]), np.array([]), 1.0) is None
    # One comes in the instant the other leaves: the queue was empty in between.
    assert emptied_at(np.array([0.0, 3.0]), np.array([3.0, 5.0]), 1.0) == 3.0


def test_the_law_of_work_conservation_for_a_queue_in_another_order() -> None:
    """One worker, service 1 s, five in line at 0: whatever the order, nobody waits from 4 s on."""
    arrived = np.zeros(5)
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        assert emptied_at(arrived, np.array(order, dtype=np.float64), 0.5) == 4.0


def test_pressure_counts_attempts_and_share_those_who_asked() -> None:
    records = [record("a", 1.0, status=None), record("a", 1.5, attempt=2, status=None), record("b", 2.0)]
    requested = asked_of(records)
    assert spell_of(requested, records, 0.0, 4.0, capacity=0.5) == {
        "wanted": 2, "share": 0.5, "attempts": 1.5, "pressure": 1.5,
    }  # fmt: skip
    assert spell_of(requested, records, 10.0, 11.0, capacity=0.5) == {
        "wanted": 0, "share": None, "attempts": None, "pressure": 0.0,
    }  # fmt: skip
