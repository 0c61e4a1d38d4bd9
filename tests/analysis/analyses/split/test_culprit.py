"""The verdict on a queue names the route that causes it, if few requests cause most of the waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
import sojourn
from pool_simulator import PoolSettings, Route, as_lines, simulated_pool
from syrupy.assertion import SnapshotAssertion


def split_of(folder: Path, routes: dict[str, Route], rate: float, backends: int = 2) -> sojourn.SplitResult:
    log = folder / "access.jsonl"
    settings = PoolSettings(requests=6_000, routes=routes, rate=rate, backends=backends)
    log.write_bytes(b"".join(as_lines(simulated_pool(settings)[0])))
    return sojourn.split(log)


def test_the_culprit_and_the_action_lead_the_verdict(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """A twentieth of the requests has four fifths of the work: 0.95 s each."""
    result = split_of(tmp_path, {"/": Route(0.95, 0.010), "/reports/monthly": Route(0.05, 0.950)}, 60.0)
    assert result.verdict.cause == "queueing"
    assert result.culprit is not None
    top = sojourn.blame(result).culprits.row(0, named=True)
    assert (result.culprit.route, result.culprit.share) == ("/reports/monthly", pytest.approx(top["of_waited"]))
    assert result.culprit.requests == pytest.approx(0.05, abs=0.02)
    assert result.culprit.held == pytest.approx(0.95, rel=0.15)
    assert result.to_dict()["verdict"]["culprit"] == pytest.approx(result.culprit.to_dict())
    assert result.verdict.sentence.partition(" Of ")[0] == snapshot
    # The remedy is real: a replay with shorter services of this route has hardly any wait.
    (variant,) = sojourn.whatif(result, {"service:/reports/monthly": "x0.5"}).variants
    assert variant.queueing_delay["mean"] < 0.3 * result.components["queueing_delay"]["mean"]


def test_a_slow_route_that_makes_others_wait_leads_a_verdict_without_a_single_cause(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    result = split_of(tmp_path, {"/": Route(0.93, 0.020), "/reports/monthly": Route(0.07, 0.950)}, 8.0, 1)
    assert result.verdict.cause == "mixed"
    assert result.culprit is not None
    assert result.culprit.of_held > 0.6
    assert result.verdict.sentence.partition(" Of ")[0] == snapshot


def test_without_a_single_cause_a_route_with_little_work_does_not_lead(tmp_path: Path) -> None:
    """Half of the time is the work of a route that waits like the others, and holds workers no longer than they do."""
    result = split_of(tmp_path, {"/": Route(0.5, 0.050), "/other": Route(0.5, 0.060)}, 26.0, 1)
    assert result.verdict.cause == "mixed"
    assert result.culprit is None
    assert result.verdict.sentence.startswith("No single cause")


def test_a_queue_of_all_requests_has_no_culprit(tmp_path: Path) -> None:
    result = split_of(tmp_path, {"/": Route(0.5, 0.050), "/other": Route(0.5, 0.060)}, 75.0)
    assert result.verdict.cause == "queueing"
    assert result.culprit is None
    assert result.to_dict()["verdict"]["culprit"] is None
