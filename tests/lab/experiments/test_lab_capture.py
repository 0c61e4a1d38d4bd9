"""Packets and the kernel's word beside a load: recorded with it, joined to its log, and refused with a reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest
from lab_support import needs_namespace, sound_run
from sojourn.host.recorder import Recorder
from sojourn.host.tcpdump import Summary
from sojourn.model.errors import CaptureError
from sojourn_lab.errors import LabError, ScenarioError
from sojourn_lab.experiments.recording import _captured
from sojourn_lab.results.run_schema import Captured
from sojourn_lab.runtime.nginx import Nginx
from sojourn_lab.runtime.target import targets_from_options
from sojourn_lab.scenario.run_options import RunOptions, scenario_with_options

pytestmark = pytest.mark.alone

SMALL = """
name = "small"
title = "A burst into a queue of two, and a load that finds room"
question = "Where do they wait?"
shows = "Before accept()."
seed = 3
duration = 0.6
warmup = 0.3
timeout = 30.0
kernel_period = 0.05
analyses = ["accept_queue"]
[topology]
backends = 1
backlog = 64
[[cases]]
name = "room"
service_time = 0.02
load = {kind = "poisson", rate = 60}
[[cases]]
name = "burst"
service_time = 0.06
load = {kind = "instants", at = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]}
topology = {backlog = 1, namespace = {tcp_syn_linear_timeouts = 0}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record of one run with two cases, captured."""
    if (reason := Nginx.why_unavailable()) is not None:
        pytest.skip(reason)
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    folder = tmp_path_factory.mktemp("capture")
    (folder / "small.toml").write_text(SMALL)
    return sound_run(folder, str(folder / "small.toml"), "--capture")


@needs_namespace
def test_every_set_of_servers_has_its_capture(run: dict[str, Any]) -> None:
    assert [each["files"] for each in run["captures"]] == [["capture.pcap"], ["capture-2.pcap"]]
    for each in run["captures"]:
        assert each["captured"] > 0
        assert each["dropped"] == 0
        # On the loopback each packet passes the filter twice.
        assert each["received"] == 2 * each["captured"]
        assert (Path(run["run"]) / each["files"][0]).stat().st_size > 24
    assert run["changes"]["capture"] is True


@needs_namespace
def test_capture_is_read_and_every_request_is_joined(run: dict[str, Any]) -> None:
    for case in run["cases"]:
        wire = case["figures"]["wire"]
        assert wire["packets"] == sum(each["captured"] for each in run["captures"])
        assert (wire["undecoded"], wire["joined_share"]) == (0, 1.0)
        assert wire["joined"] == case["figures"]["accept_queue"]["requests"] > 0


@needs_namespace
def test_the_wait_for_accept_is_the_split_s_queue(run: dict[str, Any]) -> None:
    room = run["cases"][0]["figures"]["wire"]
    assert room["accept_wait"]["max"] > 0.0
    # nginx's stamp is cut to milliseconds, and half a millisecond is subtracted. How late nginx reads its clock beside
    # that depends on the machine.
    assert -0.0005 < room["agreement"]["queue"]["median"] < 0.0005
    assert room["resent"] == 0


@needs_namespace
def test_dropped_syns_are_the_same_in_the_log_on_the_wire_and_in_the_kernel(run: dict[str, Any]) -> None:
    burst = run["cases"][1]["figures"]
    queue, wire = burst["accept_queue"], burst["wire"]
    assert queue["stepped"] == wire["resent"] > 0
    assert queue["steps"]["1"] > 0.0
    assert queue["overflows"] >= wire["syn_retransmissions"]
    assert queue["limit"] == 1
    assert 0 < queue["deepest"] <= queue["room"] + 2  # two processors may each add one to a queue that is nearly full
    assert wire["syn_dropped"]["max"] > 0.99


@needs_namespace
def test_kernel_was_sampled_in_both_namespaces(run: dict[str, Any]) -> None:
    lines = (Path(run["run"]) / "kernel.jsonl").read_bytes().splitlines()
    limits = {each["limit"] for line in lines for each in json.loads(line)["sockets"] if each["name"] != "nginx"}
    assert limits == {64, 1}


@needs_namespace
def test_the_report_shows_both(run: dict[str, Any]) -> None:
    page = (Path(run["run"]) / "report.html").read_text()
    assert "Packets and the queues before accept()" in page
    assert "The queues before accept(): room" in page
    assert "The queues before accept(): burst" in page
    assert "Counters went back" not in page


def test_capture_is_selected_by_option_or_scenario() -> None:
    assert scenario_with_options("benchmark", RunOptions())[0].capture is False
    requested, _ = scenario_with_options("benchmark", RunOptions(capture=True))
    assert (requested.capture, requested.analyses) == (True, ["wire"])
    assert (
        scenario_with_options("accept-queue", RunOptions(capture=True))[0]
        == scenario_with_options("accept-queue", RunOptions())[0]
    )
    with pytest.raises(ScenarioError, match="no case of websocket sends plain requests through nginx"):
        scenario_with_options("websocket", RunOptions(capture=True))
    with pytest.raises(ScenarioError, match="--capture"):
        targets_from_options(["http://127.0.0.1:9"], limits={}, lab_app=False, starts=True)


def test_reports_the_obstacle_to_recording_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Recorder) -> Recorder:
        raise CaptureError("tcpdump may not open a socket: run it as root")

    monkeypatch.setattr(Recorder, "__enter__", refuse)
    captures: list[Captured] = []
    with pytest.raises(LabError, match=r"^the capture: tcpdump may not open a socket: run it as root$"):
        _captured(tmp_path / "capture.pcap", {"nginx": 80}, captures).__enter__()
    assert captures == []


class StubRecorder:
    """A recorder that writes the given files."""

    made: ClassVar[list[str]] = ["capture.pcap0"]

    def __init__(self, path: Path, **settings: Any) -> None:
        self.folder, self.settings = path.parent, settings
        self.summary = Summary(captured=5, received=10, dropped=1)

    def __enter__(self) -> StubRecorder:
        assert self.settings["ports"] == [80, 8000]
        assert self.settings["snaplen"] == 1024
        assert self.settings["ring"].files * self.settings["ring"].megabytes == 512
        for name in self.made:
            (self.folder / name).write_bytes(name.encode())
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do."""

    def files(self) -> list[Path]:
        return [self.folder / name for name in self.made]


@pytest.mark.parametrize(
    ("made", "left"),
    [(["capture.pcap0"], ["capture.pcap"]), (["capture.pcap0", "capture.pcap1"], ["capture.pcap0", "capture.pcap1"])],
)
def test_a_capture_is_bounded_and_one_file_where_that_was_enough(
    made: list[str], left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sojourn_lab.experiments.recording.Recorder", StubRecorder)
    monkeypatch.setattr(StubRecorder, "made", made)
    captures: list[Captured] = []
    with _captured(tmp_path / "capture.pcap", {"nginx": 80, "backend-1": 8000}, captures):
        assert captures == []
    assert captures == [Captured(left, 5, 10, 1)]
    assert sorted(each.name for each in tmp_path.iterdir()) == left
