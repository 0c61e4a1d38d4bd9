"""The live signal: requests that no line shows yet, other services, open connections, and when it is refused."""

from __future__ import annotations

import numpy as np
import pytest
from live_scene import EPOCH, STATUS, Requests, Scene, in_progress, lasting, needed, poisson, refused
from sojourn.export.live.demand import Demand
from sojourn.export.live.signal import LIVE_REASONS
from sojourn.export.metrics import BY_NAME
from sojourn.export.refusal import WAITS
from sojourn.queueing.live_staffing import ServiceTimes
from sojourn.queueing.replay import replay
from sojourn.queueing.system import System

STEADY = lasting(poisson(20.0, 0.0, 60.0), 0.1)
STATIC = lasting(poisson(400.0, 0.0, 60.0, seed=2), 0.001, service=None)
BEFORE = lasting(poisson(20.0, 0.0, 30.0), 0.1)
JUMP = lasting(poisson(80.0, 30.0, 60.0, seed=3), 100.0)  # they all wait
HUNG = lasting(np.linspace(30.0, 31.0, 40), 1_000.0)
LONG = lasting(poisson(20.0, 0.0, 200.0), 0.1)
AT = 20.0


def served_in_turn(begin: np.ndarray, workers: int, seed: int = 3) -> Requests:
    """Requests of 0.1 s on average that wait for a worker, first come first served."""
    services = np.random.default_rng(seed).exponential(0.1, len(begin))
    return Requests(begin, begin + replay(begin, services, System((workers,))).sojourn)


def present(requests: Requests, instant: float) -> int:
    return int(((requests.begin <= instant) & (requests.end > instant)).sum())


def test_steady_load_needs_a_few_more_workers_than_it_keeps_busy() -> None:
    samples = Scene([STEADY]).run(AT)
    assert needed(samples) in (3.0, 4.0, 5.0)
    assert refused(samples) == []
    assert in_progress(samples) == pytest.approx(2.0, abs=4.0)
    names = {key[0]: len(key) - 1 for key in samples}
    assert {name: len(BY_NAME[name].labels) for name in names} == names
    assert not any(key[2] == "response_time:p99=1" for key in samples if key[0] == "sojourn_workers_needed")


def test_requests_that_no_line_shows_are_counted_at_once() -> None:
    """Eighty a second after 20, none of which ends: after a second the number is there."""
    scene = Scene([BEFORE, JUMP])
    before = needed(scene.run(30.0))
    after = scene.run(31.0)
    assert before is not None
    assert needed(after) == pytest.approx(13.0, abs=3.0)
    assert in_progress(after) == pytest.approx(present(JUMP, 31.0), abs=3.0)
    later = scene.run(33.0)
    assert needed(later) >= needed(after)
    assert in_progress(later) == pytest.approx(present(JUMP, 33.0), abs=3.0)


@pytest.mark.parametrize("others", [(), (STATIC,)], ids=["alone", "files beside it"])
def test_requests_that_wait_while_none_ends_are_in_progress_for_as_long(others: tuple[Requests, ...]) -> None:
    """Clients that wait for their answers, and send nothing else; files and lines of the proxy's own go on."""
    scene = Scene([BEFORE, HUNG, *others])
    for instant in (33.0, 40.0, 55.0, 59.0):
        samples = scene.run(instant)
        assert in_progress(samples) == pytest.approx(40.0, abs=2.0), instant
        assert refused(samples) in ([], ["app_stalled"])
        assert needed(samples) in ((1.0, 2.0, 3.0) if instant < 45.0 else (None,))
    assert refused(samples) == ["app_stalled"]


def test_requests_that_wait_are_in_progress_after_the_last_count_of_before_is_dropped() -> None:
    assert in_progress(Scene([BEFORE, HUNG]).run(200.0)) == 40.0


def test_app_is_not_stalled_while_a_worker_is_free_or_a_service_may_last_so_long() -> None:
    free = Scene([BEFORE, HUNG], demands={"shop": Demand(ServiceTimes(0.1), 41.0)}, hold=60.0).run(59.0)
    slow = Scene([BEFORE, HUNG], demands={"shop": Demand(ServiceTimes(2.0), 8.0)}, hold=60.0).run(59.0)
    assert refused(free) == refused(slow) == []


def test_requests_that_hang_beside_others_that_end_are_refused_for_as_long_as_they_may_be_open_connections() -> None:
    scene = Scene([LONG, HUNG])
    for instant in (33.0, 45.0, 60.0):
        samples = scene.run(instant)
        assert (needed(samples), in_progress(samples), refused(samples)) == (None, None, ["open_connections"])
    samples = scene.run(70.0)  # they have lasted for longer than 30 s
    assert refused(samples) == []
    assert in_progress(samples) == pytest.approx(2.0, abs=4.0)


def test_number_that_is_the_same_for_open_connections_and_for_requests_that_wait_is_given() -> None:
    few = lasting(np.linspace(30.0, 31.0, 5), 1_000.0)
    scene = Scene([LONG, few], demands={"shop": Demand(ServiceTimes(0.1), 20.0)})
    before, after = scene.run(29.0), scene.run(40.0)
    assert (in_progress(after), refused(after)) == (None, [])
    assert needed(after) == pytest.approx(needed(before), abs=1.0)


def test_many_connections_that_end_at_once_are_refused_until_the_log_shows_them() -> None:
    scene = Scene([LONG, lasting(np.linspace(30.0, 31.0, 40), 60.0, status=504)])
    assert in_progress(scene.run(89.0)) == pytest.approx(2.0, abs=4.0)
    samples = scene.run(90.8)
    assert (needed(samples), in_progress(samples), refused(samples)) == (None, None, ["open_connections"])
    samples = scene.run(93.0)
    assert (in_progress(samples), refused(samples)) == (present(LONG, 93.0), [])


def test_queue_of_an_overload_is_exact_and_never_refused() -> None:
    parts = poisson(20.0, 0.0, 30.0), poisson(60.0, 30.0, 60.0, seed=9), poisson(20.0, 60.0, 110.0, seed=11)
    requests = served_in_turn(np.concatenate(parts), 4)
    scene = Scene([requests], demands={"shop": Demand(ServiceTimes(0.1), 4.0)})
    for instant in np.arange(5.0, 110.0, 3.0).tolist():
        samples = scene.run(instant)
        assert refused(samples) == [], instant
        assert in_progress(samples) == pytest.approx(present(requests, instant), abs=1.0), instant
    assert max(present(requests, instant) for instant in range(110)) > 500


def test_exporter_that_starts_while_the_app_hangs_does_not_know_what_waits() -> None:
    before = lasting(poisson(5.0, -10.0, -1.0), 0.1)
    samples = Scene([before, lasting(np.linspace(-1.0, -0.5, 40), 1_000.0)]).run(AT)
    assert (needed(samples), in_progress(samples), refused(samples)) == (None, None, ["open_connections"])


@pytest.mark.parametrize("other", [None, "blog"])
def test_jump_of_others_changes_nothing(other: str | None) -> None:
    begin = np.concatenate([poisson(20.0, 0.0, 30.0, seed=4), poisson(400.0, 30.0, 60.0, seed=5)])
    others = lasting(np.sort(begin), 0.1, service=other)
    scene, alone = Scene([STEADY, others]), Scene([STEADY, lasting(np.arange(0.5, 60.0), 0.001, service=None)])
    for instant in (29.0, 30.5, 31.0, 32.0, 40.0):
        samples, expected = scene.run(instant), alone.run(instant)
        assert refused(samples) == refused(expected) == []
        assert abs((needed(samples) or 0.0) - (needed(expected) or 0.0)) <= 1.0, instant


def test_others_that_ended_before_the_first_count_are_not_in_it() -> None:
    """The log is known from before the start, here by its lines that are 2 s late."""
    shop = lasting(np.concatenate([poisson(20, -2, 20), poisson(80, 20, 22)]), 0.1)
    before = lasting(poisson(20, -2, -0.2), 0.1, service="blog")
    samples = Scene([shop, before], delay=2.0).run(21.8)
    assert in_progress(samples) == (shop.begin <= 21.8).sum() - (shop.end <= 21.8).sum()
    assert needed(samples) == needed(Scene([shop], delay=2.0).run(21.8))
    during = lasting(poisson(20, -2, 0.5), 0.1, service="blog")
    assert (needed(Scene([shop, during], delay=2.0).run(21.8)) or 0) < (needed(samples) or 0)


def test_jump_is_there_beside_static_files() -> None:
    scene = Scene([BEFORE, STATIC, JUMP])
    before, after = scene.run(30.0), scene.run(32.0)
    assert needed(before) in (3.0, 4.0, 5.0)
    assert needed(after) == pytest.approx(14.0, abs=4.0)


@pytest.mark.parametrize("is_logged", [True, False], ids=["logged at their ends", "never logged"])
def test_open_connections_are_not_in_progress(is_logged: bool) -> None:
    sockets = lasting(poisson(5.0, 0.0, 20.0, seed=6), 1_000.0, status=101, is_logged=is_logged)
    scene = Scene([STEADY, sockets, lasting(np.arange(-50.0, 60.0, 0.5), 45.0)])
    assert refused(scene.run(AT)) == ["open_connections"]  # a hundred are new
    samples = scene.run(55.0)
    assert refused(samples) == []
    assert in_progress(samples) == pytest.approx(2.0, abs=6.0)
    assert needed(samples) in (3.0, 4.0, 5.0, 6.0)


def test_open_connections_that_come_and_go_are_not_in_progress() -> None:
    begin = poisson(5.0, -500.0, 200.0, seed=6)
    lasted = np.random.default_rng(4).exponential(60.0, len(begin))
    scene = Scene([LONG, Requests(begin, begin + lasted, status=101)])
    assert refused(scene.run(AT)) == ["open_connections"]
    for instant in np.arange(35.0, 190.0, 5.0).tolist():
        samples = scene.run(instant)
        assert refused(samples) == [], instant
        assert needed(samples) in (3.0, 4.0, 5.0, 6.0), instant


def test_queries_are_not_requests() -> None:
    """The page is read five times a second; a request comes every five seconds."""
    samples = Scene([lasting(np.arange(0.0, 60.0, 5.0), 0.1)]).run(AT)
    assert needed(samples) == 0.0
    assert in_progress(samples) == 0.0


def test_counter_of_a_restarted_proxy_begins_at_zero() -> None:
    scene = Scene([STEADY])
    scene.run(AT)
    scene._reads -= 100_000  # the count falls
    samples = scene.run(AT + 4.0)
    assert refused(samples) == []
    assert needed(samples) in (3.0, 4.0, 5.0)


def test_page_that_answers_no_more_gives_no_number() -> None:
    scene = Scene([STEADY])
    assert needed(scene.run(AT)) is not None
    scene.signal.read(scene.now + 3.0, complete=True)
    late = scene.signal.samples(["shop"], 1_767_225_600.0 + AT + 3.0)
    samples = {(sample.name, *sample.labels): sample.value for sample in late}
    assert (needed(samples), refused(samples)) == (None, ["no_count"])
    assert in_progress(samples) is None


def test_clocks_that_disagree_give_no_number() -> None:
    scene = Scene([STEADY])
    scene.run(AT)
    scene.signal.read(scene.now + EPOCH, complete=True, clocks_disagree=True)
    late = scene.signal.samples(["shop"], EPOCH + AT)
    samples = {(sample.name, *sample.labels): sample.value for sample in late}
    assert (needed(samples), refused(samples), in_progress(samples)) == (None, ["clocks_disagree"], None)
    assert refused(scene.run(AT + 1.0)) == []


def test_counts_of_before_a_step_of_the_clock_are_forgotten() -> None:
    """As if the clock was set back by an hour: what was counted before would lie after all that follows."""
    scene, new = Scene([STEADY]), Scene([STEADY])
    scene.now = 3_600.0
    scene._tick(3_600.0)
    scene.signal.restart()
    scene.now = 0.0
    assert scene.run(AT) == new.run(AT)


def test_every_reason_has_a_series() -> None:
    samples = Scene([STEADY]).run(AT)
    reasons = [key[2] for key in samples if key[0] == "sojourn_live_refused"]
    assert reasons == list(LIVE_REASONS)


def test_two_proxies_are_added_up_and_one_of_two_is_not_enough() -> None:
    """The log has the requests of both."""
    other = lasting(poisson(20.0, 0.0, 60.0, seed=7), 0.1, proxy="edge-2")
    each = [lambda requests: requests.proxy == "edge", lambda requests: requests.proxy == "edge-2"]
    both = Scene([STEADY, other], (STATUS, f"{STATUS}2"), each).run(AT)
    assert needed(both) in (6.0, 7.0, 8.0)
    one = Scene([STEADY, other], (STATUS,), each[:1]).run(AT)
    assert (needed(one), refused(one)) == (None, ["too_few_counts"])


def test_more_requests_in_the_log_than_are_counted() -> None:
    """Two proxies of one name."""
    other = lasting(poisson(20.0, 0.0, 60.0, seed=7), 0.1)
    samples = Scene([STEADY, other], (STATUS,), [lambda requests: requests is STEADY]).run(AT)
    assert (needed(samples), refused(samples)) == (None, ["too_few_counts"])


def test_long_requests_that_are_not_logged_are_refused_and_short_ones_are_not() -> None:
    begin = poisson(40.0, 0.0, 60.0, seed=8)
    hidden = Scene([STEADY, lasting(begin, 0.5, service="hidden", is_logged=False)]).run(AT)
    assert (needed(hidden), refused(hidden)) == (None, ["unlogged_requests"])
    checks = Scene([STEADY, lasting(begin, 0.001, service=None, is_logged=False)]).run(AT)
    assert refused(checks) == []
    assert needed(checks) in (3.0, 4.0, 5.0)


def test_log_that_falls_silent_is_late_where_it_is_needed() -> None:
    """Alone behind the proxy, the service needs no line; beside others it does."""
    alone = Scene([STEADY], silent_after=30.0)
    assert needed(alone.run(33.0)) in (3.0, 4.0, 5.0)
    beside = Scene([STEADY, STATIC], silent_after=30.0)
    assert needed(beside.run(30.0)) in (3.0, 4.0, 5.0)
    assert refused(beside.run(44.0)) == []
    assert refused(beside.run(46.0)) == ["log_late"]


@pytest.mark.parametrize("delay", [0.3, 1.5])
def test_delayed_log_is_compared_with_the_counts_of_its_time(delay: float) -> None:
    samples = Scene([STEADY, STATIC], delay=delay).run(30.0)
    assert refused(samples) == []
    assert needed(samples) in (3.0, 4.0, 5.0)
    assert in_progress(samples) == pytest.approx(2.0, abs=5.0)


def test_app_that_counts_is_refused_while_all_its_workers_are_busy() -> None:
    calm = Scene([STEADY], has_waiting=False, has_total=False)
    assert refused(calm.run(AT)) == []
    assert needed(calm.run(AT)) in (3.0, 4.0, 5.0)
    full = Scene([STEADY, JUMP], has_waiting=False, has_total=False)
    assert refused(full.run(32.0)) == ["app_saturated"]


def test_count_of_a_service_alone_needs_no_line_of_others() -> None:
    scene = Scene([STEADY, STATIC, JUMP], (f"shop={STATUS}",), [lambda requests: requests.service == "shop"])
    assert needed(scene.run(30.0)) in (3.0, 4.0, 5.0)
    assert needed(scene.run(31.0)) == pytest.approx(13.0, abs=3.0)


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        (Demand(), "no_service_time"),
        (Demand(ServiceTimes(0.1), 8.0, refused=WAITS), WAITS),
        (Demand(ServiceTimes(3.0), 8.0), "window_too_short"),
    ],
)
def test_demand_that_is_not_known_is_refused(demand: Demand, reason: str) -> None:
    samples = Scene([STEADY], demands={"shop": demand}).run(AT)
    assert (needed(samples), refused(samples)) == (None, [reason])
    assert in_progress(samples) is not None


def test_workers_that_do_not_help_are_not_needed() -> None:
    bounded = Scene([STEADY, JUMP], demands={"shop": Demand(ServiceTimes(0.1), 2.0, useful=3.0)})
    assert needed(bounded.run(32.0)) == 3.0
    slowed = Scene([STEADY], demands={"shop": Demand(ServiceTimes(0.1), 8.0, factor=2.0)})
    plain = Scene([STEADY], demands={"shop": Demand(ServiceTimes(0.1), 4.0)})
    assert needed(slowed.run(AT)) == 2 * (needed(plain.run(AT)) or 0.0)
