"""Content of a run's report and of its tables, for the recorded run of docs/examples."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import msgspec
import pytest
from lab_support import find_scenario
from rich.console import Console
from sojourn.present.palette import QUEUEING, SERVICE
from sojourn_lab.results.case_picture import case_chart, case_table
from sojourn_lab.results.findings import SENTENCE_END, lessons_of, outcome
from sojourn_lab.results.metric_units import metric_text
from sojourn_lab.results.report import case_splits, reference_sections, write_report
from sojourn_lab.results.requests import run_requests
from sojourn_lab.results.rows import mean_rows, reference_rows, result_caption
from sojourn_lab.results.run_schema import CriterionResult, Run
from sojourn_lab.results.tables import COLOURS, print_run

pytestmark = pytest.mark.alone

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "benchmark-run"


@pytest.fixture(scope="module")
def recorded() -> Run:
    run = msgspec.json.decode(gzip.decompress((EXAMPLE / "run.json.gz").read_bytes()), type=Run)
    run.learned = lessons_of(run.scenario, run.cases)
    return run


@pytest.fixture(scope="module")
def page(recorded: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    write_report(recorded, run_requests(EXAMPLE / "access.jsonl.gz", []), folder, name="benchmark-run")
    return re.sub(r"<script>.*?</script>", "", (folder / "report.html").read_text(), flags=re.DOTALL)


def headings_of(page: str) -> list[list[str]]:
    """Return the column headings of each table outside of the charts' own."""
    tables = re.findall(r'aria-label="Table: .*?<thead>(.*?)</thead>', page, flags=re.DOTALL)
    return [re.findall(r"<th[^>]*>(.*?)</th>", table) for table in tables]


def test_report_opens_with_the_picture_then_the_finding_then_the_cases(page: str) -> None:
    first = page.index('id="chart-cases"')
    verdict = page.index('class="verdict"')
    table = page.index("Measured: means in ms")
    assert first < verdict < table
    finding = re.search(r'class="verdict">(.*?)</p>', page)
    assert finding is not None
    assert "the queue got longer" in finding[1]


def test_report_of_several_cases_has_no_audit_of_all_together(page: str) -> None:
    assert "not stationary" not in page.split('id="each"', maxsplit=1)[0]
    assert 'id="audit"' not in page
    assert 'class="note"' not in page.split('id="each"', maxsplit=1)[0]
    folded = page.split('id="each"')[1]
    assert folded.count('<details class="part"') == 6
    assert folded.count("Little") == 6


def test_comparison_with_the_article_is_last(page: str) -> None:
    assert page.index('id="reference"') > max(page.index(f'id="{key}"') for key in ("each", "about"))


def test_no_table_has_a_column_twice(page: str) -> None:
    tables = headings_of(page)
    assert len(tables) >= 3 + 6
    for headings in tables:
        assert len(set(headings)) == len(headings)


def test_figures_of_criteria_have_the_unit_of_the_criterion(page: str) -> None:
    tables = re.findall(r'aria-label="Table: .*?</table>', page.split('id="each"', 1)[0], flags=re.DOTALL)
    assert not re.search(r"\d[eE][-+]\d", "".join(tables))
    row = re.search(r"<tr><th[^>]*>mean connect under 2 ms.*?</tr>", page)
    assert row is not None
    assert re.search(r">0\.\d+ to 0\.\d+ ms</td>", row[0])


@pytest.mark.parametrize(
    ("metric", "values", "name", "text"),
    [
        ("split.components.connect.mean", [7.843e-05, 0.0002], "mean connect under 2 ms", "0.08 to 0.20 ms"),
        ("split.audit.identity_max_error", [0.0, 0.0], "the parts add up to 1 µs", "0 µs"),
        ("split.components.queueing_delay.mean", [0.3, 0.9], "within 10 % of the law", "300 to 900 ms"),
        ("split.response_time.p99", [0.2, 1.5], "", "0.20 to 1.50 s"),
        ("figures.balance.imbalance_share", [0.512], "", "51 %"),
        ("client.failed", [1234.0], "", "1,234"),
        ("split.audit.little.ratio", [1.0, 1.0044], "", "1 to 1.004"),
        ("client.failed", [None], "", "–"),
    ],
)
def test_metrics_are_written_in_one_unit(metric: str, values: list[float | None], name: str, text: str) -> None:
    assert metric_text(metric, values, name) == text


def test_picture_stacks_service_and_queueing_with_the_law_over_them(recorded: Run) -> None:
    splits = case_splits(recorded, run_requests(EXAMPLE / "access.jsonl.gz", []))
    table = case_table(recorded, splits)
    assert table["case"].to_list() == [case.name for case in recorded.cases]
    last = table.row(-1, named=True)
    assert last["law"] == pytest.approx(1.2)
    assert last["service"] + last["queueing"] + last["other"] == pytest.approx(last["response"], rel=0.01)
    spec = case_chart(table).to_dict()
    bars, *lines = spec["layer"]
    colours = dict(zip(*(bars["encoding"]["color"]["scale"][key] for key in ("domain", "range")), strict=True))
    assert (colours["service time"], colours["queueing delay"]) == (SERVICE, QUEUEING)
    assert bars["encoding"]["x"]["stack"] == "zero"
    assert {line["encoding"]["x"]["field"] for line in lines} == {"law"}


def test_rounds_of_a_case_are_one_row_of_medians(recorded: Run) -> None:
    run = recorded_in_rounds(recorded, 3)
    assert result_caption(run) == "means in ms, medians of 3 rounds"
    (_, once), (_, rows) = mean_rows(recorded), mean_rows(run)
    assert [row[0] for row in rows] == [row[0] for row in once]
    assert rows == once
    assert reference_rows(run) == reference_rows(recorded)
    assert lessons_of(run.scenario, run.cases) == recorded.learned


def recorded_in_rounds(run: Run, rounds: int) -> Run:
    """Return the run with each case repeated `rounds` times, with the same figures except in the last round."""
    replace = msgspec.structs.replace
    cases = [
        replace(case, base=case.name, round=turn, name=f"{case.name}.r{turn}")
        for turn in range(1, rounds + 1)
        for case in run.cases
    ]
    cases[-1] = replace(cases[-1], split={"response_time": {"mean": 99.0}, "components": cases[0].split["components"]})  # type: ignore[index]
    return replace(run, cases=cases)


@pytest.mark.parametrize(
    ("passed", "faults", "sentence"),
    [
        ([True, True], [], "✓ passed: all 2 criteria were met."),
        ([True], ["the report failed"], "✗ failed: 1 criterion was met, 1 fault."),
        ([True, False], [], "✗ failed: 1 of 2 criteria was missed."),
        ([], ["the report failed"], "✗ failed: no criterion was set, 1 fault."),
    ],
)
def test_outcome_counts_criteria_whatever_else_went_wrong(
    recorded: Run, passed: list[bool], faults: list[str], sentence: str
) -> None:
    criteria = [CriterionResult("c", "a", "m", "above 1", 2.0, each) for each in passed]
    whole = all(passed) and not faults
    assert outcome(msgspec.structs.replace(recorded, criteria=criteria, faults=faults, passed=whole)) == sentence


def test_run_without_a_finding_begins_with_its_outcome(recorded: Run) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    print_run(console, msgspec.structs.replace(recorded, learned=[]), "there")
    question, first, *_ = console.export_text().splitlines()
    assert question == recorded.scenario.question
    assert first == outcome(recorded)


def test_states_differ_in_sign_word_and_colour(recorded: Run) -> None:
    assert len({state.split()[0] for state in COLOURS}) == len({state.split()[1] for state in COLOURS}) == 3
    passed = CriterionResult("kept", "a", "client.failed", "exactly 0", 0.0, True)
    failed = CriterionResult("missed", "a", "client.failed", "exactly 0", 2.0, False)
    console = Console(width=200, record=True, file=io.StringIO(), force_terminal=True)
    print_run(console, msgspec.structs.replace(recorded, criteria=[passed, failed], passed=False), "there")
    lines = console.export_text(styles=True).splitlines()
    kept, missed = (next(line for line in lines if line.startswith(name)) for name in ("kept ", "missed "))
    assert re.search(r"\x1b\[32m✓ passed\x1b\[0m", kept)
    assert re.search(r"\x1b\[1;31m✗ failed\x1b\[0m", missed)


def test_reference_of_a_scenario_with_columns_has_its_note_and_source(recorded: Run) -> None:
    scenario = find_scenario("proxy-workers")
    (section,) = reference_sections(msgspec.structs.replace(recorded, scenario=scenario))
    assert section.tables == ()
    assert section.sentence == SENTENCE_END.split(scenario.reference_note)[0]
    assert scenario.reference_source in section.measures
    assert reference_sections(msgspec.structs.replace(recorded, scenario=find_scenario("overload"))) == []


def test_the_tables_of_a_run_fit_a_terminal_of_80_columns(recorded: Run) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    print_run(console, recorded, "runs/benchmark")
    text = console.export_text()
    assert "…" not in text
    assert not re.search(r"\d[eE][-+]\d", text)
    assert text.index("Comparison with the article") > text.index("Criteria")
