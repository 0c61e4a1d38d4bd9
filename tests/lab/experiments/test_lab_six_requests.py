"""The article's two and six requests on real servers, at another scale than the files' and in another order."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import sound_run_of
from sojourn_lab.results.run_schema import Run
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or ""),
]


def run(name: str, folder: Path, options: RunOptions, *, until_passed: bool = False) -> tuple[Run, Path]:
    """Return a sound run, and its folder."""
    scenario, scale = scenario_with_options(name, options)
    produced = sound_run_of(scenario, folder, scale, until_passed=until_passed)
    return produced, max(folder.glob("run-?"))


@pytest.mark.scenario
def test_of_two_the_second_times_out_and_is_worked_on_all_the_same(tmp_path: Path) -> None:
    produced, folder = run("two-requests", tmp_path, RunOptions(scale=0.03))
    assert produced.passed, [each for each in produced.criteria if not each.passed]
    for name in ("sequence-gunicorn.svg", "sequence-own-line.svg", "queue.html", "report.html"):
        assert (folder / name).stat().st_size > 3_000, name
    assert "own-line" in (folder / "queue.html").read_text()


def test_of_six_fifo_serves_one_and_lifo_five(tmp_path: Path) -> None:
    # A machine that stalls for 80 ms, too short to make a run void, has another request served.
    # A larger scale bears longer stalls.
    for scale in (0.04, 0.08, 0.16):
        produced, _ = run("six-requests", tmp_path / str(scale), RunOptions(scale=scale), until_passed=True)
        if produced.passed:
            break
    assert [each for each in produced.criteria if not each.passed] == []
    served = {case.name: case.figures["goodput"]["served"] for case in produced.cases}
    assert (served["gunicorn-fifo"], served["fifo"], served["lifo"]) == (1, 1, 5)
    wasted = {case.name: case.figures["goodput"]["wasted"] / scale for case in produced.cases}
    assert wasted["fifo"] == pytest.approx(31.0, rel=0.05)
    assert wasted["deadline"] == 0.0


@pytest.mark.scenario
def test_the_shortest_first_the_order_of_service_makes_no_difference_to_how_many_are_served(tmp_path: Path) -> None:
    shortest_first = "[1.0, 2.0, 4.0, 8.0, 16.0, 25.0]"
    settings = (f"cases.*.load.service_times={shortest_first}",)
    produced, _ = run("six-requests", tmp_path, RunOptions(scale=0.02, settings=settings))
    served = {case.name: case.figures["goodput"]["served"] for case in produced.cases}
    # 56 s of work in all, which 60 s of patience allow in any order.
    assert (served["gunicorn-fifo"], served["fifo"], served["lifo"]) == (6, 6, 6)
    # The predictions were written for other requests, so their criteria fail.
    assert not produced.passed
