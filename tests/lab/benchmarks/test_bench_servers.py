"""The benchmarks of nginx, the middleware and the generator run at a small size; speeds are not asserted."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks import instructions
from benchmarks.proxy_load import Setup, why_not
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


@pytest.mark.thorough
def test_nginx(tmp_path: Path) -> None:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    results = measured("nginx", tmp_path)
    # CPU, requests/s, three of latency, the CPU of the other setups, instructions where valgrind is installed.
    counted = 0 if instructions.why_not() else len(nginx.COUNTED)
    assert len(results.rows) == 2 + 3 + len(nginx.setups()) - 2 + counted
    assert all(row.ours > 0 for row in results.rows if row.unit != "ms")
    cpu, rate, median = results.rows[:3]
    assert (cpu.unit, cpu.goal, cpu.at) == ("µs of the worker", 1.12, "most")
    assert (median.unit, "p50" in median.what) == ("ms", True)
    assert [row.goal for row in results.rows if row.unit == "ms"] == [0.1] * 3
    # Either the worker was saturated and there is a goal, or the page says that it was not.
    assert (rate.goal == 0.9) != any("saturated" in reason for reason in results.skipped)
    assert len(results.slopes) == 2


def test_includes_need_more_instructions_than_the_stock_proxy(tmp_path: Path) -> None:
    if (reason := why_not() or instructions.why_not()) is not None:
        pytest.skip(reason)
    stock = instructions.instructions(tmp_path / "stock", Setup(), 80)
    included = instructions.instructions(tmp_path / "ours", nginx.setups()[nginx.OURS], 80)
    assert 1_000 < stock < included < 1_000_000


def test_count_of_a_callgrind_file() -> None:
    assert instructions.counted("events: Ir\nfn=(0)\n16 400\ntotals: 12345\n") == 12345
    assert instructions.counted("events: Ir\nsummary: 7\nfn=(0)\n") == 7
    with pytest.raises(SystemExit, match="no line totals"):
        instructions.counted("events: Ir\n")


def test_bare_log_format_has_the_record_keys_and_no_sojourn_variables() -> None:
    text = nginx.bare_format()
    assert "$sojourn_" not in text
    assert text.count('":"') == 31


def test_middleware(tmp_path: Path) -> None:
    results = measured("middleware", tmp_path)
    goals = [row for row in results.rows if row.goal is not None]
    assert [row.what.split(", ")[:2] for row in goals][:4] == [
        [interface, added] for interface in ("WSGI", "ASGI") for added in ("the headers", "Prometheus's histograms")
    ]
    assert {(row.goal, row.at) for row in goals if not row.what.startswith("PHP")} == {(10.0, "most")}
    assert {(row.goal, row.at) for row in goals if row.what.startswith("PHP")} <= {(30.0, "most")}
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
