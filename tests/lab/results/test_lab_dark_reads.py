"""Dark reads: the mirrored requests, the join and comparison of copies, and a real nginx that mirrors."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_support import sound_run
from sojourn_lab.results.analyses.dark_reads import answers_in, copies_of, shares
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.proxy import Upstreams, http_text, server_text
from sojourn_lab.scenario.case import Action
from sojourn_lab.scenario.topology import Topology
from sojourn_lab.scenario.topology_parts import Mirror

pytestmark = pytest.mark.alone


def test_shares_are_counted_before_and_after_the_kill_switch() -> None:
    # One a second from 100 on; every second one copied until the switch at 110; old workers may finish for a second.
    sent = {f"r{n}": 100.0 + n for n in range(20)}
    copies = {f"r{n}": 0.01 for n in range(0, 10, 2)} | {"r10": 0.01}
    assert shares(sent, copies, 100.0, [Action(10.0, "mirror", 0.0)]) == (50.0, 0.0)
    assert shares(sent, copies, 100.0, []) == (30.0, None)
    assert shares({}, {}, 100.0, []) == (None, None)
    # Another percentage is no kill switch.
    assert shares(sent, copies, 100.0, [Action(10.0, "mirror", 5.0)]) == (30.0, None)


def test_copies_and_answers_are_joined_by_request_id(tmp_path: Path) -> None:
    log, answers = tmp_path / "dark.jsonl", tmp_path / "answers.jsonl"
    log.write_text(
        '{"request_id":"a","request_time":"0.250"}\n{"request_id":"warm-up","request_time":"9"}\n'
        '{"request_id":"b","request_time":"0.004"}\n'
    )
    assert copies_of(log, {"a", "b", "c"}) == {"a": 0.25, "b": 0.004}
    assert copies_of(tmp_path / "none", {"a"}) == {}
    answers.write_text(
        '{"request_id":"a","status":"200","answer":"f00"}\n{"request_id":"b","status":"502","answer":""}\n'
    )
    assert answers_in(answers) == {"a": "200 f00"}


@pytest.mark.parametrize(
    ("percent", "now", "line"),
    [(25.0, None, "25.00% 1; * 0;"), (100.0, None, "* 1;"), (25.0, 0.0, " * 0;"), (0.5, 12.345, "12.35% 1; * 0;")],
)
def test_percentage_is_in_the_nginx_configuration(percent: float, now: float | None, line: str) -> None:
    topology = Topology(mirror=Mirror(percent))
    upstreams = Upstreams(own=["127.0.0.1:9"], mirror="127.0.0.1:8", mirror_percent=now)
    assert line in http_text(topology, upstreams)
    assert "mirror /lab-dark;" in server_text(topology, upstreams)
    assert "mirror" not in server_text(Topology(), Upstreams(own=["127.0.0.1:9"]))


@pytest.mark.scenario
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_copies_are_counted_compared_and_switched_off(tmp_path: Path) -> None:
    settings = ["repeats=1", "contrasts=[]", "criteria=[]", "cases.quarter.topology.mirror.percent=50.0"]
    settings += ["cases.quarter.topology.mirror.differs=0.3"]
    arguments = [part for each in settings for part in ("--set", each)]
    run = sound_run(tmp_path, "dark-reads", "--duration", "4", "--seed", "41", *arguments)
    none, half, slow = (case["figures"]["dark_reads"] for case in run["cases"])
    assert "compared" not in none or not none["compared"]
    # About 80 requests before the switch: five standard deviations of a share of a half are 28 of 100.
    assert half["percent"] == pytest.approx(50.0, abs=28.0)
    assert half["percent_after"] == 0.0
    assert 0 < half["differing"] < half["compared"]
    assert slow["percent"] == 100.0
    assert (slow["differing"], slow["compared"] > 100) == (0, True)
    assert slow["dark"]["p50"] > 3.0 * slow["original"]["p50"]
    # nginx's line waits for the copy; the client does not.
    assert slow["logged"] > 3.0 * slow["client"]["p50"]
    assert slow["client"]["p50"] < 1.5 * none["client"]["p50"]
