"""An objective that the mix of routes, or the services of one route, break has no rate at which it breaks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sojourn
from pool_simulator import PoolSettings, Route, Surge, as_lines, simulated_pool
from sojourn.store import load
from syrupy.assertion import SnapshotAssertion

LIGHT = {"/": Route(0.96, 0.030), "/reports": Route(0.04, 0.500)}
# Many requests of one route in nine intervals, and of the other one in others, when the rate is higher.
BY_MIX = PoolSettings(
    requests=14_000, rate=20.0, routes=LIGHT, workers=2, seed=4,
    surges=(
        *(Surge(60.0 * k, 60.0 * k + 12, 12, "/reports") for k in range(1, 10)),
        *(Surge(60.0 * k + 35, 60.0 * k + 50, 2, "/") for k in range(1, 10)),
    ),
)  # fmt: skip
# All routes together: more and more of them.
BY_RATE = PoolSettings(
    requests=24_000, rate=10.0, routes={"/": Route(1.0, 0.050)}, workers=2, seed=5,
    surges=tuple(Surge(40.0 * k, 40.0 * k + 40, 1 + k) for k in range(1, 10)),
)  # fmt: skip
ALONE = {"/": Route(0.95, 0.020), "/reports": Route(0.05, 0.900)}
BY_SERVICE = PoolSettings(requests=6_000, rate=10.0, routes=ALONE, workers=4, seed=6, surges=(Surge(100, 300, 3),))


def log_of(folder: Path, settings: PoolSettings) -> str:
    log = folder / "access.jsonl"
    log.write_bytes(b"".join(as_lines(simulated_pool(settings)[0])))
    return str(log)


@pytest.fixture(params=["file", "store"])
def source_of(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Returns the source for a log: itself, or a store with it."""

    def of(log: str) -> str:
        if request.param == "file":
            return log
        dsn: str = request.getfixturevalue("store_dsn")
        load(dsn, log)
        return dsn

    return of


def test_the_mix_breaks_the_objective_and_not_the_rate(
    tmp_path: Path, source_of: Callable[[str], str], snapshot: SnapshotAssertion
) -> None:
    result = sojourn.capacity(source_of(log_of(tmp_path, BY_MIX)), slo="mean=0.4", window=5)
    (knee,) = result.knees
    assert knee.rate is None
    assert knee.route == "/reports"
    assert result.section.sentence == snapshot(name="the same of both engines")
    assert result.to_dict()["knees"][0]["route"] == "/reports"


@pytest.mark.thorough
def test_a_rate_remains_where_the_rate_breaks_the_objective(tmp_path: Path) -> None:
    (knee,) = sojourn.capacity(log_of(tmp_path, BY_RATE), slo="mean=0.5", window=5).knees
    assert knee.route is None
    assert knee.rate is not None
    # Two backends of two workers serve 80 requests/s.
    assert 50 < knee.rate < 90


def test_no_rate_keeps_an_objective_that_services_alone_exceed(tmp_path: Path, source_of: Callable[[str], str]) -> None:
    log = log_of(tmp_path, BY_SERVICE)
    (knee,) = sojourn.capacity(source_of(log), slo="p99=0.5", window=5, target_rate=100.0).knees
    assert (knee.rate, knee.at_least, knee.route) == (None, None, "/reports")
    rows = sojourn.split(log).rows.collect()
    above = np.mean(rows["service_time"].to_numpy() > 0.5)
    assert above > 0.01
    assert knee.reason is not None
    assert f"{above * 100:.1f} %" in knee.reason
