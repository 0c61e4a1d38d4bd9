"""Visits: the four instants of every request against the exact simulator, workers, pools, and what is left out."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import sojourn
from analysis_support import frame, span, spans
from pool_simulator import EPOCH, PoolSettings, PoolTruth, as_lines, simulated_pool, span_lines
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sojourn.components.split import checked_split
from sojourn.timeline.visits import FROM_CONCURRENCY, FROM_OPTION, FROM_WORKER_VALUES, Visits, most_at_once, visits

ANSWERED = {
    "request_start": 0.0, "app_queueing_delay": 0.1, "app_service_time": 0.2, "header": 0.3, "response": 0.3,
    "request_time": 0.3,
}  # fmt: skip


def read(folder: Path, setting: PoolSettings) -> tuple[Visits, PoolTruth]:
    records, truth = simulated_pool(setting)
    (folder / "access.jsonl").write_bytes(b"".join(as_lines(records)))
    (folder / "app.jsonl").write_bytes(b"".join(span_lines(truth)))
    result = sojourn.split(folder / "access.jsonl", spans=[folder / "app.jsonl"], columns=("request_id", "tenant"))
    return visits(result.rows, columns=("request_id", "tenant")), truth


def of(*rows: dict[str, object], span_rows: object = None, **options: object) -> Visits:
    named = [{"request_id": str(i), **row} for i, row in enumerate(rows)]
    return visits(checked_split(frame(*named), span_rows).lazy(), **options)  # type: ignore[arg-type]


def test_instants_equal_the_simulator(tmp_path: Path) -> None:
    setting = PoolSettings(requests=3_000, rate=22, timeout=3.0, streams={"/export": 0.5}, seed=9)
    result, truth = read(tmp_path, setting)
    assert len(result) == 3_000
    assert sum(r.status == 504 for r in truth.requests) > 30
    by_id = {r.request_id: r for r in truth.requests}
    real = [by_id[request_id] for request_id in result.frame["request_id"]]
    since = result.base.timestamp() - EPOCH
    for name, attribute in (
        ("arrival", "stamp"), ("wait_end", "wait_end"), ("busy_start", "begun"), ("busy_end", "free"),
    ):  # fmt: skip
        measured = getattr(result, name) + since
        # nginx's clock ticks in milliseconds, and the app's is known to about one.
        assert np.abs(measured - [getattr(r, attribute) for r in real]).max() < 2.5e-3, name
    assert result.frame["tenant"].to_list() == [r.tenant for r in real]
    assert [result.backends[b] for b in result.backend] == [f"10.0.0.{r.backend + 1}:8080" for r in real]
    assert (np.diff(result.arrival) >= 0).all()


def test_a_retry_waits_from_its_own_attempt() -> None:
    row = {**ANSWERED, "attempts": 2, "retries": 2.0, "app_queueing_delay": 2.5, "request_time": 2.7, "response": 0.7,
           "header": 0.7}  # fmt: skip
    result = of(row)
    assert (result.arrival[0], result.wait[0], result.busy_start[0]) == pytest.approx((2.0, 0.4995, 2.4995))


def test_abandoned_request_holds_its_worker_later() -> None:
    gone = {
        "status": 504,
        "request_start": 0.0,
        "header": None,
        "response": 1.0,
        "request_time": 1.0,
        "request_id": "g",
    }
    result = of(gone, span_rows=spans(span("g", 3.0, 2.0)))
    assert (result.wait_end[0], result.busy_start[0], result.busy_end[0], result.held[0]) == pytest.approx(
        (1, 2.9995, 4.9995, 2)
    )


def test_counts_requests_left_out() -> None:
    gone = {"status": 504, "request_start": 0.0, "header": None, "response": 1.0, "request_time": 1.0}
    result = of(
        ANSWERED, gone, {"attempts": 0, "upstream": None, "status": 200}, {**ANSWERED, "request_id": "0"},
    )  # fmt: skip
    assert len(result) == 1
    assert result.left_out == {"not_proxied": 1, "no_wait": 1, "duplicates": 1}
    assert len(of()) == 0


def test_upgraded_connections_are_there_for_they_may_hold_a_worker() -> None:
    assert len(of(ANSWERED, {**ANSWERED, "status": 101})) == 2


def test_rows_without_an_id_are_all_kept() -> None:
    assert len(of({**ANSWERED, "request_id": None}, {**ANSWERED, "request_id": None})) == 2


def test_an_app_that_is_silent_about_its_service_holds_no_worker_that_is_known_of() -> None:
    result = of({**ANSWERED, "app_service_time": None})
    assert result.wait[0] == pytest.approx(0.0995)
    assert np.isnan(result.busy_start[0])
    assert np.isnan(result.busy_end[0])


def test_workers_are_names_that_lived_at_the_same_time() -> None:
    def served(start: float, worker: str | None) -> dict[str, object]:
        return {**ANSWERED, "start": start, "request_start": start, "worker": worker}

    # Worker 1 is replaced by 3 while 2 goes on.
    replaced = [served(0.0, "1"), served(0.1, "2"), served(5.0, "3"), served(5.1, "2")]
    known = of(*replaced).workers
    assert (known.count.tolist(), known.names.tolist(), known.source) == ([2], [3], (FROM_WORKER_VALUES,))
    seen = of(*(served(0.1 * i, None) for i in range(4))).workers
    assert (seen.count.tolist(), seen.source) == ([2], (FROM_CONCURRENCY,))
    reported = of(*replaced, workers={"10.0.0.1:80": 5}).workers
    assert (reported.count.tolist(), reported.source) == ([5], (FROM_OPTION,))


def test_backends_that_share_a_route_are_one_upstream() -> None:
    result = of(
        {**ANSWERED, "upstream": "a:1", "route": "/x"}, {**ANSWERED, "upstream": "b:1", "route": "/x"},
        {**ANSWERED, "upstream": "b:1", "route": "/y"}, {**ANSWERED, "upstream": "c:1", "route": "/y"},
        {**ANSWERED, "upstream": "d:1", "route": "/z"}, {**ANSWERED, "upstream": "e:1", "route": "/x", "service": "s"},
    )  # fmt: skip
    pools = {name: int(result.pool[i]) for i, name in enumerate(result.backends)}
    assert pools["a:1"] == pools["b:1"] == pools["c:1"]
    assert len({pools[name] for name in ("a:1", "d:1", "e:1")}) == 3
    assert result.pools[pools["a:1"]] == "a:1, b:1, c:1"


def test_backends_are_joined_as_connected_components_are() -> None:
    rng = np.random.default_rng(11)
    for links in rng.integers(1, 80, 40):
        rows = [(f"{a:02d}:1", f"/{b}") for a, b in rng.integers(0, 40, (links, 2))]
        result = of(*({**ANSWERED, "upstream": backend, "route": route} for backend, route in rows))
        edges = [(result.backends.index(backend), 100 + int(route[1:])) for backend, route in rows]
        graph = coo_array((np.ones(links), np.array(edges).T), shape=(200, 200))
        expected = connected_components(graph, directed=False)[1][: len(result.backends)]
        assert result.pool.tolist() == np.unique(expected, return_inverse=True)[1].tolist()


def test_the_order_of_the_lines_does_not_matter(tmp_path: Path) -> None:
    result, _ = read(tmp_path, PoolSettings(requests=800))
    lines = (tmp_path / "access.jsonl").read_bytes().splitlines(keepends=True)
    random.Random(1).shuffle(lines)
    (tmp_path / "other.jsonl").write_bytes(b"".join(lines))
    other = visits(sojourn.split(tmp_path / "other.jsonl", columns=("request_id", "tenant")).rows, columns=("tenant",))
    for name in ("arrival", "wait_end", "busy_start", "busy_end", "backend"):
        assert np.array_equal(getattr(result, name), getattr(other, name)), name


def test_most_at_once() -> None:
    assert most_at_once(np.array([]), np.array([])) == 0
    assert most_at_once(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == 1
    assert most_at_once(np.array([0.0, 0.5, 2.0]), np.array([1.0, 2.5, 3.0])) == 2
