"""All runs of a folder as tables: their content, unreadable runs, and refused SQL."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from lab_runs import recorded_run
from sojourn_lab.cli import app
from sojourn_lab.errors import LabError
from sojourn_lab.results.criteria import number_at
from sojourn_lab.results.runs.archive import archive_of, numbers_of, selected
from sojourn_lab.results.runs.tables import TABLES, query
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs whose names sort differently than their starts, and other files that such a folder may hold."""
    folder = tmp_path_factory.mktemp("archive") / "runs"
    recorded_run(folder / "c", started=1_795_000_000.0)
    recorded_run(folder / "a", started=1_795_001_000.0, rounds=3, settings=("topology.workers=3",), requests=500)
    recorded_run(folder / "b", started=1_795_002_000.0, passed=False)
    (folder / "stopped.partial").mkdir()
    (folder / "empty").mkdir()
    (folder / "half").mkdir()
    (folder / "half" / "run.json").write_text('{"scenario": {"name"')
    (folder / "other").mkdir()
    (folder / "other" / "run.json").write_text('{"scenario": {"name": "x"}, "cases": [], "started": "long ago"}')
    (folder / "deep").mkdir()
    (folder / "deep" / "run.json").write_text("[" * 100_000)
    (folder / "evil\x1b[31m").mkdir()
    (folder / "notes.txt").write_text("no run")
    return folder


ONE_SELECT = "--sql takes one SELECT"


def answer(runs: Path, sql: str) -> list[tuple[object, ...]]:
    return query(archive_of(runs), sql)[1]


def test_runs_are_numbered_by_start_and_unreadable_folders_are_listed(runs: Path, snapshot: SnapshotAssertion) -> None:
    archive = archive_of(runs)
    assert [(each.number, each.name) for each in archive.runs] == [(1, "c"), (2, "a"), (3, "b")]
    assert archive.unreadable.keys() == {"stopped.partial", "empty", "half", "other", "deep", "evil\x1b[31m"}
    assert {name: reason for name, reason in archive.unreadable.items() if name != "deep"} == snapshot


def test_run_is_selected_by_number_name_or_folder(runs: Path, snapshot: SnapshotAssertion) -> None:
    assert selected("2", runs).name == "a"
    assert selected("a", runs).number == 2
    assert selected(str(runs / "a" / "run.json"), runs).number == 2
    elsewhere = selected(str(runs / "a"), runs / "nowhere")
    assert (elsewhere.number, elsewhere.label) == (0, "a")
    for text in ("9", "half"):
        with pytest.raises(LabError) as refusal:
            selected(text, runs)
        assert str(refusal.value).replace(str(runs), "RUNS") == snapshot


def test_every_table_has_its_columns_and_rows(runs: Path) -> None:
    for table, columns in TABLES.items():
        result = query(archive_of(runs), f"SELECT * FROM {table}")
        assert result[0] == list(columns)
    assert answer(runs, "SELECT number, scenario, article, passed, kept, criteria FROM runs ORDER BY number") == [
        (1, "known", "004", True, 1, 1), (2, "known", "004", True, 1, 1), (3, "known", "004", False, 1, 1),
    ]  # fmt: skip
    assert answer(runs, "SELECT run, case_name, base, round, kind FROM cases WHERE number = 2 ORDER BY round") == [
        ("a", f"p.r{turn}", "p", turn, "poisson") for turn in (1, 2, 3)
    ]
    assert answer(runs, "SELECT CAST(setup->'$.topology.workers' AS INTEGER) FROM runs ORDER BY number") == [
        (2,), (3,), (2,),
    ]  # fmt: skip


def test_figures_hold_every_number_of_a_case_under_the_path_that_criteria_use(runs: Path) -> None:
    case = json.loads((runs / "c" / "run.json").read_bytes())["cases"][0]
    result = dict(answer(runs, "SELECT path, value FROM figures WHERE run = 'c'"))  # type: ignore[arg-type]
    assert result["figures.balance.of.2"] == 1.0
    assert result["split.response_time.mean"] == case["split"]["response_time"]["mean"]
    assert not any(path.startswith("load.") for path in result)
    for path, value in result.items():
        assert number_at(path, case) == value
    assert dict(numbers_of({"a": [1, {"b": 2.0}], "c": "3", "d": None})) == {"a.0": 1.0, "a.1.b": 2.0}


def test_the_requests_of_all_runs_are_one_table(runs: Path) -> None:
    sql = "SELECT run, number, count(*), avg(queue) FROM requests GROUP BY ALL ORDER BY number"
    result = answer(runs, sql)
    assert [row[:3] for row in result] == [("c", 1, 2_000), ("a", 2, 1_500), ("b", 3, 2_000)]
    means = dict(answer(runs, "SELECT run, avg(queueing_mean) FROM cases GROUP BY run"))  # type: ignore[arg-type]
    for row in result:
        assert row[3] == pytest.approx(means[row[0]])


def test_unreadable_or_missing_requests_do_not_affect_other_tables(tmp_path: Path) -> None:
    recorded_run(tmp_path / "new")
    recorded_run(tmp_path / "bad", started=1_795_009_000.0)
    (tmp_path / "bad" / "requests.parquet").write_bytes(b"PAR1 no more of it")
    archive = archive_of(tmp_path)
    assert query(archive, "SELECT DISTINCT run FROM requests")[1] == [("new",)]
    assert list(archive.unreadable) == ["bad/requests.parquet"]
    (tmp_path / "new" / "requests.parquet").unlink()
    assert answer(tmp_path, "SELECT * FROM requests") == []


def test_records_of_the_first_format_are_read(tmp_path: Path) -> None:
    recorded_run(tmp_path / "old")
    raw = json.loads((tmp_path / "old" / "run.json").read_bytes())
    raw["format"] = 1
    for gone in ("contrasts", "predictions", "changes"):
        del raw[gone]
    for case in raw["cases"]:
        for gone in ("base", "round", "figures", "void", "topology"):
            del case[gone]
    del raw["scenario"]["repeats"]
    (tmp_path / "old" / "run.json").write_text(json.dumps(raw))
    assert answer(tmp_path, "SELECT case_name, base, round FROM cases") == [("p", "p", 1)]
    assert answer(tmp_path, "SELECT repeats, changes FROM runs") == [(1, None)]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELEC 1", "Parser Error"),
        ("SELECT nothing FROM runs", "Binder Error"),
        ("DROP TABLE runs", ONE_SELECT),
        ("SELECT 1; SELECT 2", ONE_SELECT),
        ("", ONE_SELECT),
        ("COPY runs TO '{folder}/stolen.csv'", ONE_SELECT),
        ("COPY (SELECT 1) TO '{folder}/c/requests.parquet'", ONE_SELECT),
        ("ATTACH '{folder}/x.db'", ONE_SELECT),
        ("SELECT * FROM read_text('{folder}/notes.txt')", "Permission Error"),
        ("SELECT * FROM '{folder}/notes.txt'", "Error"),
        ("SELECT * FROM glob('{folder}/*')", "Permission Error"),
        ("SELECT * FROM archive", "Catalog Error"),
    ],
)
def test_sql_reads_only_the_runs(runs: Path, sql: str, kind: str) -> None:
    before = (runs / "c" / "requests.parquet").read_bytes()
    with pytest.raises(LabError, match=kind):
        query(archive_of(runs), sql.format(folder=runs))
    assert (runs / "c" / "requests.parquet").read_bytes() == before
    assert not (runs / "stolen.csv").exists()


def test_command_lists_newest_first_and_escapes_control_characters(runs: Path) -> None:
    result = CliRunner().invoke(app, ["runs", "--dir", str(runs)])
    assert result.exit_code == 0
    numbers = [line.split()[0] for line in result.stdout.splitlines() if line[:1].isdigit()]
    assert numbers == ["3", "2", "1", "6"], "three runs, and six unreadable folders"
    assert "\x1b" not in result.stdout
    assert r"evil\x1b" in result.stdout
    result = json.loads(CliRunner().invoke(app, ["runs", "--dir", str(runs), "--json"]).stdout)
    assert [each["run"] for each in result["runs"]] == ["b", "a", "c"]
    assert result["unreadable"]["empty"] == "has no run.json"


def test_the_command_answers_sql(runs: Path) -> None:
    sql = "SELECT run, passed, started, [1, 2] AS list, 'NaN'::DOUBLE AS nan FROM runs ORDER BY number"
    done = CliRunner().invoke(app, ["runs", "--dir", str(runs), "--sql", sql, "--json"])
    result = json.loads(done.stdout)
    assert result["columns"] == ["run", "passed", "started", "list", "nan"]
    assert result["rows"][0] == ["c", True, "2026-11-18T11:06:40", [1, 2], None]
    refused = CliRunner().invoke(app, ["runs", "--dir", str(runs), "--sql", "DELETE FROM runs"])
    assert refused.exit_code == 1
    assert ONE_SELECT in refused.stderr
    assert CliRunner().invoke(app, ["runs", "--dir", str(runs / "nowhere")]).exit_code == 1


def test_unusual_figures_and_versions_are_read(tmp_path: Path) -> None:
    recorded_run(tmp_path / "x")
    raw = msgspec.json.decode((tmp_path / "x" / "run.json").read_bytes())
    raw["cases"][0]["figures"] = {"a" * 300: 1e308, "b": -1}
    raw["versions"] = "none"
    (tmp_path / "x" / "run.json").write_bytes(msgspec.json.encode(raw))
    assert answer(tmp_path, "SELECT count(*) FROM figures WHERE value > 1e307") == [(1,)]
