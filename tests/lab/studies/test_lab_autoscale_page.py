"""The page on autoscaling: runs that are merged, findings that follow from the figures, pictures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from lab_support import find_scenario
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_schema import CaseResult, Rows, Run, WindowTimes, run_bytes
from studies.autoscale.__main__ import main
from studies.autoscale.findings import findings, front, name_of
from studies.autoscale.measure import SCENARIO_FILE
from studies.autoscale.page import page
from studies.autoscale.pictures import write_pictures
from studies.autoscale.recorded import Measurement, measurement_of
from studies.autoscale.simulated import SimulatedSetting, interval, simulated_cells

SCENARIO = find_scenario(str(SCENARIO_FILE))

FIGURES: dict[str, tuple[float, float]] = {
    "diurnal-cpu": (0.02, 0.32),
    "diurnal-in_flight": (0.98, 1.53),
    "diurnal-workers_needed": (0.86, 1.23),
    "diurnal-workers_live": (0.96, 1.20),
    "spiky-cpu": (0.01, 0.35),
    "spiky-in_flight": (0.88, 1.90),
    "spiky-in_flight-0.5": (0.93, 2.10),
    "spiky-in_flight-0.9": (0.80, 1.70),
    "spiky-knative": (0.85, 1.40),
    "spiky-knative-0.5": (0.92, 1.52),
    "spiky-workers_needed": (0.66, 1.70),
    "spiky-workers_live": (0.84, 1.50),
    "spiky-workers_live-0.98": (0.87, 1.60),
    "spiky-workers_live-hold4-0.95": (0.81, 1.17),
    "spiky-workers_live-hold4-0.99": (0.86, 1.30),
    "spiky-fixed_peak": (0.99, 1.95),
    "slow_start-workers_live": (0.55, 1.75),
    "slow_start-aws_tracking": (0.84, 2.14),
    "slow_start-fixed_peak": (0.99, 1.95),
    "second-workers_live": (0.83, 1.51),
}
"""Of each case the share of the requests within the objective, and the worker-seconds of the yardstick's."""


def recorded_run(
    folder: Path,
    figures: dict[str, tuple[float, float]],
    *,
    seed: int = 17,
    void: tuple[str, ...] = (),
    absent: int = 0,
    rounds: int = 1,
    duration: float = 100.0,
) -> Path:
    """Write a run with some cases, of two windows and two looks each."""
    window = WindowTimes("2026-01-01T00:00:10.000000Z", "2026-01-01T00:01:50.000000Z")
    cases = []
    for base, (within, cost) in figures.items():
        case = next(each for each in SCENARIO.cases if each.name == base)
        for number in range(1, rounds + 1):
            name = base if rounds == 1 else f"{base}.{number}"
            of_cpu = base.endswith("-cpu")
            numbers: dict[str, Any] = {
                "within_share": within + 0.01 * (number - 1),
                "worker_seconds": 100.0 * cost,
                "of_oracle": cost,
                "workers": {"mean": cost, "most": 2 if of_cpu else 9, "least": 2},
                "oracle": {"worker_seconds": 500.0, "mean": 5.0, "most": 11},
                "violation": {"seconds": 8.0},
                "overshoot": 3, "changes": 4, "reversals": 1, "unanswered": 0,
                "looks": 50, "looks_without_value": absent if base.endswith("workers_live") else 0,
            }  # fmt: skip
            cases.append(
                CaseResult(
                    name,
                    0.1,
                    case.load,
                    10.0,
                    100.0,
                    window,
                    None,
                    [],
                    base=base,
                    round=number,
                    figures=numbers,
                    void=["the machine was busy"] if base in void else [],
                )
            )
            logs = folder / "logs" / name
            logs.mkdir(parents=True)
            timeline = {
                "windows": [
                    {"at": at, "seconds": 4.0, "rate": 20.0, "needed": 4, "delay": None if of_cpu else 0.05}
                    for at in (2.0, 6.0)
                ],
                "looks": [
                    {"time": time, "wanted": 5, "age": 2.0, "refused": "several_nginx" if absent else ""}
                    for time in (0.0, 2.0)
                ],
                "fixed": [
                    {"workers": float(number), "within_share": share}
                    for number, share in ((6, 0.4), (9, 0.96), (11, 1))
                ],
            }
            (logs / "timeline.json").write_bytes(msgspec.json.encode(timeline))
    scenario = msgspec.structs.replace(SCENARIO, seed=seed, duration=duration)
    run = Run(
        scenario, 1.0, window.since, window.until, 1.0, 1.0, {"nginx": "1.22.1"}, cases, [], Rows(0, 0, 0), [],
        bool(void), [], [], True,
    )  # fmt: skip
    (folder / "run.json").write_bytes(run_bytes(run))
    return folder


@pytest.fixture
def measurement(tmp_path: Path) -> Measurement:
    return measurement_of([recorded_run(tmp_path / "run", FIGURES)])


def plain(items: list[str]) -> dict[str, str]:
    """The findings by their bold beginnings, without marks."""
    parts = (re.fullmatch(r"\*\*(.+?)\*\*(.*)", item) for item in items)
    return {match[1]: match[2].replace("`", "").strip() for match in parts if match is not None}


def test_page_has_a_table_and_a_front_for_each_load_with_settings(measurement: Measurement) -> None:
    text = page(measurement, {})
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Diurnal load", "## Spiky load", "## Slow start load", "## Second load", "## What the runs show",
        "## Parameters",
    ]  # fmt: skip
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    spiky = text[text.index("## Spiky load") : text.index("## Slow start")]
    assert "| `workers_live` | 84.0% | 150 | 150% | 8 s | 3 | 4 | 1 | 0 |" in spiky
    assert "| `workers_live` | 10 s | 0.95 | 84.0% | 150% | 1 | – | – |" in spiky
    assert "| `workers_live` | 4 s | 0.99 | 86.0% | 130% | 1 | – | – |" in spiky
    assert [row[2] for row in rows if row[0] == "`in_flight`" and len(row) == 8] == ["0.5", "0.7", "0.9"]
    assert text.count("-front-measured.svg") == text.count("*In violation*") == text.count("Left: the workers") == 1
    assert "400 requests a second to a second service" in text
    assert "an app that takes 5 s to load" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "!"))) <= 120
    assert "{" not in text


def test_front_has_what_nothing_else_beats_in_both(measurement: Measurement) -> None:
    cells = [cell for cell in measurement.cases["spiky"].values() if not cell.is_fixed]
    assert [name_of(cell) for cell in front(cells)] == [
        "`cpu`", "`workers_live` (hold 4 s)", "`workers_live` (0.99, hold 4 s)", "`knative` (0.5)", "`in_flight` (0.5)",
    ]  # fmt: skip


def test_findings_follow_from_the_figures(measurement: Measurement) -> None:
    by_head = plain(findings(measurement, {}))
    assert by_head["Spiky: no other measured setting is both better and cheaper than"] == (
        "workers_live (hold 4 s), 81% of the requests for 117%; workers_live (0.99, hold 4 s), 86% of the requests for"
        " 130%; knative (0.5), 92% of the requests for 152%; in_flight (0.5), 93% of the requests for 210%."
        " Settings with less than 30% of the requests within the objective are left out."
    )
    assert by_head["Diurnal, at least the attainment of `workers_live`"] == (
        "(96% of the requests for 120%) costs with the cheapest measured setting of in_flight 28% more, and is not"
        " attained by any measured setting of cpu and workers_needed."
    )
    assert by_head["Spiky, at least the attainment of `workers_live`"] == (
        "(84% of the requests for 150%) costs with the cheapest measured setting of in_flight 27% more and knative 7%"
        " less, and is not attained by any measured setting of cpu and workers_needed."
    )
    assert by_head["Where the app takes 5 s to load"] == (
        ": aws_tracking 84% of the requests for 214% and workers_live 55% of the requests for 175%. fixed_peak, 99% of"
        " the requests for 195%, is better and cheaper than aws_tracking."
    )
    assert by_head["With a second service of 400 requests a second behind the same nginx"] == (
        "workers_live holds 83% of the requests for 151%, 1.0 percentage points less than without it."
    )
    assert by_head["The least fixed number that holds the objective"].startswith(
        "(replayed): diurnal 9 workers for 180% of the yardstick's worker-seconds"
    )
    assert "The gauge of method `replay` is as of 2.0 s before the look" in by_head
    assert "A target of 0.7 of a core per worker is never reached" in by_head
    assert "One run per case" in by_head
    assert not [head for head in by_head if "was absent" in head]


def test_findings_without_their_figures_are_dropped(tmp_path: Path) -> None:
    figures = {name: FIGURES[name] for name in ("spiky-workers_live", "spiky-in_flight")}
    by_head = plain(findings(measurement_of([recorded_run(tmp_path / "few", figures, absent=3)]), {}))
    assert sorted(by_head) == [
        "One run per case",
        "Spiky, at least the attainment of `workers_live`",
        "Spiky: no other measured setting is both better and cheaper than",
        "The gauge of method `live` was absent",
        "The least fixed number that holds the objective",
    ]
    assert by_head["The gauge of method `live` was absent"] == (
        "at 3 of 50 looks; reasons that the exporter published: several_nginx."
    )


def test_runs_with_other_seeds_are_repetitions(tmp_path: Path) -> None:
    one = {"spiky-workers_live": (0.84, 1.50), "spiky-in_flight": (0.88, 1.90)}
    other = {"spiky-workers_live": (0.80, 1.60), "spiky-in_flight": (0.88, 1.90)}
    first = recorded_run(tmp_path / "first", one, rounds=2)
    second = recorded_run(tmp_path / "second", other, seed=18)
    measurement = measurement_of([second, first])
    cell = measurement.cases["spiky"]["workers_live"]
    assert [each.seeds for each in cell.repetitions] == [(17, 2, 1), (17, 2, 2), (18, 2, 1)]
    assert (cell.within.low, cell.within.high) == (0.80, 0.85)
    assert cell.within.mean == pytest.approx(0.83)
    assert "| `workers_live` | 83.0% (80.0% to 85.0%) |" in page(measurement, {})
    assert plain(findings(measurement, {}))["Repetitions with other requests"] == (
        "(2 cases) differ by up to 5.0 percentage points within the objective and 10 of cost. Ranges are those of the"
        " repetitions."
    )


def test_later_run_with_the_same_seeds_replaces_an_earlier_one_unless_it_is_void(tmp_path: Path) -> None:
    name = "spiky-workers_live"

    def merged(first: float, second: float, *, void: bool) -> float:
        folder = tmp_path / f"{first}-{second}-{void}"
        runs = [
            recorded_run(folder / "1", {name: (first, 1.0)}),
            recorded_run(folder / "2", {name: (second, 1.0)}, void=(name,) if void else ()),
        ]
        measurement = measurement_of(runs)
        assert measurement_of(runs[:1]).cases["spiky"]["workers_live"].within.mean == first
        return measurement.cases["spiky"]["workers_live"].within.mean

    assert merged(0.7, 0.8, void=False) == 0.8
    assert merged(0.7, 0.8, void=True) == 0.7
    void = measurement_of([recorded_run(tmp_path / "void", {name: (0.8, 1.0)}, void=(name,))])
    assert "- spiky, `workers_live`: the machine was busy." in page(void, {})


def test_rejects_runs_of_other_durations(tmp_path: Path) -> None:
    figures = {"spiky-in_flight": (0.8, 1.0)}
    runs = [recorded_run(tmp_path / "1", figures), recorded_run(tmp_path / "2", figures, duration=50.0)]
    with pytest.raises(LabError, match="another scale, duration or warm-up"):
        measurement_of(runs)


def test_pictures_show_the_loads_and_the_fronts(measurement: Measurement, tmp_path: Path) -> None:
    simulated = {"spiky": simulated_cells(SCENARIO, list(measurement.cases["spiky"].values()), 2)}
    names = {path.name: path.read_text() for path in write_pictures(measurement, simulated, tmp_path)}
    assert set(names) == {
        "autoscale-diurnal.svg", "autoscale-spiky.svg", "autoscale-spiky-front-measured.svg",
        "autoscale-spiky-front-simulated.svg", "autoscale-slow_start.svg", "autoscale-second.svg",
    }  # fmt: skip
    drawn = names["autoscale-spiky-front-measured.svg"]
    assert all(f">{name}<" in drawn for name in ("in_flight", "knative", "workers_needed", "workers_live"))
    assert ">cpu<" not in drawn  # it has less than 30 % within the objective
    assert ">workers_live<" in names["autoscale-spiky.svg"]
    assert ">fixed_peak<" not in names["autoscale-spiky.svg"]


def test_command_writes_the_page_of_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        recorded_run(tmp_path / "1", {"spiky-workers_live": (0.8, 1.4)}),
        recorded_run(tmp_path / "2", {"spiky-in_flight": (0.8, 1.4)}),
    ]
    out = tmp_path / "page.md"
    assert main([*map(str, runs), "--draws", "2", "--out", str(out)]) == 0
    assert "| `in_flight` | 80.0% |" in out.read_text()
    assert main([str(tmp_path)]) == 1
    assert "needs run.json" in capsys.readouterr().err


def test_simulated_settings_stand_beside_the_measured_ones(measurement: Measurement) -> None:
    cells = list(measurement.cases["spiky"].values())
    simulated = simulated_cells(SCENARIO, cells, 3)
    assert [name_of(each.cell) for each in simulated] == [
        "`in_flight` (0.5)", "`in_flight`", "`in_flight` (0.9)", "`knative` (0.5)", "`knative`", "`workers_live`",
        "`workers_live` (hold 4 s)", "`workers_live` (0.98)", "`workers_live` (0.99, hold 4 s)",
    ]  # fmt: skip
    text = page(measurement, {"spiky": simulated})
    row = next(line for line in text.splitlines() if line.startswith("| `workers_live` | 4 s | 0.99 |"))
    within, cost = simulated[-1].within, simulated[-1].cost
    assert f"| {within.mean():.1%} ± {100 * (interval(within).high - within.mean()):.1f} |" in row
    assert cost.mean() < simulated[-2].cost.mean()  # the shorter hold costs less
    assert text.count("-front-simulated.svg") == 1
    assert "with the same 3 loads" in text


def test_interval_is_that_of_a_mean() -> None:
    figure = interval(np.array([1.0, 2.0, 3.0, 4.0]))
    assert figure.mean == 2.5
    assert figure.high - figure.mean == pytest.approx(3.1824463 * 1.2909944 / 2)
    assert figure.mean - figure.low == pytest.approx(figure.high - figure.mean)


def test_only_what_chance_does_not_explain_is_better(measurement: Measurement) -> None:
    cells = measurement.cases["spiky"]
    loads = np.linspace(-0.1, 0.1, 20)
    noise = 0.01 * np.sin(np.arange(20.0))
    live = SimulatedSetting(cells["workers_live"], 0.8 + loads, 1.4 - loads)
    better = SimulatedSetting(cells["knative"], 0.82 + loads + noise, 1.38 - loads - noise)
    alike = SimulatedSetting(cells["in_flight"], 0.801 + loads + noise, 1.399 - loads - noise)
    assert better.is_better(live)
    assert not alike.is_better(live)
    assert not live.is_better(alike)
    by_head = plain(findings(measurement, {"spiky": [live, better, alike]}))
    assert by_head["Spiky, simulated"] == (
        ": a setting of workers_live is better or cheaper beyond chance, and not worse in the other, than 0 of 2"
        " settings of other signals; in this sense better are knative than workers_live; each of these holds its"
        " highest number for a shorter time."
    )
    by_head = plain(findings(measurement, {"spiky": [live, alike]}))
    assert by_head["Spiky, simulated"].endswith("none of these is better in this sense than a setting of it.")
