"""The disciplines of the lab's app server by themselves: who is next, who is turned away."""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sojourn.queueing.replay import replay
from sojourn.queueing.system import DISCIPLINES, System
from sojourn_lab.resources import resource_file

sys.path.insert(0, str(resource_file("backend")))

from disciplines import NAMES, AdaptiveTimeout, CoDel, Rules, adaptive_lifo, deadline, discipline, fifo, lifo


@dataclass(frozen=True)
class Someone:
    """A waiting request, identified by a number."""

    number: int
    arrived: float
    left: bool = False

    def gone(self) -> bool:
        return self.left


def line_of(*arrivals: float, gone: tuple[int, ...] = ()) -> deque[Someone]:
    return deque(Someone(number, arrived, number in gone) for number, arrived in enumerate(arrivals))


def order(take: Any, line: deque[Someone], now: float = 10.0) -> list[int]:
    """The numbers of those who are next, one after the other."""
    matches = []
    while line:
        someone, _ = take(line, now)
        if someone is not None:
            matches.append(someone.number)
    return matches


def test_the_names_are_those_of_the_simulator_but_for_what_a_server_cannot_know() -> None:
    assert (*(name for name in DISCIPLINES if name != "sjf"), "adaptive_timeout") == NAMES
    with pytest.raises(ValueError, match="'sjf' is not a discipline: fifo, lifo"):
        discipline("sjf", Rules(), Someone)


def test_first_or_last_come() -> None:
    assert order(fifo, line_of(1, 2, 3)) == [0, 1, 2]
    assert order(lifo, line_of(1, 2, 3)) == [2, 1, 0]


def test_adaptive_lifo_turns_when_more_than_the_threshold_wait() -> None:
    # Four wait, then three: the last come; then two: the first come.
    assert order(lambda line, now: adaptive_lifo(line, now, 2), line_of(1, 2, 3, 4)) == [3, 2, 0, 1]


def test_deadline_turns_away_who_is_out_of_time_or_gone() -> None:
    line = line_of(1.0, 5.0, 6.0, 7.0, gone=(2,))
    someone, away = deadline(line, 9.0, 4.0, 0.0)
    assert (someone, [each.number for each in away]) == (Someone(3, 7.0), [0, 1, 2])
    assert deadline(line_of(1.0, gone=(0,)), 1.0, None, 0.0) == (None, [Someone(0, 1.0, True)])
    assert deadline(line_of(1.0), 1e6, None, 0.0)[0] == Someone(0, 1.0), "no request expires without a timeout"
    assert deadline(line_of(1.0), 4.5, 4.0, 1.0)[0] is None, "the margin counts"


def test_codel_drops_after_an_interval_above_the_target_and_ever_sooner() -> None:
    codel = CoDel(target=0.005, interval=0.1)
    line = deque(Someone(number, -1.0) for number in range(2000))
    dropped = []
    for step in range(1000):
        now = step * 0.001
        _, away = codel(line, now)
        dropped += [now for _ in away]
    # RFC 8289: first after one interval, then interval / sqrt(count) after the last.
    instants = [0.1]
    while instants[-1] < 1.0:
        instants.append(instants[-1] + 0.1 / len(instants) ** 0.5)
    assert dropped == pytest.approx(instants[: len(dropped)], abs=0.0021)
    assert len(dropped) > 15
    assert codel(deque([Someone(0, 0.0)]), 5.0)[1] == [], "the last one is never turned away"


@settings(deadline=None)
@given(
    name=st.sampled_from(["fifo", "lifo", "adaptive_lifo", "codel", "deadline"]),
    gaps=st.lists(st.floats(0.001, 1.0), min_size=1, max_size=40),
    services=st.lists(st.floats(0.01, 1.5), min_size=40, max_size=40),
)
def test_one_worker_serves_in_the_order_of_the_simulator(name: str, gaps: list[float], services: list[float]) -> None:
    rules = Rules(timeout=2.0, codel_target=0.1, codel_interval=0.5, lifo_threshold=3)
    system = System(
        (1,),
        name,
        timeout=2.0 if name == "deadline" else None,
        codel_target=0.1,
        codel_interval=0.5,
        lifo_threshold=3,
    )
    arrivals = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    take = discipline(name, rules, Someone)
    line: deque[Someone] = deque()
    starts: dict[int, float] = {}
    free, coming = 0.0, 0
    while coming < len(arrivals) or line:
        # At one instant a service ends before a request comes.
        while coming < len(arrivals) and arrivals[coming] < free:
            line.append(Someone(coming, arrivals[coming]))
            coming += 1
        if not line:
            free = max(free, arrivals[coming])
            line.append(Someone(coming, arrivals[coming]))
            coming += 1
        someone, _ = take(line, free)
        if someone is not None:
            starts[someone.number] = free
            free += services[someone.number]
    outcome = replay(np.array(arrivals), np.array(services[: len(arrivals)]), system)
    begun = np.flatnonzero(~np.isnan(outcome.start)).tolist()
    assert sorted(starts) == begun
    assert [starts[number] for number in begun] == pytest.approx(outcome.start[begun].tolist())


def test_an_adaptive_timeout_is_long_for_a_burst_and_short_in_a_standing_queue() -> None:
    take = AdaptiveTimeout(calm=10.0, busy=1.0)
    # The first came to an empty line, so it and what came within 10 s of that may wait 10 s.
    line = line_of(0.0, 1.0, 9.0)
    assert take(line, 0.0)[0] == Someone(0, 0.0)
    result, away = take(line, 12.0)
    assert (result, away) == (Someone(2, 9.0), [Someone(1, 1.0)])
    # The line was empty until 13: who comes at 23.5 and finds it standing may wait 1 s only.
    line = line_of(13.0, 23.5, 24.5)
    assert take(line, 14.0)[0] == Someone(0, 13.0)
    result, away = take(line, 25.0)
    assert (result, away) == (Someone(2, 24.5), [Someone(1, 23.5)])


def test_adaptive_timeout_accepts_requests_that_arrive_at_an_empty_queue() -> None:
    take = AdaptiveTimeout(calm=10.0, busy=1.0)
    for now in (0.0, 100.0, 200.0):
        assert take(line_of(now - 5.0), now) == (Someone(0, now - 5.0), [])
