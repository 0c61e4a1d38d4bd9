"""A report of more requests than it places in time: those of the stretch with the most waiting, and it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import sojourn
from analysis_support import BASE, line, split_of_log
from hypothesis import given
from hypothesis import strategies as st
from sojourn.analyses import report_columns, reported
from sojourn.cli import app
from sojourn.present.section import Section
from sojourn.report.build import sections_of
from sojourn.report.stretch import Stretch, heaviest, stretch_of
from typer.testing import CliRunner

SHOP = Path(__file__).parents[3] / "docs/examples/shop.jsonl.gz"
SPANS = SHOP.with_name("shop-spans.jsonl.gz")
MOST = 1_000
PLACED = {question.name for question in reported() if question.places}


@pytest.fixture(scope="module")
def shop() -> sojourn.SplitResult:
    return sojourn.split(SHOP, spans=SPANS, columns=report_columns())


@pytest.fixture(scope="module")
def stretch(shop: sojourn.SplitResult) -> Stretch:
    stretch = stretch_of(shop, MOST)
    assert stretch is not None
    return stretch


def by_key(sections: list[Section]) -> dict[str, Section]:
    return {section.key: section for section in sections}


def begin_and_end(stretch: Stretch) -> tuple[float, float]:
    """Seconds after ``BASE``."""
    return stretch.begin.timestamp() - BASE, stretch.end.timestamp() - BASE


def test_stretch_has_the_incident_and_at_most_so_many_requests(shop: sojourn.SplitResult, stretch: Stretch) -> None:
    incident = shop.audit.incident
    assert incident is not None
    assert stretch.begin <= incident.begin < incident.end <= stretch.end
    arrived = pl.col("start")
    inside = shop.rows.filter((arrived >= stretch.begin) & (arrived < stretch.end)).select(pl.len()).collect().item()
    assert (stretch.requests, stretch.of) == (inside, shop.requests)
    assert 0.9 * MOST < inside <= MOST


def test_no_other_stretch_of_as_many_has_more_waiting(shop: sojourn.SplitResult, stretch: Stretch) -> None:
    rows = shop.rows.select("start", pl.col("queueing_delay").fill_null(0.0)).sort("start").collect()
    inside = rows.filter((pl.col("start") >= stretch.begin) & (pl.col("start") < stretch.end))["queueing_delay"].sum()
    # Stretches begin and end with windows, of which it has about twenty.
    any_other = rows["queueing_delay"].rolling_sum(stretch.requests * 9 // 10).max()
    assert inside >= any_other


def test_sections_that_place_requests_are_those_of_the_stretch_alone(
    shop: sojourn.SplitResult, stretch: Stretch
) -> None:
    read = sojourn.split(SHOP, spans=SPANS, columns=report_columns(), since=stretch.begin, until=stretch.end)
    of_read, of_all = by_key(sections_of(read)), by_key(sections_of(shop))
    of_part = by_key(sections_of(sojourn.split(shop, since=stretch.begin, until=stretch.end)))
    sections = by_key(sections_of(shop, most=MOST))
    assert sections.keys() == of_all.keys() == of_part.keys()
    assert sections.keys() >= PLACED == {"blame", "depth", "laws", "whatif", "capacity"}
    for key, section in sections.items():
        is_placed = key in PLACED
        expected = of_part[key] if is_placed else of_all[key]
        of = " (Requests from 00:00:50 to 00:01:37 UTC.)" if is_placed else ""
        assert (section.tables, section.notes) == (expected.tables, expected.notes)
        assert (section.sentence, section.short) == (
            f"{expected.sentence}{of}",
            expected.short and f"{expected.short}{of}",
        )
        assert section.measures == (f"{stretch.sentence} {expected.measures}" if is_placed else expected.measures)
        assert not is_placed or section.sentence == f"{of_read[key].sentence}{of}"


def test_report_of_fewer_requests_has_no_stretch(shop: sojourn.SplitResult) -> None:
    assert stretch_of(shop, shop.requests) is None
    assert stretch_of(shop, shop.requests - 1) is not None


def test_requests_that_a_condition_leaves_out_count_and_do_not_choose(shop: sojourn.SplitResult) -> None:
    """They hold workers, and so are placed in time; the stretch is where the others waited."""
    one = sojourn.split(SHOP, spans=SPANS, columns=report_columns(), where={"route": "/export"})
    stretch = stretch_of(one, MOST)
    assert stretch is not None
    assert stretch.of == shop.requests > 5 * one.requests
    part = stretch.part_of(one)
    assert part.whole.measures.overall()["requests"] == stretch.requests <= MOST
    assert 0 < part.measures.overall()["requests"] < stretch.requests
    waited = pl.col("queueing_delay").sum()
    inside, whole = (each.rows.select(waited).collect().item() for each in (part, one))
    assert inside > 0.5 * whole


def test_without_a_queue_it_is_the_stretch_with_the_most_service_time(tmp_path: Path) -> None:
    long = range(500, 560)
    lines = []
    for number in range(1_000):
        seconds = 0.2 if number in long else 0.01
        times = ("request_time", "service_time", "upstream_response_time", "upstream_header_time")
        started = f"{BASE + number + 0.3 - seconds:.3f}"
        lines.append(
            line(
                **dict.fromkeys(times, f"{seconds:.3f}"), time=f"{BASE + number}.300", queueing_delay="0.000",
                request_start=started, proxy_start=started, upstream_connect_time="0.000", upstream_addr="10.0.0.1:80",
            )
        )  # fmt: skip
    result = split_of_log(tmp_path, b"".join(lines))
    stretch = stretch_of(result, 100)
    assert stretch is not None
    assert begin_and_end(stretch)[0] <= 500.3
    assert begin_and_end(stretch)[1] >= 559
    assert 60 <= stretch.requests <= 100
    assert "has more service time" in stretch.sentence


def test_without_times_of_the_app_it_is_the_stretch_with_the_most_requests(tmp_path: Path) -> None:
    arrived = [*range(0, 1_000, 10), *range(500, 560), *range(500, 560)]
    lines = [line(time=f"{BASE + number}.000", request_time="0.000") for number in sorted(arrived)]
    stretch = stretch_of(split_of_log(tmp_path, b"".join(lines)), 150)
    assert stretch is not None
    assert begin_and_end(stretch)[0] <= 500
    assert begin_and_end(stretch)[1] >= 559
    assert "has more requests" in stretch.sentence


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(1, 40),
)
def test_heaviest_windows_are_those_of_all_that_are_small_enough(windows: list[tuple[int, int]], most: int) -> None:
    count, weight = (np.array(each, np.float64) for each in zip(*windows, strict=True))
    low, high = heaviest(count, weight, most)
    assert 0 <= low < high <= len(count)
    assert count[low:high].sum() <= most or high == low + 1
    weights = [
        weight[begin:end].sum()
        for begin in range(len(count))
        for end in range(begin + 1, len(count) + 1)
        if count[begin:end].sum() <= most or end == begin + 1
    ]
    assert weight[low:high].sum() == max(weights)


def test_command_says_which_requests_are_placed(stretch: Stretch, tmp_path: Path) -> None:
    page = tmp_path / "shop.html"
    arguments = ["report", str(SHOP), "--spans", str(SPANS), "--html", str(page)]
    done = CliRunner().invoke(app, [*arguments, "--most", str(MOST)])
    assert done.exit_code == 0, done.output
    assert "(Requests from 00:00:50 to 00:01:37 UTC.)" in " ".join(done.output.split())
    assert page.read_text().count(stretch.sentence) == len(PLACED)
    assert CliRunner().invoke(app, [*arguments, "--most", "0"]).exit_code == 2
