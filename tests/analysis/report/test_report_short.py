"""The summary repeats the claims of the sections."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sojourn
from analysis_support import line
from sojourn.analyses.audit.result import Audit
from sojourn.present.section import Section
from sojourn.report.command import _say
from sojourn.report.short import in_short

SECTIONS = (
    Section("blame", "Who", "…", short="/export caused it."),
    Section("goodput", "Work", "…"),
    Section("whatif", "Help", "…", short="With one more worker it would be 1 s."),
)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> sojourn.SplitResult:
    log = tmp_path_factory.mktemp("log") / "a.jsonl"
    log.write_bytes(line() + line(request_time="0.200"))
    return sojourn.split(log)


def test_a_split_alone_needs_no_second_verdict(result: sojourn.SplitResult) -> None:
    assert in_short(result, []) == []
    assert in_short(result, [Section("wire", "Wire", "…", short="something")]) == []


def test_summary_repeats_only_the_claims_of_sections(result: sojourn.SplitResult) -> None:
    happened, cost, help_ = in_short(result, SECTIONS)
    assert happened.text.endswith("/export caused it.")
    assert happened.more == (("blame", "Who"),)
    assert cost.more == ()
    assert help_.text == "With one more worker it would be 1 s."


def test_no_prediction_promises_nothing(result: sojourn.SplitResult) -> None:
    help_ = in_short(result, [*SECTIONS[:2], replace(SECTIONS[2], short="")])[-1]
    assert help_.text == "No change has a certain effect."
    assert help_.more == (("whatif", "Help"),)


def test_a_doubtful_section_is_said_to_be_one(result: sojourn.SplitResult) -> None:
    lines = in_short(result, [replace(SECTIONS[0], failures=("not believable",)), *SECTIONS[1:]])
    assert [each.doubtful for each in lines] == [True, False, False]


def test_ten_seconds_are_ten_seconds(result: sojourn.SplitResult) -> None:
    numbers = [float(word) for word in in_short(result, SECTIONS)[0].text.replace(",", "").split() if "." in word[:-1]]
    assert sum(numbers) == pytest.approx(10, abs=0.11)


def test_on_a_terminal_an_audit_that_failed_comes_first_and_nothing_is_obeyed(
    result: sojourn.SplitResult, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(Audit, "failures", lambda _: ["no such \x1b[31mlaw"])
    doubtful = replace(SECTIONS[0], short="\x1b[31mit", failures=("not believable",))
    _say(result, in_short(result, [doubtful, *SECTIONS[1:]]), Path("r.html"))
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    audit, verdict, happened, *_, last = printed.splitlines()
    assert audit.startswith("AUDIT  no such ")
    assert verdict == result.verdict.sentence
    assert happened.startswith("Cause: ")
    assert happened.endswith("(in doubt: see the page)")
    assert last == "Full report: r.html"
