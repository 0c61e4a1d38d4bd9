"""The toolkit's own pipeline as the subject: its records, its counts, and each part alone for a second."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sojourn
from lab_support import find_scenario
from sojourn.store.schema import schema_files
from sojourn_lab.errors import LabError
from sojourn_lab.experiments.pipeline import run_case
from sojourn_lab.experiments.pipeline.agent import Count, counts_in, lay_out_agent, vector_program
from sojourn_lab.experiments.pipeline.records import FIRST, log_lines
from sojourn_lab.experiments.pipeline.store import MARK, PARTITIONS, batch_text, table_statement
from sojourn_lab.experiments.pipeline.vector import figures_of, processor_seconds
from sojourn_lab.experiments.stage import Stage
from sojourn_lab.results.criteria import judged_criteria, skipped
from sojourn_lab.results.findings import lessons_of
from sojourn_lab.results.progress import Watcher
from sojourn_lab.results.run_schema import CaseResult, WindowTimes
from sojourn_lab.runtime.interrupts import Interrupts
from sojourn_lab.runtime.process import Process
from sojourn_lab.scenario.case import Case
from sojourn_lab.scenario.schema import Criterion


def stage_of(folder: Path, name: str, duration: float = 1.0, **settings: Any) -> Stage:
    """A stage for one case of the shipped scenario, shortened."""
    scenario = msgspec.structs.replace(find_scenario("pipeline"), duration=duration, warmup=0.2)
    (result,) = [case for case in scenario.cases if case.name == name]
    assert result.pipeline is not None
    case: Case = msgspec.structs.replace(result, pipeline=msgspec.structs.replace(result.pipeline, **settings))
    logs = folder / name
    logs.mkdir()
    return Stage(
        scenario, case, scenario.topology, name, [7, 1], folder, logs, folder / "access.jsonl", Interrupts(), Watcher()
    )


def test_every_record_made_up_is_one_the_toolkit_takes(tmp_path: Path) -> None:
    lines = log_lines(500, [3], spread=7200.0)
    assert lines == log_lines(500, [3], spread=7200.0)
    assert lines != log_lines(500, [4], spread=7200.0)
    log = tmp_path / "made.jsonl"
    log.write_bytes(b"".join(lines))
    requests = sojourn.read(log)
    rows = requests.rows.collect()
    assert (requests.records.read, requests.records.reasons) == (500, {})
    assert rows["request_id"].n_unique() == 500
    instants = [float(json.loads(line)["time"]) for line in lines]
    assert min(instants) >= FIRST
    assert max(instants) < FIRST + 7200.0
    assert all(isinstance(value, str) for value in json.loads(lines[0]).values())


def test_the_rate_is_from_the_last_count_before_the_window_to_the_first_after_it() -> None:
    counts = [
        Count(0.0, 0.0, 0.0),
        Count(1.0, 100.0, 0.0),
        Count(2.0, 300.0, 0.0),
        Count(3.0, 500.0, 4.0),
        Count(4.0, 900.0, 5.0),
    ]
    used = [(0.0, 10.0), (10.0, 15.0)]
    # 400 events in 2 s, for which half a core was used.
    expected = {
        "events_per_s": pytest.approx(200.0),
        "cores": pytest.approx(0.5),
        "event_cpu": pytest.approx(0.0025),
        "discarded": 4.0,
    }
    assert figures_of(counts, used, 1.5, 2.5) == expected
    # The input came to its end: the counts after that are no slowness of the program.
    ended = [*counts[:-1], Count(4.0, 500.0, 4.0), Count(5.0, 500.0, 4.0)]
    assert figures_of(ended, used, 1.5, 4.5) == expected
    for since, until in ((-1.0, 2.5), (1.5, 9.0), (3.5, 4.5)):
        assert set(figures_of(ended, used, since, until).values()) == {None}


def test_counts_are_those_of_the_sink_of_lines() -> None:
    def line(instant: str, component: str, value: float, name: str = "component_sent_events_total") -> bytes:
        tags = {"component_id": component}
        values = {"name": name, "tags": tags, "timestamp": instant, "kind": "absolute", "counter": {"value": value}}
        return json.dumps(values).encode() + b"\n"

    first, second = "2026-01-01T00:00:00.250000123Z", "2026-01-01T00:00:00.5Z"
    discarded = "component_discarded_events_total"
    text = b"".join(
        [
            line(second, "store_lines", 30.0),
            line(first, "store_lines", 10.0),
            line(first, "access_log", 2.0, name=discarded),
            line(first, "lines", 1.0, name=discarded),
            line(first, "access_log", 99.0),
            line(first, "store_lines", 98.0, name="component_received_events_total"),
            line(second, "store_lines", 97.0)[:-9],
        ]
    )
    assert counts_in(text) == [Count(FIRST + 0.25, 10.0, 3.0), Count(FIRST + 0.5, 30.0, 0.0)]
    assert counts_in(text, "access_log") == [Count(FIRST + 0.25, 99.0, 3.0)]


def test_the_agent_is_measured_as_it_is_shipped(tmp_path: Path) -> None:
    """Only folders, addresses and the size of a buffer differ."""
    lay_out_agent(tmp_path, tmp_path / "logs", "http://127.0.0.1:1", 0.25)
    shipped = Path(__file__).parents[3] / "collector" / "vector" / "config"
    names = {file.name for file in shipped.glob("*.yaml")}
    assert {file.name for file in (tmp_path / "config").iterdir()} == names | {"lab.json"}
    for name in names:
        before, after = ((folder / name).read_text().splitlines() for folder in (shipped, tmp_path / "config"))
        assert len(before) == len(after)
        changed = [line for line, other in zip(before, after, strict=True) if line != other]
        assert all(re.search(r"/var/|/run/|127\.0\.0\.1:|clickhouse:8123|max_size", line) for line in changed), changed


def test_a_table_is_cut_otherwise_and_else_the_shipped_one() -> None:
    shipped = next(each for each in schema_files() if each.name == "tables/requests").statements()[0]
    hour = table_statement(shipped, "hour")
    assert hour.startswith("CREATE TABLE IF NOT EXISTS requests_hour")
    assert hour.count("PARTITION BY") == 1
    assert "PARTITION BY toStartOfHour(time)" in hour
    assert "PARTITION BY" not in table_statement(shipped, "none")
    back = table_statement(shipped, "day").replace("requests_day", "requests", 1)
    assert back == shipped
    with pytest.raises(LabError, match="no longer partitioned"):
        table_statement("CREATE TABLE other", "hour")
    assert set(PARTITIONS) == {"day", "hour", "none"}


def test_a_batch_has_its_own_instants_and_ids() -> None:
    rows = [json.loads(line) for line in batch_text([{"a": 1, "time": "x"}, {"a": 2}], 5, 50.0).splitlines()]
    assert [row["a"] for row in rows] == [1, 2, 1, 2, 1]
    assert rows[0]["time"] == "2026-01-01 00:00:05.000000"
    assert rows[-1]["time"] == "2026-01-01 00:00:45.000000"
    assert len({row["request_id"] for row in rows}) == 5
    assert all(row["request_id"].startswith(MARK.decode()) and len(row["request_id"]) == 32 for row in rows)


def test_processor_time_of_a_process_grows_with_its_work(tmp_path: Path) -> None:
    busy = [sys.executable, "-c", "while True: pass"]
    with Process(busy, name="busy", folder=tmp_path) as process:
        process.wait_until(lambda: processor_seconds(process.pid) > 0.1, 60.0, "a tenth of a second of work")
    with pytest.raises(LabError, match="ended while"):
        processor_seconds(process.pid)


def no_vector(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("SOJOURN_VECTOR", raising=False)
    monkeypatch.setenv("PATH", str(folder))


def test_without_vector_its_cases_are_skipped_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_vector(monkeypatch, tmp_path)
    outcome = run_case(stage_of(tmp_path, "vector-1"))
    assert set(outcome.figures) == {"skipped"}
    assert "SOJOURN_VECTOR" in outcome.figures["skipped"]
    assert not (tmp_path / "vector-1" / "work").exists()
    cases = [result("vector-1", outcome.figures), result("batch-100", {"rows_per_s": 5.0})]
    criterion = Criterion("fast", "figures.events_per_s", cases="vector-*", above=1.0)
    other = Criterion("rows", "figures.rows_per_s", cases="batch-*", above=9.0)
    assert [(each.name, each.passed) for each in judged_criteria([criterion, other], cases)] == [("rows", False)]
    output = lessons_of(find_scenario("pipeline"), cases)
    assert output[0].startswith("vector-1 was skipped and has no figures: vector is not installed")


def test_a_case_without_a_figure_is_not_taken_for_a_skipped_one() -> None:
    criterion = Criterion("fast", "figures.events_per_s", cases="vector-*", above=1.0)
    judged = judged_criteria([criterion], [result("vector-1", {"events_per_s": None})])
    assert [each.passed for each in judged] == [False]
    measured, left_out = {"figures": {"events_per_s": 1.0}}, {"figures": {"skipped": "x"}}
    assert skipped([left_out, left_out]) == "x"
    assert skipped([measured, left_out]) == skipped([]) == ""


def result(name: str, figures: dict[str, Any]) -> CaseResult:
    window = WindowTimes("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z")
    return CaseResult(name, 0.0, None, 0.0, 1.0, window, None, [], base=name, figures=figures)


def test_without_the_engine_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn_lab.experiments.pipeline import inserts  # noqa: PLC0415

    monkeypatch.setattr(inserts, "find_spec", lambda name: None if name == "chdb" else importlib.util.find_spec(name))
    with pytest.raises(LabError, match=r"needs chdb: pip install '\.\[store\]'"):
        run_case(stage_of(tmp_path, "batch-100"))


def test_larger_inserts_bring_more_rows_and_none_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    small = run_case(stage_of(tmp_path, "batch-100", duration=0.5, batch=50)).figures
    large = run_case(stage_of(tmp_path, "batch-10000", duration=0.5, batch=4_000)).figures
    assert large["rows_per_s"] > 3.0 * small["rows_per_s"]
    assert small["inserts"] >= 1
    assert (small["lost"], large["lost"]) == (0, 0)
    assert large["insert_seconds"] * large["rows_per_s"] == pytest.approx(4_000)
    assert not (tmp_path / "batch-100" / "work").exists()


def test_finer_partitions_leave_less_to_read(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    figures = run_case(stage_of(tmp_path, "by-hour", duration=0.2, batch=1_200, spread=43_200.0)).figures
    assert figures["partitions"] == 12
    assert figures["read_share"] == pytest.approx(1 / 12, abs=0.01)
    assert figures["lost"] == 0


def test_vector_ships_lines(tmp_path: Path) -> None:
    if vector_program() is None:
        pytest.skip("no vector: install Vector 0.57.0 or set SOJOURN_VECTOR to it")
    outcome = run_case(stage_of(tmp_path, "vector-1"))
    figures = outcome.figures
    assert figures["events_per_s"] > 300.0, figures
    assert figures["discarded"] == 0.0
    # An event costs what the rate and the cores come to.
    assert figures["event_cpu"] * figures["events_per_s"] == pytest.approx(figures["cores"])
    assert outcome.until - outcome.since == pytest.approx(1.0, abs=0.01)
    assert not (tmp_path / "vector-1" / "work").exists()


def test_the_worker_refuses_a_plan_that_is_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sojourn_lab.experiments.pipeline.store", str(tmp_path / "none.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("store: needs one plan file")
    assert "Traceback" not in done.stderr
