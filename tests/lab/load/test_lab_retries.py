"""Clients that ask again, and users who join: what is sent when, and what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import StubServer, generated, http_server, plan_for
from sojourn_lab.load.generator.loops import joins_after
from sojourn_lab.scenario.load import ClosedLoad, ConstantLoad, Retries, retries_with_time_scaled

pytestmark = pytest.mark.alone


def test_failure_is_retried_with_growing_pauses(tmp_path: Path) -> None:
    retries = Retries(attempts=3, backoff=0.1, factor=2.0)
    with http_server(StubServer(status=503)) as server:
        summary, records = generated(plan_for(tmp_path, server.url, ConstantLoad(2.0), duration=0.95, retries=retries))
    assert len(server.requests) == len(records) == 6
    for name in {record.id for record in records}:
        own = sorted((record for record in records if record.id == name), key=lambda record: record.attempt)
        assert [record.attempt for record in own] == [1, 2, 3]
        for before, after, pause in zip(own, own[1:], (0.1, 0.2), strict=False):
            assert before.done is not None
            assert pause - 1e-5 <= after.intended - before.done < pause + 1.0
    # Every attempt failed, and the two that were wanted were not served.
    assert (summary.offered, summary.answered, summary.failed) == (2, 6, 6)
    assert summary.useful is not None
    assert (summary.useful.wanted, summary.useful.served, summary.useful.attempts) == (2, 0, 3.0)


def test_a_success_is_the_end_and_its_latency_counts_from_the_first_attempt(tmp_path: Path) -> None:
    server = StubServer()

    def fails_first(number: int) -> None:
        server.status = 503 if number == 0 else 200

    server.before_answer = fails_first
    with http_server(server):
        plan = plan_for(tmp_path, server.url, ConstantLoad(2.0), duration=0.4, retries=Retries(attempts=4, backoff=0.2))
        summary, records = generated(plan)
    assert [(record.attempt, record.status) for record in records] == [(1, 503), (2, 200)]
    assert summary.useful is not None
    assert (summary.useful.served, summary.useful.share, summary.useful.attempts) == (1, 1.0, 2.0)
    assert summary.useful.latency.mean == pytest.approx(records[1].done - records[0].intended, abs=1e-5)  # type: ignore[operator]


def test_client_error_is_not_retried(tmp_path: Path) -> None:
    with http_server(StubServer(status=404)) as server:
        _, records = generated(
            plan_for(tmp_path, server.url, ConstantLoad(5.0), duration=0.4, retries=Retries(attempts=3))
        )
    assert [record.attempt for record in records] == [1, 1]


def test_pauses_move_with_the_scale() -> None:
    scaled = retries_with_time_scaled(Retries(attempts=2, backoff=0.5, factor=3.0), 0.1)
    assert scaled == Retries(attempts=2, backoff=0.05, factor=3.0)
    assert retries_with_time_scaled(None, 0.1) is None


def test_users_join_one_after_the_other_over_the_measured_time(tmp_path: Path) -> None:
    load = ClosedLoad(concurrency=5, think_time=0.02, from_concurrency=1)
    assert [joins_after(load, index, 2.0, 8.0) for index in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]
    with http_server(StubServer()) as server:
        _, records = generated(plan_for(tmp_path, server.url, load, duration=1.0))
    first = {user: min(each.intended for each in records if each.user == user) for user in range(5)}
    begun = first[0]
    for user, instant in first.items():
        assert instant - begun == pytest.approx(max(user - 1, 0) * 0.25, abs=0.15)


def test_users_who_pause_are_spread_over_one_pause() -> None:
    load = ClosedLoad(concurrency=4, think_time=2.0)
    assert [joins_after(load, index, 0.0, 9.0) for index in range(4)] == [0.0, 0.5, 1.0, 1.5]
