"""The long run, short: everything starts, is sampled, is rotated and ends; nothing is missing; and growth is seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lab_support import groups_of
from sojourn_lab.experiments.endurance.growth import growth_of
from sojourn_lab.experiments.endurance.stack import Measurements, Wish
from sojourn_lab.experiments.endurance.usage import Usage, disk_of, family_of, usage_of
from sojourn_lab.experiments.endurance.verdict import verdict_of
from sojourn_lab.runtime.nginx import Nginx

pytestmark = pytest.mark.alone

SAME = ["offered", "answered", "logged", "stored", "rolled up", "spans written", "spans stored"]


def test_growth_is_distinguished_from_noise_and_settling() -> None:
    rng = np.random.default_rng(1)
    time = np.arange(0.0, 1_800.0, 10.0)
    settled = 100e6 + 50e6 * (1 - np.exp(-time / 100.0)) + rng.normal(0.0, 1e6, len(time))
    settled[90] += 400e6  # a spike is no growth
    flat = growth_of(time, settled, 10e6)
    assert flat is not None
    assert flat.flat
    assert flat.most > 500e6
    grows = growth_of(time, settled + 20e3 * time, 10e6)
    assert grows is not None
    assert not grows.flat
    assert grows.slope == pytest.approx(20e3, rel=0.1)
    assert growth_of(time[:4], settled[:4], 10e6) is None


def test_growth_and_loss_are_faults() -> None:
    instants = [10.0 * k for k in range(60)]
    figures = Measurements(instants=instants, disk=[1] * 60, counts=dict.fromkeys([*SAME, "refused"], 100))
    figures.usage["watch"] = [Usage(1, 100_000_000 + 1_000_000 * k, 10, 0.1 * k) for k in range(60)]
    figures.usage["nginx"] = [Usage(2, 8_000_000, 10 + k, 0.1 * k) for k in range(60)]
    figures.usage["generator"] = [Usage(1, 50_000_000 * (k + 1), 10, 0.1 * k) for k in range(60)]
    assert [fault.split(":")[0] for fault in verdict_of(Wish(600.0, 10.0), figures)["faults"]] == ["watch", "nginx"]
    figures.usage.clear()
    figures.counts["stored"] = 99
    assert verdict_of(Wish(600.0, 10.0), figures)["faults"] == [
        "100 logged, but 99 stored", "99 stored, but 100 rolled up",
    ]  # fmt: skip
    assert verdict_of(Wish(600.0, 10.0), Measurements(), "it broke")["faults"] == ["it broke"]


def test_usage_counts_children_in_sessions_of_their_own(tmp_path: Path) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        try:
            while len(family_of(process.pid)) < 2:
                assert process.poll() is None
            assert usage_of(process.pid).processes == 2
            assert usage_of(process.pid).resident > 2e6
        finally:
            process.communicate(b"\n", timeout=20)
    (tmp_path / "a").write_bytes(b"12345")
    assert disk_of(tmp_path) == 5
    assert usage_of(os.getpid()).files > 2


@pytest.mark.thorough
@pytest.mark.skipif(Nginx.why_unavailable() is not None, reason=Nginx.why_unavailable() or "")
def test_nothing_is_missing_after_a_short_one(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    out = tmp_path / "out"
    reported = ["--minutes", "0.1", "--rate", "20", "--every", "1", "--rotate", "2.5", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "sojourn_lab.experiments.endurance", *reported],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (out / "endurance.json").exists(), done.stderr
    document = json.loads((out / "endurance.json").read_text())
    assert {document["counts"][name] for name in SAME} == {document["counts"]["offered"]}, document
    assert document["counts"]["offered"] > 60
    assert document["counts"]["refused"] == 0
    assert document["counts"]["files loaded"] >= 2
    assert set(document["parts"]) == {
        "nginx", "backend-1", "backend-2", "store", "watch", "watch on a terminal", "generator",
    }  # fmt: skip
    # So short a run is not settled; but no part ended badly, and no count is off.
    assert all("memory grew" in fault or "files are open" in fault for fault in document["faults"]), document["faults"]
    assert not groups_of(out)
