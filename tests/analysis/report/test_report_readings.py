"""The finding of every chart has figures from its data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sojourn
from sojourn.analyses import report_columns
from sojourn.analyses.clock import section as clock_section
from sojourn.analyses.clock.analysis import clock
from sojourn.analyses.compare import section as compare_section
from sojourn.analyses.compare.analysis import compare
from sojourn.analyses.goodput import section as goodput_section
from sojourn.analyses.goodput.analysis import goodput
from sojourn.analyses.kernel.analysis import kernel
from sojourn.analyses.kernel.section import kernel_section
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.simulate import section as simulate_section
from sojourn.analyses.simulate.analysis import simulate
from sojourn.analyses.split.pictures import split_pictures
from sojourn.analyses.tiers.analysis import tiers
from sojourn.analyses.tiers.section import tiers_section
from sojourn.analyses.whatif import section as whatif_section
from sojourn.analyses.whatif.analysis import whatif
from sojourn.host.samples import read_samples
from sojourn.present.section import Section
from sojourn.report.build import NO_SOURCES, sections_of, traces_of
from syrupy.assertion import SnapshotAssertion

EXAMPLES = Path(__file__).parents[3] / "docs/examples"


@pytest.fixture(scope="module")
def shop() -> sojourn.SplitResult:
    return sojourn.split(EXAMPLES / "shop.jsonl.gz", spans=[EXAMPLES / "shop-spans.jsonl.gz"], columns=report_columns())


@pytest.fixture(scope="module")
def ramp() -> sojourn.SplitResult:
    return sojourn.split(EXAMPLES / "ramp.jsonl.gz", columns=report_columns())


@pytest.fixture(scope="module")
def sections(shop: sojourn.SplitResult, ramp: sojourn.SplitResult) -> list[Section]:
    traces = traces_of(NO_SOURCES, [str(EXAMPLES / "checkout-spans.jsonl.gz")])
    assert traces is not None
    return [
        *sections_of(shop, before=ramp),
        tiers_section(tiers(traces)),
        wire_section(sojourn.pcap(EXAMPLES / "wire.pcap.gz")),
        kernel_section(kernel(read_samples([str(EXAMPLES / "kernel.jsonl.gz")]))),
        simulate_section.simulate_section(simulate("poisson:8", "exponential:0.1", requests=5_000)),
    ]


def texts_of(section: Section) -> list[str]:
    """Return the fixed and the computed texts of a section; its figures are tested elsewhere."""
    tables = [" | ".join(filter(None, (table.title, *table.headings))) for table in section.tables]
    pictures = [text for picture in section.pictures for text in (picture.title, picture.caption, picture.reading)]
    return [section.title, section.sentence, section.measures, *section.failures, *tables, *pictures, *section.notes]


def test_texts_of_every_section(sections: list[Section], snapshot: SnapshotAssertion) -> None:
    assert {section.key: texts_of(section) for section in sections} == snapshot


def readings(sections: list[Section]) -> Iterator[tuple[str, str]]:
    for section in sections:
        for picture in section.pictures:
            yield picture.key, picture.reading


def test_every_chart_has_a_finding_with_figures(sections: list[Section], shop: sojourn.SplitResult) -> None:
    matches = [*readings(sections), *((picture.key, picture.reading) for picture in split_pictures(shop))]
    assert len(matches) >= 25
    for key, reading in matches:
        assert re.search(r"\d", reading), key
        assert reading.endswith("."), key
        assert "None" not in reading, key
        assert "nan" not in reading, key


def test_goodput_over_time(shop: sojourn.SplitResult, snapshot: SnapshotAssertion) -> None:
    result = goodput(shop.rows)
    reading = goodput_section.reading(result)
    assert f"{result.requests / result.seconds:.3g} requests ended per second" in reading
    assert f"{result.good / result.seconds:.3g} of them with an answer" in reading
    unknown = replace(result, known=0, unknown=result.given_up)
    variants = (result, replace(result, wasted=0.0), unknown)
    assert [goodput_section.reading(variant) for variant in variants] == snapshot


def test_whatif_names_the_best_change_or_none(shop: sojourn.SplitResult) -> None:
    result = whatif(shop.rows)
    best = min(result.variants, key=lambda variant: variant.response_time["p99"] or 0)
    assert whatif_section.name_of(best) in whatif_section.variants_reading(result)
    worse = replace(result, variants=[replace(best, change={**best.change, "p99": 0.1})])
    assert whatif_section.variants_reading(worse).endswith("none of the changes (1) reduces it.")
    assert whatif_section.whatif_section(replace(result, forced=True, refused="far off")).short == ""


def test_comparison_of_both_sides_with_significance(shop: sojourn.SplitResult, snapshot: SnapshotAssertion) -> None:
    result = compare(sojourn.split(EXAMPLES / "clocks.jsonl.gz"), shop, by="route")
    assert "of it queueing, in B" in compare_section.composition_reading(result)
    chance = {name: replace(change, low=-9.0, high=9.0) for name, change in result.tail.items()}
    assert compare_section.changes_reading(replace(result, tail=chance)) == snapshot(name="not significant")
    figures = {name: replace(change, low=-9.0, high=9.0) for name, change in result.figures.items()}
    assert compare_section.short_of(replace(result, figures=figures)) == snapshot(name="no change")


def test_clock_names_the_largest_offset(shop: sojourn.SplitResult) -> None:
    assert clock_section.reading(clock(shop.rows)).startswith("10.0.0.1:8080 is the farthest of 2 clocks")
    stepped = clock(sojourn.split(EXAMPLES / "clocks.jsonl.gz").rows)
    assert "clocks were set once" in clock_section.reading(stepped)
