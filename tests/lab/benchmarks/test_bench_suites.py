"""The suites of the benchmark measure their rows and slopes; speeds are not asserted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import growth
from benchmarks.measure import Cost
from benchmarks.rows import Settings, Slope
from benchmarks.suites import agent, analyses, export, plain, report, serve, timeline

REPOSITORY = Path(__file__).parents[3]


def settings_in(folder: Path) -> Settings:
    return Settings(repeats=1, scale=0.001, folder=folder, progress=lambda _: None)


def test_compares_blame_and_what_if_with_the_split_and_every_kernel_with_simpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def cost(command: list[str]) -> Cost:
        ran.append(command[3])
        return Cost(1.0 if command[3] == "split" else 1.5, 1.0, 100.0)

    monkeypatch.setattr(analyses, "command_cost", cost)
    monkeypatch.setattr(
        analyses,
        "printed_seconds",
        lambda script, *_: Cost(4.0 if script.endswith(analyses.THEIRS) else 1.0, 1.0, 100.0),
    )
    monkeypatch.setattr(analyses, "slopes", lambda *_: [Slope("blame", "requests", (1.0, 2.0), (1.0, 2.0))])
    measurements = analyses.run(settings_in(tmp_path))
    assert {"split", "blame", "whatif", "depth", "goodput", "laws"} == set(ran)
    rows = {(row.what, row.peer): row for row in measurements.rows}
    assert rows["`sojourn blame`, 1,000 requests", analyses.SPLIT].ratio == 1.5
    assert rows["`sojourn whatif, one variant`, 1,000 requests", analyses.SPLIT].ratio == 1.5
    assert rows["blame of 1,000 visits in memory", analyses.JOIN].ratio == 4.0
    assert rows["replay: fifo, 1 worker, one queue", "SimPy, M/M/1"].ours > 0
    assert rows["replay: fifo, 1 worker, one queue", "Ciw, M/M/1"].ours > 0
    assert all(row.ratio is not None and row.ratio > 0 for row in measurements.rows if row.peer)
    for name, question in analyses.QUESTIONS.items():
        whole, alone = (rows[f"`sojourn {name}`, 1,000 requests{part}", ""] for part in ("", ": of a split"))
        assert (whole.ours, whole.goal, whole.at, whole.met) == (1.5, question.whole, "most", True)
        assert (alone.ours, alone.goal, alone.at, alone.met) == (1.0, question.alone, "most", True)


@pytest.mark.parametrize("name", analyses.QUESTIONS)
def test_every_question_is_answered_of_a_split(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, question = growth.written_log(tmp_path, 2_000), analyses.QUESTIONS[name]
    monkeypatch.setattr(sys, "argv", ["-c", str(log), question.name, json.dumps(question.options)])
    exec(compile(analyses.OF_A_SPLIT, "timed", "exec"), {})
    seconds, keys = capsys.readouterr().out.split()
    assert float(seconds) > 0
    assert int(keys) > 5


def test_slope_meets_its_goal_to_two_decimals() -> None:
    assert Slope("a", "b", (1.0, 10.0), (1.0, 10.0)).met is None
    assert Slope("a", "b", (1.0, 10.0), (1.0, 10.05), goal=1.0).met is True
    assert Slope("a", "b", (1.0, 10.0), (1.0, 12.0), goal=1.0).met is False


@pytest.mark.thorough
def test_pages_have_goals_of_time_memory_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "analysis"))
    rows = {row.what: row for row in report.run(settings_in(tmp_path)).rows}
    large, small = "`sojourn report`, 1,000 requests", "`sojourn report`, 3,087 requests"
    assert {what: (row.unit, row.goal, row.at) for what, row in rows.items()} == {
        large: ("s", 12.0, "most"),
        f"{large}: memory": ("MB", 1800.0, "most"),
        f"{large}: page": ("MB", 3.0, "most"),
        small: ("s", 3.0, "most"),
        f"{small}: page": ("MB", 3.0, "most"),
        "`sojourn movie`, page, 3,087 requests": ("s", 2.0, "most"),
    }
    # The script of Vega alone has 0.9 MB.
    assert all(0.9 < row.ours < 3.0 for what, row in rows.items() if what.endswith(": page"))
    assert all(row.peak_mb is not None and row.peak_mb > 50 for row in rows.values() if row.unit == "s")
    assert not list(tmp_path.glob("*.jsonl"))


def test_the_trace_has_goals_of_time_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "analysis"))
    seconds, size = timeline.run(settings_in(tmp_path)).rows
    assert (seconds.unit, seconds.goal, seconds.at) == ("s", 10.0, "most")
    assert (size.unit, size.goal, size.at) == ("bytes per request", 300.0, "most")
    assert 100 < size.ours < 400
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.thorough
def test_the_page_has_goals_of_time_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY / 'analysis'}:{REPOSITORY / 'lab'}")
    view, brush, replay, memory = serve.run(settings_in(tmp_path)).rows
    assert (view.unit, view.goal, brush.unit, brush.goal) == ("s", 3.0, "ms", 150.0)
    assert (replay.unit, replay.goal, memory.unit, memory.goal) == ("s", 1.0, "MB", 2_000.0)
    assert all(row.at == "most" and row.ours > 0 and (row.peak_mb or 0) > 50 for row in (view, brush, replay, memory))
    assert not list(tmp_path.glob("*.jsonl"))


def test_interval_join_and_blame_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one backend, so that no wait is attributed to the balancer."""
    log = growth.written_log(tmp_path, 2_000, backends=1)
    monkeypatch.setattr(sys, "argv", ["-c", str(log), str(growth.WORKERS)])
    blamed = []
    for script in (analyses.OURS, analyses.THEIRS):
        exec(compile(analyses.BLAME_OF + script, "timed", "exec"), {})
        blamed.append(float(capsys.readouterr().out.split()[1]))
    assert blamed[0] > 1.0
    assert blamed[1] == pytest.approx(blamed[0], rel=1e-6)


def test_written_log_has_the_requested_sizes(tmp_path: Path) -> None:
    lines = growth.written_log(tmp_path, 20_000, backends=4, routes=30).read_text().splitlines()
    assert len(lines) == 20_000
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    rows = [row for row in whole if ", " not in row["upstream_addr"]]
    assert len({row["upstream_addr"] for row in rows}) == 4
    assert len({row["route"] for row in rows}) == 30
    assert len({(row["upstream_addr"], row["route"]) for row in rows}) == 120  # one upstream, whatever the route


def test_measures_three_slopes_per_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "BACKENDS_GROW", (1, 2))
    monkeypatch.setattr(growth, "ROUTES_GROW", (3, 4))
    monkeypatch.setattr(growth, "REQUESTS_GROW", (5_000_000, 6_000_000))
    read: list[int] = []

    def cost(command: list[str]) -> Cost:
        read.append(len(Path(command[1]).read_text().splitlines()))
        return Cost(1.0, 1.0 + read[-1] / 1_000, 1.0)

    monkeypatch.setattr(growth, "command_cost", cost)
    slopes = growth.slopes(
        settings_in(tmp_path), {"wc": lambda log: ["wc", str(log)]}, {("wc", "routes"): "a word"}, {"wc": 1.5}
    )
    assert read == [2_000, 5_000, 6_000, 4_000, 4_000, 4_000, 4_000]
    assert [(each.against, each.sizes, each.note) for each in slopes] == [
        ("requests", (5_000, 6_000), ""),
        ("backends", (1, 2), ""),
        ("routes", (3, 4), "a word"),
    ]
    assert {each.goal for each in slopes} == {1.5}
    assert slopes[0].costs == pytest.approx((3.0, 4.0))  # without the start
    assert slopes[0].slope == pytest.approx(np.log(4 / 3) / np.log(6 / 5))
    assert slopes[1].slope == pytest.approx(0.0, abs=1e-9)


STORE = """
import json, sys
from pathlib import Path
from benchmarks.rows import Settings
from benchmarks.suites import store
store.STORED = (1_000_000,)
store.slopes = lambda *_: []
measurements = store.run(Settings(repeats=1, scale=0.001, folder=Path(sys.argv[1]), progress=lambda _: None))
print(json.dumps(measurements.to_dict()))
"""


@pytest.mark.thorough
def test_compares_loading_and_every_query_with_the_bare_way(tmp_path: Path) -> None:
    """Run in a process of its own: a process holds one embedded store at a time."""
    done = subprocess.run(
        [sys.executable, "-c", STORE, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "analysis")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measurements = json.loads(done.stdout)
    rows = {row["what"]: row for row in measurements["rows"]}
    assert rows["`sojourn store load`, 2,000 lines"]["ratio"] > 0
    assert rows["a request in the store, merged"]["ratio"] > 0
    queries = [row for row in measurements["rows"] if row["what"].endswith("a day of 1,000 requests")]
    assert len(queries) == 8
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in queries)


@pytest.mark.thorough
def test_compares_the_agent_with_vector_that_only_reads(tmp_path: Path) -> None:
    if not (os.environ.get("SOJOURN_VECTOR") or shutil.which("vector")):
        pytest.skip("no vector: install Vector 0.57.0 or set SOJOURN_VECTOR to it")
    measurements = agent.run(settings_in(tmp_path))
    compared, bounded = measurements.rows
    assert compared.ours > 0
    assert compared.ratio is not None
    assert compared.ratio > 0
    assert (bounded.ours, bounded.goal, bounded.at) == (compared.ours, agent.MOST, "most")


def test_records_missing_vector_as_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "vector_program", lambda: None)
    measurements = agent.run(settings_in(tmp_path))
    assert measurements.rows == []
    assert len(measurements.skipped) == 1


@pytest.mark.thorough
def test_compares_export_with_mtail_on_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("mtail") is None:
        pytest.skip("there is no mtail")
    monkeypatch.setattr(export, "RATE", 500.0)
    monkeypatch.setattr(export, "WARM", 1.0)
    measurements = export.run(settings_in(tmp_path))
    row, counting = measurements.rows
    assert row.peer == "mtail"
    assert counting.peer == "without"
    assert row.ours > 0
    assert row.theirs is not None
    assert row.theirs > 0
    assert measurements.versions["mtail"][0].isdigit()


def test_a_log_without_stamps_is_compared_with_a_scan(tmp_path: Path) -> None:
    measurements = plain.run(settings_in(tmp_path))
    read, infer = measurements.rows
    assert (read.peer, read.goal, read.at) == (plain.SCANNED, plain.SCANS, "most")
    assert read.ratio is not None
    assert read.ours > 0
    assert (infer.goal, infer.ours > 0) == (plain.LONGEST, True)
    assert [slope.against for slope in measurements.slopes] == ["requests"]
