"""The benchmark runs and says for every goal whether it is met; speeds are not asserted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from benchmarks import log_generator
from benchmarks.log_generator import LogShape, write_combined, write_log
from benchmarks.measure import Cost, command_cost
from benchmarks.odd_lines import ODD
from benchmarks.rows import Settings
from benchmarks.suites import split, startup
from benchmarks.traffic_generator import Settings as Traffic
from benchmarks.traffic_generator import generate_traffic
from benchmarks.traffic_generator import write_log as write_traffic_log
from sojourn.readers.record import LIST_KEYS

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.thorough
def test_judges_every_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = set()

    def each_kind_once(command: list[str]) -> Cost:
        kind = re.sub(r"/\S+|[0-9]+", "", " ".join(command))
        if kind in ran:
            return Cost(1.0, 1.0, 100.0)
        ran.add(kind)
        return command_cost(command)

    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "analysis"))
    monkeypatch.setattr(split, "command_cost", each_kind_once)
    monkeypatch.setattr(startup, "command_cost", each_kind_once)
    settings = Settings(repeats=1, scale=0.00001, folder=tmp_path, progress=lambda _: None)
    suites = [split.run(settings), startup.run(settings)]
    assert len(ran) >= 7
    rows = [row for suite in suites for row in suite.to_dict()["rows"]]
    goals = {(row["goal"], row["at"]) for row in rows if row["goal"] is not None}
    assert {(2.5, "most"), (1200.0, "most"), (0.1, "most"), (0.6, "most"), (450.0, "most")} <= goals
    if not suites[0].skipped:
        assert (8.0, "least") in goals
    assert all(row["met"] is not None for row in rows if row["goal"] is not None)
    assert all(row["ours"] > 0 for row in rows)
    assert [slope.against for slope in suites[0].slopes] == ["requests", "routes", "backends"]
    assert not list(tmp_path.glob("access*"))


def test_all_stretches_of_a_log_are_written_to_a_file(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_generator, "STRETCH", 10)
    monkeypatch.setattr(sys, "argv", ["log_generator", "25"])
    log_generator.main()  # pytest has put a file in the place of standard output
    assert re.findall(r'"connection":"(\d+)"', capfd.readouterr().out) == [str(k) for k in range(25)]


def test_writes_results_as_json_and_markdown(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "startup", "--repeats", "1", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "analysis")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "bench.json").read_text())["suites"]["startup"]["rows"]
    assert (tmp_path / "bench.md").read_text().strip() in done.stdout


def test_both_log_formats_hold_the_same_requests(tmp_path: Path) -> None:
    own, combined = tmp_path / "access.jsonl", tmp_path / "access.log"
    shape = LogShape(2_000, routes=7, backends=3, first=500, clean=True)
    write_log(shape, own)
    write_combined(shape, combined)
    records = [json.loads(line) for line in own.read_text().splitlines()]
    lines = combined.read_text().splitlines()
    assert [record["uri"] for record in records] == [line.split()[6] for line in lines]
    assert len({record["request_id"] for record in records}) == 2_000
    assert len({record["route"] for record in records}) == 7
    assert len({record["upstream_addr"] for record in records}) == 3
    assert len({line.split('"')[5] for line in lines}) > 300
    waits = [float(record["queueing_delay"]) for record in records]
    assert 0.09 < sum(waits) / len(waits) < 0.11


def test_generated_logs_hold_odd_lines_in_their_parts(tmp_path: Path) -> None:
    by_sql, by_python = tmp_path / "access.jsonl", tmp_path / "traffic.jsonl"
    write_log(LogShape(20_000), by_sql)
    write_traffic_log(generate_traffic(Traffic(requests=20_000)), by_python, odd=True)
    for log in (by_sql, by_python):
        lines = log.read_text().splitlines()
        counts = Counter(map(_kind_of, lines))
        assert len(lines) == 20_000
        for kind, thousandths in ODD.items():
            assert abs(counts[kind] - 20 * thousandths) < 5 * (20 * thousandths) ** 0.5, (log.name, counts)
        routes = Counter(json.loads(line)["route"] for line in lines if _kind_of(line) is None)
        assert routes.most_common(1)[0][1] > 3 * sorted(routes.values())[len(routes) // 2]


def _kind_of(line: str) -> str | None:
    try:
        record = json.loads(line)
    except ValueError:
        return "damaged"
    if ", " in record["upstream_addr"]:
        assert len({record[key].count(", ") for key in LIST_KEYS}) == 1
        return "retried"
    if record["status"] in {"499", "504"}:
        assert record["queueing_delay"] == record["worker"] == ""
        return "abandoned" if record["status"] == "499" else "timed out"
    if not record["uri"].isascii():
        return "not ASCII"
    return "escaped" if '"' in record["uri"] else None
