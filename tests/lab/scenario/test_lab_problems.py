"""All errors of a scenario file come at once, with the keys and names that are allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sojourn_lab.cli import app
from sojourn_lab.errors import ScenarioError
from sojourn_lab.scenario.files import scenario_from_text
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

SEVERAL = """
name = "Not A Name"
titel = "A title"
question = "?"
shows = "."
seed = -1
duration = "long"
analyses = ["goodput", "goodputs"]
[topology]
worker = 2
server = "gunicron"
balancer = "least"
discipline = "lifo"
threads = 0
[topology.rules]
codel = 1
[[cases]]
name = "one"
service_time = 0.1
load = {kind = "closd", concurrency = 2}
[[cases]]
name = "two"
load = {kind = "poisson", rate = 0, users = 3}
routes = [{name = "/a", share = 1}]
[[cases]]
name = "s{service_ms}"
load = {kind = "closed", concurrency = 0}
matrix = {service_time = [0.1, 0.2, 0.3, 0.4]}
[[criteria]]
name = "mistyped"
metric = "client.faild"
below = 1
above = 0
"""
TOGETHER = """
name = "together"
title = "Parts that do not go together"
question = "?"
shows = "."
seed = 1
duration = 1
[topology]
server = "puma"
masters = 2
loading = 1
discipline = "lifo"
[[cases]]
name = "one"
service_time = 0.1
routes = [{name = "/a", share = 1, service_time = 1}]
load = {kind = "ramp", from_rate = 0, to_rate = 0}
"""


def test_all_errors_of_a_file_come_at_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "several.toml").write_text(SEVERAL)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "several.toml")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.replace(f"{tmp_path}/", "") == snapshot
    number = re.search(r": (\d+) errors\n", done.stderr)
    assert number is not None
    assert int(number[1]) == len(done.stderr.splitlines()) - 1 == 18
    assert [path.name for path in tmp_path.iterdir()] == ["several.toml"]


def test_every_reason_why_parts_do_not_go_together_is_named(snapshot: SnapshotAssertion) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario_from_text(TOGETHER, "together.toml")
    assert str(refused.value) == snapshot


def test_errors_of_two_matrices_come_together() -> None:
    case = '[[cases]]\nname = "{name}"\nmatrix = {{{matrix}}}\nload = {{kind = "closed"}}\n'
    text = case.format(name="a{b}", matrix="concurrency = [1]") + case.format(name="c", matrix="concurrency = 1")
    with pytest.raises(ScenarioError) as refused:
        scenario_from_text(text, "two.toml")
    assert [line.partition(":")[0].strip() for line in str(refused.value).splitlines()] == [
        "two.toml",
        "cases[0].name",
        "cases[1].matrix.concurrency",
    ]
