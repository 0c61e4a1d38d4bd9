"""Delays by stamps that are cut to a millisecond are right on average: the split and blame of simulated systems."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sojourn
from clock_support import lines_of, requests_through

BIAS = 5e-5  # s


@pytest.mark.parametrize("tick", [1e-3, 1e-6], ids=["ms", "us"])
@pytest.mark.parametrize("offset", [0.0, 0.137])
@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_the_mean_queueing_delay_has_no_bias(tmp_path: Path, load: float, offset: float, tick: float) -> None:
    seen = list(requests_through(lambda _: offset, requests=3000, rate=load / 0.05, tick=tick))
    log = tmp_path / "a.jsonl"
    log.write_bytes(lines_of(seen))
    result = sojourn.split(log)
    mean = result.to_dict()["components"]["queueing_delay"]["mean"]
    assert abs(mean - sum(one.queue for one in seen) / len(seen)) <= BIAS
    assert result.audit.identity_max_error < 1e-6
    # A request that did not wait lies up to half a tick below zero, which is no negative delay.
    assert "queue" not in result.audit.negative


def test_blame_at_half_load_charges_what_was_waited(tmp_path: Path) -> None:
    """Work of 14 ms: half a millisecond a request would be 3 % of all the waiting."""
    seen = list(requests_through(lambda _: 0.0, requests=6000, rate=0.5 / 0.014, service=0.014, seed=3))
    log = tmp_path / "a.jsonl"
    log.write_bytes(lines_of(seen))
    assert sojourn.blame(log).waited == pytest.approx(math.fsum(one.queue for one in seen), rel=0.005)
