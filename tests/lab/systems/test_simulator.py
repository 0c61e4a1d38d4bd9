"""The simulator of the study is exact: laws that hold for every sample path, and known means."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import pytest
from systems.kernel import Cores, Kernel, Process, Slots
from systems.log import record
from systems.requests import Change, Request, Route, drawn, exponential
from systems.site import Setup, Site, serve
from systems.truth import Facts, Served, Truth

ONE_ROUTE = (Route("/page", 1.0, exponential(0.1)),)


def _area(intervals: list[tuple[float, float]]) -> float:
    """Return the integral of the number of intervals that are open, counted from one change to the next."""
    changes = sorted([(begin, 1) for begin, _ in intervals] + [(end, -1) for _, end in intervals])
    area, count, before = 0.0, 0, changes[0][0]
    for instant, step in changes:
        area += count * (instant - before)
        count, before = count + step, instant
    return area


def test_follows_littles_law() -> None:
    requests = drawn(2000, 36.0, ONE_ROUTE, seed=1)
    serve(requests, Setup(workers=4))
    in_system = _area([(r.reached, r.released) for r in requests])
    assert in_system == pytest.approx(sum(r.released - r.reached for r in requests), rel=1e-9)


def test_keeps_the_order_of_phases_and_demands() -> None:
    requests = drawn(1000, 30.0, (Route("/a", 1.0, exponential(0.05), exponential(0.03), exponential(0.02)),), seed=2)
    serve(requests, Setup(workers=4))
    for r in requests:
        assert (
            r.start <= r.stamp <= r.gated <= r.reached <= r.got_worker <= r.begun < r.headers < r.answered < r.released
        )
        assert r.headers - r.begun == pytest.approx(r.service)
        assert r.released - r.got_worker == pytest.approx(r.service + r.body + r.after)


def test_worker_serves_one_request_at_a_time_and_never_idles_beside_a_queue() -> None:
    requests = drawn(2000, 36.0, ONE_ROUTE, seed=3)
    serve(requests, Setup(workers=4))
    by_worker = defaultdict(list)
    for r in requests:
        by_worker[r.worker].append((r.got_worker, r.released))
    assert len(by_worker) == 4
    for spells in by_worker.values():
        spells.sort()
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spells))
    ends = {r.released for r in requests}
    assert all(r.got_worker == r.reached or r.got_worker in ends for r in requests)


def test_serves_in_the_order_of_arrival() -> None:
    requests = drawn(1000, 36.0, ONE_ROUTE, seed=4)
    serve(requests, Setup(workers=4))
    by_arrival = sorted(requests, key=lambda r: r.reached)
    assert [r.got_worker for r in by_arrival] == sorted(r.got_worker for r in requests)


@pytest.mark.parametrize("workers", [1, 2, 6])
def test_mean_wait_is_that_of_erlang_c(workers: int) -> None:
    load = 0.7 * workers
    requests = drawn(60_000, load / 0.1, ONE_ROUTE, seed=5)
    serve(requests, Setup(workers=workers))
    blocked = load**workers / math.factorial(workers) / 0.3
    probability = blocked / (sum(load**n / math.factorial(n) for n in range(workers)) + blocked)
    expected = probability * 0.1 / (workers * 0.3)
    waits = [r.got_worker - r.reached for r in requests]
    assert sum(waits) / len(waits) == pytest.approx(expected, rel=0.08)


def test_cores_share_their_speed() -> None:
    kernel = Kernel()
    cores, ends = Cores(kernel, 2), {}

    def job(name: str, demand: float) -> Process:
        yield cores.burn(demand)
        ends[name] = kernel.now

    for name, demand, at in (("a", 1.0, 0.0), ("b", 1.0, 0.0), ("c", 1.0, 0.0), ("d", 0.25, 3.0)):
        kernel.start(job(name, demand), at)
    kernel.run()
    assert ends == pytest.approx({"a": 1.5, "b": 1.5, "c": 1.5, "d": 3.25})
    assert cores.busy == pytest.approx(3.25)


def test_slots_are_given_in_the_order_of_arrival() -> None:
    kernel, ends = Kernel(), []
    slots = Slots(kernel, 1)

    def job(name: str) -> Process:
        yield slots.take
        yield 1.0
        slots.release()
        ends.append((name, kernel.now))

    for at, name in enumerate("abc"):
        kernel.start(job(name), at * 0.1)
    kernel.run()
    assert ends == [("a", 1.0), ("b", 2.0), ("c", 3.0)]


def test_pause_delays_work_by_its_length() -> None:
    site = Site(Setup(pauses=((1.0, 1.5), (2.0, 2.25))))
    assert site.working(0.9) == pytest.approx(0.9)
    assert site.working(1.2) == pytest.approx(1.7)
    assert site.working(3.0) == pytest.approx(3.75)


def test_limit_holds_for_requests_under_way() -> None:
    requests = drawn(1000, 36.0, ONE_ROUTE, seed=6)
    serve(requests, Setup(workers=8, limit=4))
    changes = sorted([(r.gated, 1) for r in requests] + [(r.end - r.send, -1) for r in requests])
    count, most = 0, 0
    for _, step in sorted(changes, key=lambda change: (round(change[0], 9), change[1])):
        count += step
        most = max(most, count)
    assert most == 4


def test_absent_worker_takes_no_request() -> None:
    requests = drawn(1000, 20.0, ONE_ROUTE, seed=7)
    site = serve(requests, Setup(workers=2, absences=lambda _: [(0, 5.0, 15.0)]))
    names = {r.worker for r in requests if 6.0 < r.got_worker < 15.0}
    assert len(names) == 1
    assert len({r.worker for r in requests}) == 3
    last = max(r.released for r in requests)
    assert site.presence == pytest.approx(2 * last - 10.0, abs=1.0)


def test_change_keeps_arrivals_and_demands() -> None:
    as_it_is = drawn(200, 20.0, seed=8)
    changed = drawn(200, 20.0, seed=8, change=Change(scale={"/search": 0.5}))
    assert [r.start for r in as_it_is] == [r.start for r in changed]
    for one, other in zip(as_it_is, changed, strict=True):
        assert other.service == one.service * (0.5 if one.route == "/search" else 1.0)


def test_blame_charges_the_requests_that_hold_the_worker() -> None:
    def simulation(change: Change) -> Served:
        requests = [Request(0, 0.0, "/long", 1.0), Request(1, 0.1, "/a", 0.2), Request(2, 0.2, "/b", 0.2)]
        return Served.by(serve(requests, Setup(workers=1 + change.workers), change))

    truth = Truth(simulation, Facts("one long request"))
    assert truth.blame == pytest.approx({"/long": 1.7 / 1.9, "/a": 0.2 / 1.9}, abs=0.001)
    assert truth.queued == pytest.approx(1.9 / 3, abs=0.001)
    assert truth.needed == 2
    assert truth.utilisation == pytest.approx(1.0, abs=0.001)
    assert truth.response(Change(workers=2))[0] == pytest.approx(1.4 / 3, abs=0.002)


def test_record_holds_instants_in_ms_and_app_times_in_us() -> None:
    requests = [Request(0, 1.0, "/a", 0.25, body=0.5)]
    serve(requests, Setup(workers=1))
    written = record(requests[0], "00")
    assert written["service_time"] == "0.250000"
    assert float(written["upstream_response_time"]) == pytest.approx(0.751, abs=0.0015)
    assert float(written["upstream_header_time"]) == pytest.approx(0.251, abs=0.0015)
    assert float(written["queueing_delay"]) == pytest.approx(0.137 + requests[0].begun - requests[0].stamp, abs=0.001)
    assert all(isinstance(value, str) for value in written.values())
