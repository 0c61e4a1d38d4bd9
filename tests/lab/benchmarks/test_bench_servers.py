"""The benchmarks of nginx, the middleware and the generator run at a small size; speeds are not asserted."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.proxy_load import why_not
from benchmarks.rows import Measurements, Settings
from benchmarks.suites import generator, nginx


def measured(name: str, folder: Path) -> Measurements:
    suite = importlib.import_module(f"benchmarks.suites.{name}")
    results: Measurements = suite.run(Settings(1, 0.01, folder, lambda _: None))
    for row in results.rows:
        assert math.isfinite(row.ours), row
        assert (row.theirs is None) == (row.ratio is None), row
        assert row.ratio is None or row.ratio > 0, row
    assert all(math.isfinite(slope.slope) for slope in results.slopes)
    return results


def test_nginx(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    results = measured("nginx", tmp_path)
    # A row for each setup but the peer, the rate of them all, three of latency.
    assert len(results.rows) == len(nginx.setups()) - 1 + 1 + 3
    assert all(row.ours > 0 for row in results.rows if row.unit != "ms")
    assert [row.goal for row in results.rows if row.unit == "ms"] == [0.1] * 3
    # Either the worker was busy and there is a goal, or the page says that it was not.
    assert (results.rows[0].goal == 0.9) != bool(results.skipped)
    assert len(results.slopes) == 2


def test_bare_log_format_has_the_record_keys_and_no_sojourn_variables() -> None:
    text = nginx.bare_format()
    assert "$sojourn_" not in text
    assert text.count('":"') == 29


def test_middleware(tmp_path: Path) -> None:
    results = measured("middleware", tmp_path)
    goals = [row for row in results.rows if row.goal is not None]
    assert [row.what.split(",")[0] for row in goals][:2] == ["WSGI", "ASGI"]
    assert all(row.goal == 10.0 and row.at == "most" for row in goals)
    assert len(results.slopes) == 2


def test_generator(tmp_path: Path) -> None:
    results = measured("generator", tmp_path)
    errors = [row for row in results.rows if row.what.startswith("schedule error")]
    assert len(errors) == 3
    assert all(row.ours > 0 for row in errors)
    assert sorted(row.ours for row in errors) == [row.ours for row in errors]


def test_lateness_is_relative_to_even_spacing() -> None:
    late = generator.lateness(np.array([5.0, 5.001, 5.004]), rate=1000)
    assert late == pytest.approx([0.0, 0.0, 0.002])
