"""A scenario as somebody asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sojourn_lab.asked import Asked, as_asked
from sojourn_lab.errors import ScenarioError
from sojourn_lab.load import PoissonLoad

TEXT = """
name = "asked"
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
    path = tmp_path / "asked.toml"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.parametrize(
    ("asked", "scale", "duration", "rate", "repeats"),
    [
        (Asked(), 0.5, 5.0, 16.0, 2),
        (Asked(scale=1.0), 1.0, 10.0, 8.0, 2),
        (Asked(full=True), 1.0, 90.0, 8.0, 5),
        (Asked(full=True, scale=0.1), 0.1, 9.0, 80.0, 5),
        (Asked(quick=True), 0.1, 0.4, 80.0, 1),
        (Asked(duration=2.0), 0.5, 2.0, 16.0, 2),
    ],
)
def test_how_long_it_takes(file: str, asked: Asked, scale: float, duration: float, rate: float, repeats: int) -> None:
    scenario, used = as_asked(file, asked)
    assert used == scale
    assert scenario.duration == pytest.approx(duration)
    assert scenario.repeats == repeats
    load = scenario.cases[0].load
    assert isinstance(load, PoissonLoad)
    assert load.rate == pytest.approx(rate)
    assert scenario.duration_of(scenario.cases[1]) == pytest.approx(duration if asked.duration else 3.0 * scale)


def test_other_values_than_the_file_s(file: str) -> None:
    settings = ("cases.*.load.rate=20", "cases.b.service_time=0.05", "topology.server=queue", "cases.0.timeout=7")
    scenario, _ = as_asked(file, Asked(scale=1.0, seed=8, settings=settings))
    assert [each.load.rate for each in scenario.cases if isinstance(each.load, PoissonLoad)] == [20.0, 20.0]
    assert [each.service_time for each in scenario.cases] == [0.1, 0.05]
    assert [each.timeout for each in scenario.cases] == [7.0, None]
    assert (scenario.topology.server, scenario.seed) == ("queue", 8)
    assert Asked(seed=8, settings=settings).changes() == {"seed": 8, "settings": list(settings)}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Asked(settings=("rate",)), "not KEY=VALUE"),
        (Asked(settings=("cases.c.load.rate=2",)), "there is no 'c'"),
        (Asked(settings=("cases.a.load.rte=2",)), "rte"),
        (Asked(settings=("duration=soon",)), "duration"),
        (Asked(quick=True, full=True), "give one of them"),
        (Asked(server="unicorn", settings=("topology.discipline=lifo", "topology.server=queue")), "unicorn"),
    ],
)
def test_what_does_not_fit_is_refused(file: str, asked: Asked, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        as_asked(file, asked)
