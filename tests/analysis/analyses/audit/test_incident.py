"""The incident of a log: its interval, its figures, and none in a stationary log."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import sojourn
from pool_simulator import EPOCH, PoolSettings, Surge, as_lines, simulated_pool
from sojourn.analyses.audit.incident import Incident
from sojourn.store import load
from syrupy.assertion import SnapshotAssertion
from wide_tables import one_of

BEGIN, END = 100.0, 125.0
SURGE = PoolSettings(requests=6_000, rate=20.0, surges=(Surge(BEGIN, END, 3),), skews=(0.0, 0.0), seed=11)


def log_of(folder: Path, settings: PoolSettings) -> Path:
    log = folder / "access.jsonl"
    log.write_bytes(b"".join(as_lines(simulated_pool(settings)[0])))
    return log


@pytest.fixture(scope="module")
def surge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_of(tmp_path_factory.mktemp("surge"), SURGE)


def incident_in(log: Path | str) -> Incident:
    incident = sojourn.split(log).audit.incident
    assert incident is not None
    return incident


def test_a_surge_is_an_incident_with_its_begin_and_end(surge: Path) -> None:
    incident = incident_in(surge)
    begin, end = (instant.timestamp() - EPOCH for instant in (incident.begin, incident.end))
    assert begin == pytest.approx(BEGIN, abs=4)
    # It ends when the queue is empty again: the surplus of the surge takes longer than the surge.
    assert end > END
    after = pl.col("start").is_between(incident.end, incident.end + timedelta(seconds=10))
    rows = sojourn.split(surge).rows.filter(after).select(pl.col("queueing_delay").mean()).collect()
    assert rows.item() < incident.wait / 5
    assert incident.arrivals == pytest.approx(3, rel=0.25)
    assert incident.share_of_waiting > 0.8
    assert incident.wait > 8 * incident.usual_wait


def test_figures_of_the_incident_are_those_of_its_requests(surge: Path, snapshot: SnapshotAssertion) -> None:
    result = sojourn.split(surge)
    document = result.to_dict()
    incident: dict[str, Any] = document["incident"]
    begin, end = (datetime.fromisoformat(incident[key]) for key in ("from", "to"))
    alone = sojourn.split(surge, since=begin, until=end).to_dict()
    assert incident["requests"] == alone["requests"]
    assert incident["queueing_delay"] == pytest.approx(alone["components"]["queueing_delay"], abs=1e-4)
    assert incident["response_time"] == pytest.approx(alone["response_time"])
    assert incident["queueing_share"] == pytest.approx(alone["queueing_share"], abs=1e-3)
    assert document["audit"]["stationary"] is False
    assert result.audit.incident is not None
    assert result.audit.incident.sentence in document["verdict"]["sentence"]
    assert result.audit.incident.sentence == snapshot
    assert [row[0] for row in result.section.tables[1].rows] == ["response time", "queueing delay", "service time"]


def test_a_store_names_the_same_incident(surge: Path, store_dsn: str) -> None:
    load(store_dsn, surge)
    one, other = (sojourn.split(source).to_dict()["incident"] for source in (surge, store_dsn))
    assert other.keys() == one.keys()
    for key in one:
        expected = one[key]
        assert other[key] == (expected if isinstance(expected, str) else pytest.approx(expected, abs=1e-6)), key


@pytest.mark.parametrize(("rate", "seed"), one_of(5, [15.0, 26.0, 32.0], range(5)))
def test_a_stationary_log_has_no_incident(tmp_path: Path, rate: float, seed: int) -> None:
    log = log_of(tmp_path, PoolSettings(requests=4_000, rate=rate, seed=seed))
    assert sojourn.split(log).audit.incident is None


def test_slow_services_are_an_incident_too(tmp_path: Path, surge: Path) -> None:
    """A surge of the route that takes longest: hardly more requests, and far more work."""
    slow = PoolSettings(requests=6_000, rate=20.0, surges=(Surge(BEGIN, END, 8, "/export"),), seed=3)
    incident = incident_in(log_of(tmp_path, slow))
    assert incident.begin.timestamp() - EPOCH == pytest.approx(BEGIN, abs=6)
    assert incident.services is not None
    assert incident.services > incident.arrivals
