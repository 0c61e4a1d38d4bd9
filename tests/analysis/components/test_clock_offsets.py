"""The clock offset of each backend, from both envelopes."""

from __future__ import annotations

import math
import random

import pytest
from analysis_support import frame
from polars.testing import assert_frame_equal
from sojourn.components.clock_offsets import offsets
from sojourn.components.clock_offsets.offsets import clock_offsets
from sojourn.components.expressions import with_app_facts, with_spans


def offsets_of(*rows: dict[str, object]):
    return clock_offsets(with_app_facts(with_spans(frame(*rows), None)))


def request(rng: random.Random, skew: float, wait: float, one_way: float, tick: float = 0.0) -> dict[str, object]:
    """One request as nginx would log it: instants cut down to ``tick``."""

    def cut(instant: float) -> float:
        return math.floor(instant / tick) * tick if tick else instant

    stamp, service = rng.uniform(0, 1000), rng.uniform(0.01, 0.2)
    begun = stamp + one_way + wait
    arrived = begun + service + one_way
    return {
        "request_start": round(cut(stamp), 6), "start": round(cut(stamp), 6),
        "header": round(cut(arrived) - cut(stamp), 6), "response": round(cut(arrived) - cut(stamp), 6),
        "request_time": round(cut(arrived) - cut(stamp), 6), "connect": 0.0,
        "app_queueing_delay": round(begun + skew - cut(stamp), 6), "app_service_time": round(service, 6),
        "upstream": f"skew {skew}",
    }  # fmt: skip


@pytest.mark.parametrize("tick", [0.0, 0.001])
@pytest.mark.parametrize("skew", [0.0, 0.137, -0.052, 3600.0])
def test_offset_within_a_millisecond(skew: float, tick: float) -> None:
    rng = random.Random(4)
    rows = [request(rng, skew, max(rng.gauss(0, 0.1), 0), 0.0004, tick) for _ in range(400)]
    (row,) = offsets_of(*rows).to_dicts()
    assert row["offset"] == pytest.approx(skew, abs=1e-3)
    assert abs(row["offset"] - skew) <= row["uncertainty"] <= 0.003
    assert row["lower"] - 1e-9 <= skew <= row["upper"] + 1e-9
    assert row["requests"] == 400


def test_a_queue_that_was_never_empty_widens_the_uncertainty_but_hardly_moves_the_estimate() -> None:
    rng = random.Random(5)
    rows = [request(rng, 0.05, rng.uniform(0.3, 0.9), 0.0004, 0.001) for _ in range(400)]
    (row,) = offsets_of(*rows).to_dicts()
    assert row["offset"] == pytest.approx(0.05, abs=2e-3)
    assert row["uncertainty"] > 0.25


def test_each_pair_has_its_own_clock() -> None:
    rng = random.Random(6)
    rows = [request(rng, skew, 0, 0.0003) for skew in (0.1, -0.2) for _ in range(50)]
    clocks = offsets_of(*rows)
    assert clocks["upstream"].to_list() == ["skew -0.2", "skew 0.1"]
    assert clocks["offset"].to_list() == pytest.approx([-0.2, 0.1], abs=1e-4)


def test_retried_requests_do_not_fix_a_clock() -> None:
    rng = random.Random(7)
    assert offsets_of({**request(rng, 0.1, 0, 0.0003), "attempts": 2}).is_empty()


def test_clocks_of_small_pairs_are_those_of_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pairs beyond the limit only drift and steps are not looked for."""
    rng = random.Random(8)
    skews = {skew: 5 + k for k, skew in enumerate((0.0, 0.137, -0.052, 3600.0, 0.0002))}
    rows = [request(rng, skew, max(rng.gauss(0, 0.1), 0), 0.0004, 0.001) for skew, n in skews.items() for _ in range(n)]
    rows += [request(rng, 2.0, 0.0, 0.0004) for _ in range(50)]
    every = offsets_of(*rows)
    monkeypatch.setattr(offsets, "LARGEST", 1)
    bounded = offsets_of(*rows)
    assert bounded["upstream"].to_list() == every["upstream"].to_list()
    whole, part = (table.drop("segments") for table in (every, bounded))
    assert_frame_equal(whole, part, abs_tol=1e-9)
    for one, other in zip(every["segments"], bounded["segments"], strict=True):
        assert [(each["from"], each["to"], each["requests"]) for each in one] == [
            (each["from"], each["to"], each["requests"]) for each in other
        ]
    assert [each[0]["drift_lower"] is None for each in bounded["segments"]].count(False) == 1
