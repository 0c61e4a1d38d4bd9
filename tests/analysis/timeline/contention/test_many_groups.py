"""What services share at one of many backends: of these, some seem to share something by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from analysis_support import frame
from sojourn.components.split import checked_split
from sojourn.queueing.sharing import replay_shared
from sojourn.queueing.speed_laws import NOTHING_SHARED, SpeedLaw
from sojourn.queueing.system import System
from sojourn.timeline.contention import load_dependence
from sojourn.timeline.contention.load_dependence import LoadDependence
from sojourn.timeline.visits import Visits, visits

BACKENDS, REQUESTS = 6, 1_500


def visits_of(laws: list[SpeedLaw], seed: int) -> Visits:
    """Return the visits of backends with as many workers as requests, each with a law of its own."""
    rng = np.random.default_rng(seed)
    requests, none = [], np.zeros(REQUESTS)
    for number, law in enumerate(laws):
        workers = 6 + number  # services in progress differ: no law for all
        arrivals = np.cumsum(rng.exponential(1 / 25, REQUESTS))
        parts = (none, rng.exponential(0.1, REQUESTS), none)
        slowed = replay_shared(arrivals, parts, System((workers,), balancer="shared_queue"), (law,))
        for begin, lasted in zip(slowed.outcome.start.tolist(), slowed.lasted.tolist(), strict=True):
            requests.append({
                "start": begin, "request_start": begin, "app_queueing_delay": 0.0, "app_service_time": lasted,
                "header": lasted, "response": lasted, "request_time": lasted, "upstream": f"10.0.{number}.1:80",
            })  # fmt: skip
    return visits(checked_split(frame(*requests)).lazy())


@pytest.mark.parametrize("place", [0, 4])
def test_one_backend_of_many_that_shares_is_noticed(place: int) -> None:
    laws = [NOTHING_SHARED] * BACKENDS
    laws[place] = SpeedLaw(1.0, 3.5)
    contention = LoadDependence.of(visits_of(laws, 1)).contention
    assert contention is not None
    shared = [each for each in contention.resources if each.is_shared]
    assert [each.name for each in shared] == [f"10.0.{place}.1:80"]
    assert shared[0].estimate.best.law.capacity == pytest.approx(3.5, rel=0.15)


def beyond_doubt(visited: Visits) -> list[bool] | None:
    """Return which resources are shared; None where that is in doubt."""
    contention = LoadDependence.of(visited).contention
    if contention is None or contention.in_doubt:
        return None
    return [each.is_shared for each in contention.resources]


@pytest.mark.parametrize("capacity", [math.inf, 5.0, 4.0, 3.5])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_shared_little_is_judged_as_if_all_laws_were_estimated(
    seed: int, capacity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited = visits_of([SpeedLaw(1.0, capacity), *[NOTHING_SHARED] * (BACKENDS - 1)], seed)
    few = beyond_doubt(visited)
    monkeypatch.setattr(load_dependence._Groups, "scope_of", lambda *_, **__: load_dependence.BACKEND)
    monkeypatch.setattr(load_dependence._Groups, "is_suspected", lambda *_: True)
    assert few == beyond_doubt(visited)
