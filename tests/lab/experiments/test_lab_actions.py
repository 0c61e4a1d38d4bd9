"""What is done to a system while it is measured: nginx takes a backend in and out without losing a request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.runner import finished_run
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import Upstreams
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.files import scenario_from_text

pytestmark = pytest.mark.alone

needs_nginx = pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
ADD, REMOVE = Action(0.0, "add_backend"), Action(0.0, "remove_backend")


def test_a_backend_comes_in_and_goes_out_again() -> None:
    first = Upstreams(own=["a"], standby=["b", "c"])
    more = first.after(ADD)
    assert (more.own, more.standby) == (["a", "b"], ["c"])
    assert more.after(REMOVE) == first
    assert first.after(Action(0.0, "mirror", 25.0)).mirror_percent == 25.0


@pytest.mark.parametrize(
    ("upstreams", "action", "words"),
    [(Upstreams(own=["a"]), ADD, "no standby backend is left"), (Upstreams(own=["a"]), REMOVE, "last backend")],
)
def test_rejects_impossible_actions(upstreams: Upstreams, action: Action, words: str) -> None:
    with pytest.raises(LabError, match=words):
        upstreams.after(action)


TEXT = """
name = "adding"
title = "t"
question = "q"
shows = "s"
seed = 1
duration = 2.0
timeout = 10.0
[topology]
backends = 1
standby = 1
[[cases]]
name = "a"
service_time = 0.005
load = {kind = "constant", rate = 50}
actions = [ACTIONS]
"""


def test_an_action_needs_what_goes_with_it() -> None:
    with pytest.raises(ScenarioError, match="percent"):
        scenario_from_text(TEXT.replace("ACTIONS", '{at = 1.0, do = "mirror"}'), "x")


@needs_nginx
def test_an_added_backend_gets_its_share_from_then_on_and_nothing_is_lost(tmp_path: Path) -> None:
    scenario = scenario_from_text(TEXT.replace("ACTIONS", '{at = 1.0, do = "add_backend"}'), "x")
    folder = RunFolder.claimed(tmp_path / "run")
    run = finished_run(scenario, 1.0, folder, Interrupts(), Watcher())
    assert run.faults == []
    assert run.cases[0].client is not None
    assert run.cases[0].client.statuses == {"200": 100}
    since = float((folder.final / "logs" / "a.started").read_text())
    rows = [json.loads(line) for line in (folder.final / "access.jsonl").read_text().splitlines()]
    backends = {row["upstream_addr"] for row in rows}
    assert len(backends) == 2
    early = {row["upstream_addr"] for row in rows if float(row["time"]) < since + 1.0}
    assert len(early) == 1
    (new,) = backends - early
    addresses = [row["upstream_addr"] for row in rows]
    # nginx needs a moment to reload; after it, round robin gives every second one.
    late = addresses[addresses.index(new) :]
    assert len(late) > 5
    assert abs(late.count(new) - len(late) / 2) <= 2
