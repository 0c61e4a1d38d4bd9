"""The whole report: a section for every analysis, and one that cannot be made takes nothing from the others."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import line
from sojourn.analyses import report_columns
from sojourn.analyses.depth.section import depth_section
from sojourn.analyses.goodput.section import goodput_section
from sojourn.analyses.split.pictures import split_pictures
from sojourn.cli import app
from sojourn.present.drawing import specification
from sojourn.report.build import NO_SOURCES, sections_of, traces_of
from sojourn.report.html import report_page
from typer.testing import CliRunner

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
SHOP, SPANS = EXAMPLES / "shop.jsonl.gz", EXAMPLES / "shop-spans.jsonl.gz"
TOPICS = ["blame", "depth", "goodput", "capacity", "laws", "whatif", "clock"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    html = tmp_path_factory.mktemp("report") / "shop.html"
    arguments = ["report", str(SHOP), "--spans", str(SPANS), "--before", str(EXAMPLES / "ramp.jsonl.gz")]
    result = CliRunner().invoke(app, [*arguments, "--html", str(html)])
    assert result.exit_code == 0, result.output
    return html.read_text()


def test_every_analysis_has_its_section_finding_and_anchor(page: str) -> None:
    headings = re.findall(r'<section aria-labelledby="[a-z]+">\s*<h2 id="([a-z]+)">', page)
    assert headings == ["split", *TOPICS[:-1], "compare", "clock", "audit", "refused"]
    for topic in headings:
        assert f'href="#{topic}"' in page
    assert "/export caused 54" in page
    assert "/export × 0.5 would bring p99" in page


def test_every_chart_is_drawn_without_scripts_too(page: str) -> None:
    figures = re.findall(r"<figure>.*?</figure>", page, re.S)
    assert len(figures) >= 15
    assert all("<svg" in figure for figure in figures)
    references = set(re.findall(r"url\(#([^)]+)\)", "".join(figures)))
    assert references <= set(re.findall(r'id="([^"]+)"', "".join(figures)))
    keys = re.findall(r' id="([^"]+)"', page)
    assert len(keys) == len(set(keys))


def test_every_chart_is_a_valid_specification() -> None:
    shop = sojourn.split(SHOP, spans=SPANS, columns=report_columns())
    ramp = sojourn.split(EXAMPLES / "ramp.jsonl.gz", columns=report_columns())
    sections = sections_of(shop, before=ramp, spans=[str(EXAMPLES / "checkout-spans.jsonl.gz")])
    pictures = [*split_pictures(shop), *(each for section in sections for each in section.pictures)]
    assert len(pictures) >= 20
    for picture in pictures:
        specification(picture.chart())  # compares it with the schema, which a page leaves out


def test_makes_no_network_request_and_is_small(page: str) -> None:
    assert len(page.encode()) < 3_000_000
    without_libraries = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r'(?:src|href)="https?:', without_libraries)


def test_a_section_without_a_result_states_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "one.jsonl"
    log.write_bytes(line(upstream_addr="10.0.0.1:80", upstream_response_time="0.1", upstream_header_time="0.1"))
    sections = sections_of(sojourn.split(log, columns=report_columns()))
    assert [section.key for section in sections] == TOPICS
    assert next(s for s in sections if s.key == "laws").sentence.startswith("Not available: ")


def test_tiers_need_spans_of_several_services() -> None:
    assert traces_of(NO_SOURCES, [str(SPANS)]) is None
    several = [str(EXAMPLES / "checkout-spans.jsonl.gz")]
    assert traces_of(NO_SOURCES, several) is not None
    sections = sections_of(sojourn.split(SHOP, columns=report_columns()), spans=several)
    assert "tiers" in [section.key for section in sections]


def test_rejects_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "empty.jsonl"
    log.write_bytes(b"")
    result = CliRunner().invoke(app, ["report", str(log), "--html", str(tmp_path / "x.html")])
    assert result.exit_code == 1
    assert not (tmp_path / "x.html").exists()


def test_summary_has_cause_cost_and_remedy(page: str) -> None:
    lines = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", page, re.S)
    assert [label for label, _ in lines] == ["Cause", "Change", "Cost", "Remedy"]
    happened, changed, cost, help_ = (text.replace("\u00a0", " ") for _, text in lines)
    assert "Of every 10 seconds of response time, 7.6 were spent in a queue" in happened
    assert "/export caused 54 %" in happened
    assert "in doubt" in changed
    assert "108 abandoned requests" in cost
    assert "/export served in 50 % of its time" in help_


def test_summary_is_between_verdict_and_contents(page: str) -> None:
    places = [
        page.index(mark) for mark in ('class="verdict', 'id="short"', 'id="findings"', 'id="split"', 'id="audit"')
    ]
    assert places == sorted(places)


def test_size_of_charts_is_bounded(tmp_path: Path) -> None:
    sojourn.split(SHOP, columns=report_columns()).write_parquet(tmp_path / "shop.parquet")
    shop = pl.read_parquet(tmp_path / "shop.parquet")
    instants = [name for name, kind in shop.schema.items() if isinstance(kind, pl.Datetime)]
    later = [shop.with_columns(pl.col(instants) + timedelta(seconds=170 * k)) for k in range(20)]
    # What was delivered twice counts once: each copy needs ids of its own.
    copies = [copy.with_columns(pl.col("request_id") + f"-{k}") for k, copy in enumerate(later)]
    pl.concat(copies).write_parquet(tmp_path / "many.parquet")
    result = sojourn.split(tmp_path / "many.parquet", columns=report_columns())
    assert result.requests == 20 * len(shop)
    sections = [depth_section(sojourn.depth(result)), goodput_section(sojourn.goodput(result))]
    specs = re.findall(r'id="spec-[^"]+">(.*?)</script>', report_page(result, sections=sections).text(), re.S)
    assert len(specs) >= 8
    assert max(len(spec) for spec in specs) < 200_000


def test_upgraded_connections_have_no_distribution(tmp_path: Path) -> None:
    log, page = tmp_path / "sockets.jsonl", tmp_path / "sockets.html"
    log.write_bytes(line(status="101", request_time="60.000") * 3)
    runner = CliRunner().invoke(app, ["report", str(log), "--html", str(page)])
    assert runner.exit_code == 0, runner.output
    assert "all 3 requests were upgraded connections" in runner.stdout
    assert "<figure>" not in page.read_text()
    drawn = CliRunner().invoke(app, ["plot", str(log), "tail", "--out", str(tmp_path / "f.svg")])
    assert "no requests to draw other than upgraded connections (101)" in str(drawn.exception)


def test_without_a_name_the_report_is_in_the_folder_and_replaces_only_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "access.jsonl"
    log.write_bytes(b"".join(line(time=f"{1767225600 + n}.000", request_time="0.100") for n in range(20)))
    own = Path("report.html")

    def run(*options: str) -> tuple[int, str]:
        done = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["report", "access.jsonl", *options])
        return done.exit_code, " ".join(done.output.split())

    code, printed = run()
    assert code == 0, printed
    assert printed.endswith("Full report: report.html")
    first = own.read_text()
    assert "<h1" in first
    log.write_bytes(b"".join(line(time=f"{1767225600 + n}.000", request_time="0.100") for n in range(30)))
    code, printed = run()
    assert code == 0, printed
    assert own.read_text() != first
    own.write_text("<html>my own page</html>")
    code, printed = run()
    assert code == 2
    assert "--html" in printed
    assert "--force" in printed
    assert own.read_text() == "<html>my own page</html>"
    assert run("--html", "other.html")[0] == 0
    assert own.read_text() == "<html>my own page</html>"
    assert run("--force")[0] == 0
    assert "<h1" in own.read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["access.jsonl", "other.html", "report.html"]
