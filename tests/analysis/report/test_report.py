"""The report: one file, complete, and deaf to what a log shouts."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
import sojourn
from analysis_support import line
from simulator import BAD_LINES, Settings, as_lines, simulated_log
from sojourn.analyses.split import charts as plots
from sojourn.analyses.split import charts_curves
from sojourn.model.formatting import headline, printable, unbroken
from sojourn.report.html import report_page

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> sojourn.SplitResult:
    records, _ = simulated_log(Settings(requests=3000))
    lines = as_lines(records) + [raw for raw, _ in BAD_LINES]
    lines += [line(route=HOSTILE, uri=HOSTILE, upstream_addr=HOSTILE, worker=HOSTILE) for _ in range(3)]
    lines.append(HOSTILE.encode() + b"\n")
    log = tmp_path_factory.mktemp("report") / "access.jsonl"
    log.write_bytes(b"".join(lines))
    return sojourn.split(log)


@pytest.fixture(scope="module")
def page(result: sojourn.SplitResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    report_page(result, title=f"run {HOSTILE}").write(path)
    return path


class Elements(HTMLParser):
    """Collects every start tag with its attributes, and the text of the JSON scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.specs: list[str] = []
        self._in_spec = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_spec = tag == "script" and dict(attrs).get("type") == "application/json"
        if self._in_spec:
            self.specs.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_spec = False

    def handle_data(self, data: str) -> None:
        if self._in_spec:
            self.specs[-1] += data


def test_page_is_one_file_without_network_access(page: Path) -> None:
    text = page.read_text()
    elements = Elements()
    elements.feed(text)
    for tag, attributes in elements.tags:
        assert "src" not in attributes, tag
        assert not (tag == "link" and attributes.get("href"))
    assert not re.search(r"@import|url\(\s*['\"]?http", text[: text.index("<script>")])
    assert "default-src 'none'" in text
    assert page.stat().st_size < 5_000_000


def test_hostile_content_remains_text(page: Path) -> None:
    elements = Elements()
    elements.feed(page.read_text())
    assert not [tag for tag, _ in elements.tags if tag == "img"]
    assert not [a for _, a in elements.tags if any(name.startswith("on") for name in a)]
    assert sum(tag == "script" for tag, _ in elements.tags) == 2 + len(elements.specs)
    labels = [a["aria-label"] for _, a in elements.tags if a.get("role") == "img"]
    assert len(labels) == len(elements.specs)


def test_page_has_verdict_tables_audit_and_refused_lines(page: Path, result: sojourn.SplitResult) -> None:
    text = page.read_text()
    first, rest = headline(result.verdict.sentence)
    assert f">{unbroken(first)}</p>" in text
    assert f">{unbroken(rest)}</p>" in text
    headings = re.findall(r"<h([1-6])[^>]*>([^<]*)</h\1>", text)
    assert {"The split", "By route", "By upstream", "Audit", "Refused lines"} <= {name for _, name in headings}
    for reason in result.records.reasons:
        assert f"<code>{reason}</code>" in text
    assert text.count("<svg") >= 3


def test_specs_are_json_with_few_points(page: Path) -> None:
    elements = Elements()
    elements.feed(page.read_text())
    assert len(elements.specs) >= 4
    for spec in elements.specs:
        assert len(json.dumps(json.loads(spec))) < 200_000


def test_headings_go_down_one_level_at_a_time_and_every_table_has_its_scopes(page: Path) -> None:
    text = page.read_text()
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", text)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    elements = Elements()
    elements.feed(text)
    assert all("scope" in attributes for tag, attributes in elements.tags if tag == "th")
    keys = [attributes["id"] for _, attributes in elements.tags if "id" in attributes]
    assert len(keys) == len(set(keys))
    leads = {(a.get("href") or "")[1:] for tag, a in elements.tags if tag == "a"}
    assert leads <= set(keys)


def test_distribution_counts_every_request_once(result: sojourn.SplitResult) -> None:
    table = plots.distribution_table(result.served)
    per_bin = table.group_by("low").agg(pl.col("requests").first(), pl.col("share").sum(), pl.col("top").max())
    assert per_bin["requests"].sum() == result.requests
    assert per_bin["share"].to_list() == pytest.approx([1.0] * len(per_bin))
    assert per_bin["top"].to_list() == pytest.approx(per_bin["requests"].to_list())


def test_ccdf_is_exact(result: sojourn.SplitResult) -> None:
    values = result.served.select("request_time").collect().to_series()
    table = charts_curves.ccdf_table(result.served, "request_time", "response time")
    assert table["exceeding"].is_sorted(descending=True)
    for seconds, exceeding in table.select("seconds", "exceeding").iter_rows():
        # Ties: the point is one of the steps that share this value.
        assert (values > seconds).mean() <= exceeding + 1e-12
        assert exceeding <= (values >= seconds).mean() + 1e-12


def test_the_split_by_a_group_is_its_means(result: sojourn.SplitResult) -> None:
    table = plots.split_by_table(result.served, "upstream")
    whole = dict(table.group_by("group").agg(pl.col("seconds").sum()).iter_rows())
    for row in result.by["upstream"]:
        assert row["upstream"] is not None
        name = printable(row["upstream"])
        assert whole[name] == pytest.approx(row["response_time"]["mean"], rel=0.01)  # type: ignore[index]
    parts = {part for (part,) in table.select("part").unique().iter_rows()}
    assert parts == {"queueing delay", "service time", "everything else"}


def test_over_time_keeps_every_request(result: sojourn.SplitResult) -> None:
    table = plots.over_time_table(result.served.filter(pl.col("start").dt.year() == 2026))
    assert table["requests"].sum() == result.requests
    assert len(table) <= plots.WINDOWS + 1


def test_a_report_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"bad\n")
    report_page(sojourn.split(tmp_path / "a.jsonl")).write(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "nothing to judge" in text
    assert "invalid_json" in text


def test_reports_a_page_that_cannot_be_written(result: sojourn.SplitResult, tmp_path: Path) -> None:
    with pytest.raises(sojourn.SojournError, match="directory"):
        report_page(result).write(tmp_path)
