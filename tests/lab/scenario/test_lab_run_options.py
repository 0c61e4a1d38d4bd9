"""Scenarios with the options of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from sojourn_lab.errors import ScenarioError
from sojourn_lab.scenario.load import PoissonLoad
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options

TEXT = """
name = "options"
title = "t"
question = "q"
shows = "s"
seed = 3
duration = 10.0
full_duration = 90.0
repeats = 2
full_repeats = 5
scale = 0.5
quick = {scale = 0.1, duration = 4.0, repeats = 1}
[[cases]]
name = "a"
service_time = 0.1
load = {kind = "poisson", rate = 8}
[[cases]]
name = "b"
service_time = 0.1
duration = 3.0
load = {kind = "poisson", rate = 8}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "options.toml"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize(
    ("options", "scale", "duration", "rate", "repeats"),
    [
        (RunOptions(), 0.5, 5.0, 16.0, 2),
        (RunOptions(scale=1.0), 1.0, 10.0, 8.0, 2),
        (RunOptions(full=True), 1.0, 90.0, 8.0, 5),
        (RunOptions(full=True, scale=0.1), 0.1, 9.0, 80.0, 5),
        (RunOptions(quick=True), 0.1, 0.4, 80.0, 1),
        (RunOptions(duration=2.0), 0.5, 2.0, 16.0, 2),
    ],
)
def test_options_set_scale_duration_and_rounds(
    file: str, options: RunOptions, scale: float, duration: float, rate: float, repeats: int
) -> None:
    scenario, used = scenario_with_options(file, options)
    assert used == scale
    assert scenario.duration == pytest.approx(duration)
    assert scenario.repeats == repeats
    load = scenario.cases[0].load
    assert isinstance(load, PoissonLoad)
    assert load.rate == pytest.approx(rate)
    assert scenario.duration_of(scenario.cases[1]) == pytest.approx(duration if options.duration else 3.0 * scale)


def test_settings_override_the_file(file: str) -> None:
    settings = ("cases.*.load.rate=20", "cases.b.service_time=0.05", "topology.server=queue", "cases.0.timeout=7")
    scenario, _ = scenario_with_options(file, RunOptions(scale=1.0, seed=8, settings=settings))
    assert [each.load.rate for each in scenario.cases if isinstance(each.load, PoissonLoad)] == [20.0, 20.0]
    assert [each.service_time for each in scenario.cases] == [0.1, 0.05]
    assert [each.timeout for each in scenario.cases] == [7.0, None]
    assert (scenario.topology.server, scenario.seed) == ("queue", 8)
    assert RunOptions(seed=8, settings=settings).changes() == {"seed": 8, "settings": list(settings)}


def test_cases_are_chosen_by_their_names(file: str) -> None:
    criteria = "".join(
        f'[[criteria]]\nname = "{name}"\ncases = "{name}"\nmetric = "client.failed"\nbelow = 1\n'
        for name in ("a", "b", "*", "misspelt")
    )
    Path(file).write_text(TEXT + criteria)
    options = RunOptions(cases=("b", "b*"))
    scenario, _ = scenario_with_options(file, options)
    assert [case.name for case in scenario.cases] == ["b"]
    # A criterion of other cases alone goes with them; one that matches no case at all remains, and fails.
    assert [each.name for each in scenario.criteria] == ["b", "*", "misspelt"]
    assert options.changes() == {"cases": ["b", "b*"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(cases=("b", "c*")), r"--case c\*: no case of .* has such a name; there are a, b"),
        (RunOptions(settings=("rate",)), "not KEY=VALUE"),
        (RunOptions(settings=("cases.c.load.rate=2",)), "there is no 'c'"),
        (RunOptions(settings=("cases.a.load.rte=2",)), "rte"),
        (RunOptions(settings=("duration=soon",)), "duration"),
        (RunOptions(quick=True, full=True), "give one of them"),
        (RunOptions(server="unicorn", settings=("topology.discipline=lifo", "topology.server=queue")), "unicorn"),
    ],
)
def test_options_that_do_not_apply_are_refused(file: str, options: RunOptions, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        scenario_with_options(file, options)
