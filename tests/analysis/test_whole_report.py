"""The whole report: a section for every analysis, and one that cannot be made takes nothing from the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sojourn
from analysis_support import line
from sojourn.cli import app
from sojourn.report.contents import COLUMNS, sections_of, traces_of
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
SHOP, SPANS = EXAMPLES / "shop.jsonl.gz", EXAMPLES / "shop-spans.jsonl.gz"
TOPICS = ["blame", "depth", "whatif", "goodput", "laws", "capacity", "clock"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    html = tmp_path_factory.mktemp("report") / "shop.html"
    arguments = ["report", str(SHOP), "--spans", str(SPANS), "--before", str(EXAMPLES / "ramp.jsonl.gz")]
    result = CliRunner().invoke(app, [*arguments, "--html", str(html)])
    assert result.exit_code == 0, result.output
    return html.read_text()


def test_every_analysis_has_its_section_finding_and_anchor(page: str) -> None:
    headings = re.findall(r'<section>\s*<h2 id="([a-z]+)">', page)
    assert headings == ["compare", *TOPICS]
    for topic in headings:
        assert f'href="#{topic}"' in page
    assert "/export caused 54" in page
    assert "/export × 0.5 would bring p99" in page


def test_every_chart_is_drawn_without_scripts_too(page: str) -> None:
    figures = re.findall(r"<figure>.*?</figure>", page, re.S)
    assert len(figures) >= 15
    assert all("<svg" in figure for figure in figures)
    keys = re.findall(r'id="chart-([^"]+)"', page)
    assert len(keys) == len(set(keys))


def test_it_asks_nothing_of_a_network_and_stays_small(page: str) -> None:
    assert len(page) < 5_000_000
    without_libraries = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r'(?:src|href)="https?:', without_libraries)


def test_what_cannot_be_told_says_why_in_its_place(tmp_path: Path) -> None:
    log = tmp_path / "one.jsonl"
    log.write_bytes(line(upstream_addr="10.0.0.1:80", upstream_response_time="0.1", upstream_header_time="0.1"))
    sections = sections_of(sojourn.split(log, columns=COLUMNS))
    assert [section.key for section in sections] == TOPICS
    assert next(s for s in sections if s.key == "laws").sentence.startswith("Nothing to tell: ")


def test_spans_of_one_service_are_no_tiers_and_those_of_several_are() -> None:
    assert traces_of([], [str(SPANS)]) is None
    traces = traces_of([], [str(EXAMPLES / "checkout-spans.jsonl.gz")])
    assert traces is not None
    sections = sections_of(sojourn.split(SHOP, columns=COLUMNS), traces=traces)
    assert "tiers" in [section.key for section in sections]


def test_an_empty_log_is_said_in_words(tmp_path: Path) -> None:
    log = tmp_path / "empty.jsonl"
    log.write_bytes(b"")
    result = CliRunner().invoke(app, ["report", str(log), "--html", str(tmp_path / "x.html")])
    assert result.exit_code == 1
    assert not (tmp_path / "x.html").exists()
