"""The simulated closed loop, and the autoscalers with rules of their own."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab_support import find_scenario
from sojourn.queueing.live_staffing import Autoscaler as LiveAutoscaler
from sojourn.queueing.live_staffing import ServiceTimes, live_workers, sure_rate
from sojourn_lab.load.generator.loops import open_schedule
from sojourn_lab.load.plan import Plan
from sojourn_lab.load.schedules import poisson_instants
from sojourn_lab.scenario.experiment_settings import Autoscale, Signal
from studies.autoscale.controller import Controller, Look
from studies.autoscale.measure import SCENARIO_FILE
from studies.autoscale.oracle import Objective, waits_of, window_edges, workers_needed
from studies.autoscale.other_controllers import Knative, TargetTracking, controller_of
from studies.autoscale.policies import AutoscalerPolicy, FixedPolicy, Observation
from studies.autoscale.simulation import SAMPLE_PERIOD, Simulated, simulate

SCENARIO = find_scenario(str(SCENARIO_FILE))


def settings(signal: Signal, **more: float) -> Autoscale:
    return msgspec.convert({"signal": signal, **more}, Autoscale)


@dataclass
class Recording:
    """A policy that sets a list of numbers, the last one again and again, and records what it observes."""

    numbers: list[int]
    counts: list[tuple[float, int, int, int, int]] = field(default_factory=list)
    services: list[list[float]] = field(default_factory=list)

    def look(self, now: float, observation: Observation) -> int:
        """Return the next number."""
        one = observation
        self.counts.append((now, one.arrived, one.in_progress, one.ready, one.living))
        self.services.append(one.services(2))
        number = self.numbers[min(len(self.counts), len(self.numbers)) - 1]
        self.last = observation
        return number


@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(5.0, 60.0))
def test_fixed_number_has_the_waits_of_one_queue(seed: int, workers: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    arrivals = poisson_instants(rate, 5.0, rng)
    services = rng.exponential(0.1, len(arrivals))
    simulated = simulate(arrivals, services, FixedPolicy(workers), workers=workers, until=5.0)
    waits, _ = waits_of(arrivals.tolist(), services.tolist(), [0.0] * workers)
    assert simulated.waits == pytest.approx(waits, abs=1e-6)
    assert simulated.worker_seconds(0.0, 5.0) == pytest.approx(5.0 * workers)


def test_policy_observes_what_has_happened_by_then() -> None:
    policy = Recording([1])
    simulated = simulate([0.5, 0.6, 3.0], [1.0, 2.0, 1.0], policy, workers=1, until=6.0)
    # At 2 s the second request is in service since 1.5 s; at 4 s the third one waits for 0.5 s more, until 3.5 s.
    assert policy.counts == [(0.0, 0, 0, 1, 1), (2.0, 2, 1, 1, 1), (4.0, 3, 1, 1, 1), (6.0, 3, 0, 1, 1)]
    assert policy.services == [[], [1.0], [1.0, 2.0], [2.0, 1.0]]
    assert simulated.waits.tolist() == pytest.approx([0.0, 0.9, 0.5])
    samples = policy.last.samples
    assert [each.time for each in samples] == pytest.approx([SAMPLE_PERIOD * number for number in range(31)])
    assert [(each.arrived, each.in_progress) for each in samples[2:9]] == [(0, 0), *[(2, 2)] * 5, (2, 1)]
    assert [(each.arrival, each.end, each.service) for each in policy.last.ended] == [
        (0.5, 1.5, 1.0), (0.6, 3.5, 2.0), (3.0, 4.5, 1.0),
    ]  # fmt: skip


def test_worker_serves_after_its_start_and_costs_from_its_beginning() -> None:
    simulated = simulate([0.1, 0.1], [1.0, 1.0], Recording([2]), workers=1, startup=0.7, until=3.0)
    assert simulated.waits.tolist() == pytest.approx([0.0, 0.6])
    assert simulated.worker_seconds(0.0, 3.0) == pytest.approx(6.0)


def test_oldest_worker_goes_after_its_request_one_at_a_time() -> None:
    policy = Recording([3, 1])
    simulated = simulate([1.9, 1.95, 1.99], [1.0, 2.0, 3.0], policy, workers=3, until=4.0)
    assert simulated.waits.tolist() == [0.0, 0.0, 0.0]
    # At 2 and 2.05 s the two oldest get the signal: one ends at 2.9 s, the other one at 3.95 s.
    assert [count for _, count in simulated.live] == [3, 3, 3, 2, 1]
    assert simulated.worker_seconds(0.0, 4.0) == pytest.approx(2.9 + 3.95 + 4.0)
    assert policy.counts[-1] == (4.0, 3, 1, 1, 1)


def test_request_whose_client_gave_up_holds_its_worker_all_the_same() -> None:
    policy = Recording([1])
    simulated = simulate([0.1, 0.2, 0.3], [3.0, 0.5, 0.5], policy, workers=1, timeout=2.0, until=6.0)
    assert simulated.waits.tolist() == [math.inf] * 3
    assert policy.counts[1:3] == [(2.0, 3, 3, 1, 1), (4.0, 3, 0, 1, 1)]
    assert [each.service for each in policy.last.ended] == [None] * 3
    late = simulate([0.1, 0.2, 3.0], [3.0, 0.5, 0.5], policy, workers=1, timeout=2.0, until=6.0)
    assert late.waits[-1] == pytest.approx(0.6)  # after 3.1 s of the first and 0.5 s of the second one
    assert late.within_share(0.7) == pytest.approx(1 / 3)


def test_rejects_a_policy_without_workers() -> None:
    with pytest.raises(ValueError, match="at least one worker, not 0"):
        simulate([0.0], [1.0], FixedPolicy(0))


def numbers_of(
    controller: Controller, counts: list[float | None], start: int = 4, per_worker: float = 0.0
) -> list[int]:
    """The numbers that a controller sets; `counts`: requests in flight at looks 2 s apart, ten samples each."""
    workers, numbers = start, []
    for number, count in enumerate(counts):
        now = 2.0 * number
        samples = [] if count is None else [(now - 0.2 * back, round(count)) for back in range(9, -1, -1)]
        value = None if count is None else count / (per_worker or workers)
        workers = controller.desired(Look(now, workers, value, workers, samples))
        numbers.append(workers)
    return numbers


def test_knative_follows_the_stable_window_and_halves_at_most() -> None:
    # ceil(count / 0.7); 7 requests need 10 workers, 1 needs 2.
    assert numbers_of(Knative(settings("knative"), 0.7), [2.8, 7, 7, 1, 1, 1]) == [5, 10, 10, 5, 2, 2]
    assert numbers_of(Knative(settings("knative"), 0.7), [None, None]) == [4, 4]


def test_knative_in_panic_never_removes_workers_until_a_stable_window_after_it() -> None:
    controller = Knative(settings("knative", maximum=64), 0.7)
    # At the second look the last samples need 29 of 4 ready workers; the mean of its window only 16.
    rising = [(0.2 * number, 2 if number <= 15 else 20) for number in range(21)]
    assert controller.desired(Look(2.0, 4, None, 4, rising[:11])) == 3
    assert controller.desired(Look(4.0, 4, None, 4, rising[11:])) == 29
    calm = [(4.0 + 0.2 * number, 2) for number in range(1, 31)]
    assert controller.desired(Look(6.0, 29, None, 29, calm[:10])) == 29
    assert controller.desired(Look(8.0, 29, None, 29, calm[10:20])) == 14
    assert controller.desired(Look(10.0, 14, None, 14, calm[20:])) == 7


def test_target_tracking_adds_after_three_looks_and_counts_what_it_has_added() -> None:
    controller = TargetTracking(settings("aws_tracking", maximum=64), 0.5)
    # 4 requests on 4 workers: twice the target. At the third look the number doubles; 8 are then enough.
    assert numbers_of(controller, [4, 4, 4, 4, 4]) == [4, 4, 8, 8, 8]
    # The requests double again within the cooldown: of the 8 more that are needed, 4 have been added to the first 4.
    assert controller.desired(Look(10.0, 8, 1.0)) == 8
    assert controller.desired(Look(12.0, 8, 1.0)) == 8
    assert controller.desired(Look(13.9, 8, 1.0)) == 12
    # 10 s after the first increase the cooldown is over.
    assert controller.desired(Look(14.0, 12, 1.0)) == 24


def test_target_tracking_removes_after_fifteen_looks_below_ninety_percent() -> None:
    def numbers(counts: list[float | None]) -> list[int]:
        return numbers_of(TargetTracking(settings("aws_tracking"), 0.5), counts, start=10)

    assert numbers([4.4] * 15) == [10] * 14 + [9]
    assert numbers([4.6] * 40) == [10] * 40  # 92 % of the target
    assert numbers([2.0] * 10 + [None] + [2.0] * 14) == [10] * 25  # insufficient data
    assert numbers([2.0] * 21)[-7:] == [4, 4, 4, 4, 4, 4, 4]
    halved = numbers_of(TargetTracking(settings("aws_tracking"), 0.5), [2.0] * 40, start=10, per_worker=10.0)
    # Were the value always 40 % of the target, the number would fall every 10 s, the cooldown.
    assert [halved.index(number) for number in (4, 2)] == [14, 19]


@given(
    st.sampled_from(["knative", "aws_tracking", "in_flight"]),
    st.lists(st.floats(0.0, 500.0) | st.none(), min_size=1, max_size=30),
)
def test_no_controller_leaves_its_limits(signal: Signal, counts: list[float | None]) -> None:
    controller = controller_of(settings(signal, minimum=3, maximum=7), 0.7)
    assert all(3 <= number <= 7 for number in numbers_of(controller, counts, start=5))


def step_in_loop(signal: Signal) -> Simulated:
    """A step from 20 to 80 requests a second at 20 s, each of 0.1 s: from 2 to 8 busy workers."""
    arrivals = np.concatenate([np.arange(0.0, 20.0, 0.05), np.arange(20.0, 40.0, 0.0125)])
    policy = AutoscalerPolicy(settings(signal, maximum=64))
    return simulate(arrivals, np.full(len(arrivals), 0.1), policy, period=2.0, phase=1.9, startup=0.3)


def test_rule_of_requests_in_flight_overshoots_after_a_backlog() -> None:
    simulated = step_in_loop("in_flight")
    before = [number for instant, number in simulated.desired if 10.0 < instant < 20.0]
    after = [number for instant, number in simulated.desired if instant > 20.0]
    assert set(before) == {3}  # 2 busy / 0.7
    # 8 / 0.7 is 12, but what waits counts as what is in service.
    assert max(after) > 2 * 12
    assert simulated.within_share(0.1, 30.0) == 1.0


def test_panic_of_knative_reacts_at_the_first_look_and_ends() -> None:
    simulated = step_in_loop("knative")
    first = next(number for instant, number in simulated.desired if instant > 20.0)
    assert first >= 12
    assert simulated.desired[-1][1] == 12
    assert simulated.within_share(0.1, 30.0) == 1.0


def test_target_tracking_needs_three_looks_in_the_loop() -> None:
    simulated = step_in_loop("aws_tracking")
    numbers = [number for instant, number in simulated.desired if instant > 20.0]
    assert numbers[0] == numbers[1] == 3
    assert numbers[2] > 12
    assert simulated.within_share(0.1, 20.0, 25.0) < 0.2


def live_signal(hold: float, startup: float) -> Callable[[float, Observation], float | None]:
    """The live workers needed of a service that nginx alone serves, by the exporter's formulas."""

    def signal(now: float, observation: Observation) -> float | None:
        del now
        services, samples = observation.services(), observation.samples[-60:]
        rate = sure_rate([(each.time, each.arrived) for each in samples], hold / 5.0)
        if rate is None or not services:
            return None
        mean = statistics.fmean(services)
        cs2 = statistics.variance(services) / mean**2 if len(services) > 20 else 1.0
        times, autoscaler = ServiceTimes(mean, cs2), LiveAutoscaler(hold, startup)
        return live_workers(rate, observation.in_progress, observation.ready, times, 0.1, 0.95, autoscaler)

    return signal


def test_live_signal_holds_the_objective_of_a_steady_load() -> None:
    rng = np.random.default_rng(3)
    arrivals = poisson_instants(45.0, 200.0, rng)
    policy = AutoscalerPolicy(settings("workers_live"), live_signal(10.0, 0.3))
    simulated = simulate(arrivals, rng.exponential(0.1, len(arrivals)), policy, startup=0.3, until=200.0)
    assert 0.965 <= simulated.within_share(0.1, 10.0) <= 0.995
    # 4.5 busy workers need 7.
    assert 6.5 <= simulated.worker_seconds(10.0, 200.0) / 190.0 <= 9.0


@pytest.mark.parametrize(
    ("name", "within", "cost"),
    [
        # 95 % of single runs of an independent simulation of the same requests.
        ("diurnal-workers_live", (0.94, 0.99), (1.18, 1.29)),
        ("spiky-workers_live", (0.78, 0.90), (1.34, 1.48)),
    ],
)
def test_live_signal_in_the_loop_of_the_study(
    name: str, within: tuple[float, float], cost: tuple[float, float]
) -> None:
    case = next(each for each in SCENARIO.cases if each.name == name)
    assert case.load is not None
    assert case.seed is not None
    seeds = [SCENARIO.seed, case.seed]
    plan = Plan(
        case=name, url="", seed=seeds, load=case.load, service_time=0.1, distribution="exponential", warmup=10.0,
        duration=100.0, timeout=5.0, client_log="", summary="",
    )  # fmt: skip
    arrivals, services = open_schedule(plan, np.random.default_rng(seeds))
    needed = workers_needed(arrivals, services, window_edges(10.0, 110.0, 4.0), Objective(0.1, 0.95), 64)
    runs = [
        simulate(
            arrivals, services, AutoscalerPolicy(settings("workers_live"), live_signal(10.0, 0.3)), phase=phase,
            startup=0.3, timeout=5.0, until=110.0,
        )
        for phase in (0.3, 0.8, 1.3, 1.8)
    ]  # fmt: skip
    attained = statistics.fmean(run.within_share(0.1, 10.0, 110.0) for run in runs)
    spent = statistics.fmean(run.worker_seconds(10.0, 110.0) for run in runs)
    assert within[0] <= attained <= within[1]
    assert cost[0] <= spent / (4.0 * sum(needed)) <= cost[1]


def test_lost_scrapes_do_not_repeat_the_number_that_is_held() -> None:
    def signal(now: float, observation: Observation) -> float | None:
        del observation
        return None if now > 3.0 else 9.0 if now < 1.0 else 4.0

    arrivals = np.arange(0.0, 30.0, 0.1)
    policy = AutoscalerPolicy(settings("workers_live"), signal)
    simulated = simulate(arrivals, np.full(len(arrivals), 0.05), policy, until=30.0)
    numbers = {instant: number for instant, number in simulated.desired if instant > 0.0 or number == 9}
    # The 9 of second 0 holds up to second 10, the 4 of second 2 from then on; after 12 s the number does not change.
    assert [numbers[float(instant)] for instant in (0, 2, 10, 12, 14, 30)] == [9, 9, 9, 4, 4, 4]
