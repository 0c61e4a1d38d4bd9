"""A section says the same on a terminal and on a page, and hostile text does nothing in either."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import altair as alt
import pytest
import sojourn
from analysis_support import line
from sojourn.invocation.options import conditions_of, workers_of
from sojourn.model.formatting import printable
from sojourn.present.section import Picture, Section, Table
from sojourn.present.terminal import show
from sojourn.report.html import report_page
from typer import BadParameter

HOSTILE = "\x1b[31m<script>alert(1)</script>"


def section(rows: int = 3) -> Section:
    def chart() -> alt.Chart:
        return alt.Chart(alt.InlineData(values=[{"x": 1, "y": HOSTILE}])).mark_bar().encode(x="x:Q", y="y:N")

    return Section(
        key="blame",
        title="Victims and culprits",
        sentence=f"{HOSTILE} caused 61 % of all waiting",
        measures="From here to there.",
        failures=(f"doubtful: {HOSTILE}",),
        tables=(
            Table(("culprit", "seconds"), tuple((f"{HOSTILE}{i}", f"{i}.0") for i in range(rows)), "Culprits", shown=2),
        ),
        pictures=(Picture("blame-matrix", "The matrix", "Read it so.", chart),),
        notes=("Give --spans.",),
    )


def test_on_a_terminal_failures_come_first_and_escapes_are_shown_not_obeyed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    show(section())
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert printed.index("AUDIT") < printed.index("caused 61 %") < printed.index("Culprits") < printed.index("NOTE")
    assert "… 1 more" in printed


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    log = tmp_path_factory.mktemp("log") / "a.jsonl"
    log.write_bytes(line() + line(request_time="0.200"))
    return report_page(sojourn.split(log), sections=[section(60)]).text()


def test_on_a_page_it_has_its_heading_charts_tables_and_notes(page: str) -> None:
    assert re.search(r'<h2 id="blame">Victims and culprits</h2>', page)
    assert re.search(r'<h3 id="blame-matrix">The matrix</h3>', page)
    assert "and 10 more." in page
    assert "Give --spans." in page


def test_on_a_page_sections_of_a_kind_have_their_own_pictures() -> None:
    first, second = section(), replace(section(), key="blame-2")
    ids = re.findall(r'id="([^"]+)"', report_page(None, title="two", sections=[first, second]).text())
    assert len(set(ids)) == len(ids)
    assert {"spec-blame-matrix", "spec-blame-matrix-2"} <= set(ids)


def test_on_a_page_what_failed_is_said_before_the_verdict(page: str) -> None:
    assert page.index("doubtful") < page.index('class="verdict') < page.index('<h2 id="split">')


def test_on_a_page_hostile_text_is_text(page: str) -> None:
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page
    (spec,) = re.findall(r'id="spec-blame-matrix">(.*?)</script>', page, re.S)
    # As it is, the control character would end the engine that draws the chart.
    assert printable(HOSTILE) in json.dumps(json.loads(spec)).replace("\\\\", "\\")


def test_workers_as_they_are_given() -> None:
    assert workers_of(None) is None
    assert workers_of(["3"]) == 3
    assert workers_of(["[::1]:80=2", "a:1=4"]) == {"[::1]:80": 2, "a:1": 4}
    for bad in (["0"], ["many"], ["2", "a=3"], ["a=0"], ["a=b"]):
        with pytest.raises(BadParameter):
            workers_of(bad)


def test_conditions_are_converted_by_the_type_of_their_column() -> None:
    assert conditions_of(["status=504", "route=/a=b"]) == {"status": 504.0, "route": "/a=b"}
    with pytest.raises(BadParameter):
        conditions_of(["status=bad"])
