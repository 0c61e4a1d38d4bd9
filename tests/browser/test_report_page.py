"""The whole report in a real browser: drawn, at rest with every reader, on every screen, and on paper.

One page holds every section there is. It is opened wide and light, and narrow and dark, and each of the two is looked
at by several tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sojourn
from axe_playwright_python.sync_playwright import Axe
from browser_support import eventually, opened
from playwright.sync_api import Browser, Page
from sojourn.analyses import report_columns
from sojourn.analyses.pcap.section import wire_section
from sojourn.analyses.tiers.analysis import tiers
from sojourn.analyses.tiers.section import tiers_section
from sojourn.report.build import NO_SOURCES, sections_of, traces_of
from sojourn.report.html import report_page

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
DRAWN = 60_000  # ms
WIDTHS = (360, 768, 1920)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = sojourn.split(EXAMPLES / "shop.jsonl.gz", spans=[EXAMPLES / "shop-spans.jsonl.gz"], columns=report_columns())
    ramp = sojourn.split(EXAMPLES / "ramp.jsonl.gz", columns=report_columns())
    traces = traces_of(NO_SOURCES, [str(EXAMPLES / "checkout-spans.jsonl.gz")])
    assert traces is not None
    sections = [
        *sections_of(shop, before=ramp),
        tiers_section(tiers(traces)),
        wire_section(sojourn.pcap(EXAMPLES / "wire.pcap.gz")),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    report_page(shop, sections=sections).write(path)
    return path


def _drawn(page: Page) -> Page:
    page.wait_for_selector("html[data-ready]", timeout=DRAWN, state="attached")
    return page


@pytest.fixture(scope="module")
def wide(browser: Browser, report: Path) -> Iterator[Page]:
    with opened(browser, report, width=1280) as page:
        yield _drawn(page)


@pytest.fixture(scope="module")
def narrow(browser: Browser, report: Path) -> Iterator[Page]:
    with opened(browser, report, width=360, height=740, scheme="dark") as page:
        yield _drawn(page)


def test_every_chart_is_drawn(wide: Page, narrow: Page) -> None:
    for page in (wide, narrow):
        charts = page.locator(".chart").count()
        assert charts >= 20
        assert page.locator('.chart[data-drawn="true"] .live svg').count() == charts
        assert page.locator(".chart .still:visible").count() == 0


def test_charts_are_the_same_with_and_without_scripts(wide: Page) -> None:
    marks = "querySelectorAll('.role-mark path, .role-mark text, .role-mark line, .role-mark image').length"
    other = wide.evaluate(
        "Array.from(document.querySelectorAll('.chart'), (e) => [e.id, ...['.still', '.live'].map((of) => "
        f"e.querySelector(of).{marks})]).filter(([id, still, live]) => still !== live || !live)"
    )
    assert other == []


def test_details_are_closed_and_small(report: Path) -> None:
    text = report.read_text()
    assert len(text.encode()) < 5_000_000
    assert "default-src 'none'" in text


def test_the_keyboard_reaches_everything(wide: Page) -> None:
    wide.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    stops = []
    for _ in range(3):
        wide.keyboard.press("Tab")
        stops.append(wide.evaluate("document.activeElement.className || document.activeElement.id"))
    assert stops[:2] == ["skip", "theme"]
    assert wide.evaluate("document.activeElement.closest('nav').ariaLabel") == "Contents"
    wide.locator(".skip").focus()
    assert (wide.locator(".skip").bounding_box() or {"x": -1})["x"] >= 0
    wide.keyboard.press("Enter")
    assert wide.evaluate("document.activeElement.id") == "main"
    figures = wide.locator("figure").first.locator("details")
    figures.locator("summary").focus()
    wide.keyboard.press("Enter")
    assert figures.locator("table").first.is_visible()
    wide.keyboard.press("Enter")
    assert not figures.locator("table").first.is_visible()


def test_only_scrollable_parts_are_focusable_and_named(narrow: Page) -> None:
    narrow.set_viewport_size({"width": 360, "height": 740})
    regions = "Array.from(document.querySelectorAll('.scroll')).filter((e) => e.checkVisibility())"
    scrolls = "(e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)"
    stop = "(e.tabIndex === 0 && e.role === 'region' && Boolean(e.ariaLabel))"
    eventually(narrow, f"{regions}.every((e) => {scrolls} === {stop})")
    assert 0 < narrow.evaluate(f"{regions}.filter((e) => {scrolls}).length") < narrow.evaluate(f"{regions}.length")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_screen(narrow: Page, width: int) -> None:
    narrow.set_viewport_size({"width": width, "height": 740})
    eventually(narrow, f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}")
    lines = narrow.evaluate("Math.max(...Array.from(document.querySelectorAll('main p.dim'), (p) => p.clientWidth))")
    assert lines <= 800


def test_charts_fit_a_small_screen(narrow: Page) -> None:
    narrow.set_viewport_size({"width": 360, "height": 740})
    eventually(
        narrow,
        "Array.from(document.querySelectorAll('.chart:not(.diagram)')).every((e) => "
        "e.querySelector('.live svg').getBoundingClientRect().width <= e.clientWidth + 1)",
    )


def test_the_theme_follows_the_system_until_another_is_chosen(wide: Page, narrow: Page) -> None:
    assert _lightness(wide) > 0.9
    assert _lightness(narrow) < 0.1
    button = wide.locator("#theme")
    seen = []
    for _ in range(3):
        button.click()
        seen.append((button.inner_text(), _lightness(wide) > 0.5, _contrast(wide) >= 4.5))
    assert seen == [("Theme: light", True, True), ("Theme: dark", False, True), ("Theme: auto", True, True)]


def _lightness(page: Page) -> float:
    return _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def _contrast(page: Page) -> float:
    """Of the words in a chart to the paper, by WCAG 2.2."""
    words = _luminance(page.evaluate("getComputedStyle(document.querySelector('.live .role-axis-label text')).fill"))
    high, low = sorted((words, _lightness(page)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_counts_contrast_with_the_background_in_either_theme(wide: Page, narrow: Page) -> None:
    """Fuller cells are darker on light, and inverted on dark, with their legend."""
    for selector in (".live .counts_marks", "figure:has(.counts_marks) .live .role-legend-gradient"):
        filters = [page.eval_on_selector(selector, "each => getComputedStyle(each).filter") for page in (wide, narrow)]
        assert filters == ["none", "invert(0.88) hue-rotate(180deg)"]


def test_on_paper_it_is_light_without_buttons_and_with_every_chart(narrow: Page, tmp_path: Path) -> None:
    narrow.emulate_media(media="print")
    try:
        assert _lightness(narrow) == 1
        assert narrow.locator(".chart .still svg:visible").count() == narrow.locator(".chart").count()
        for hidden in ("#theme", ".live", ".side", ".data"):
            assert narrow.locator(f"{hidden}:visible").count() == 0
        narrow.pdf(path=tmp_path / "report.pdf", format="A4")
    finally:
        narrow.emulate_media(media="screen")
    paper = (tmp_path / "report.pdf").read_bytes()
    assert paper.startswith(b"%PDF")
    assert 5 <= len(re.findall(rb"/Type /Page\b", paper)) <= 60


def test_without_scripts_the_charts_are_there(report: Path, open_page: Callable[..., Page]) -> None:
    page = open_page(report, width=360, java_script_enabled=False, reduced_motion="reduce")
    charts = page.locator(".chart")
    assert page.locator(".chart .still svg:visible").count() == charts.count()
    assert page.locator("#theme:visible").count() == 0


# The last of all: it takes the drawings out of the pages.
@pytest.mark.parametrize(("name", "rules"), [("wide", None), ("narrow", ["color-contrast"])])
def test_axe_finds_no_barrier(name: str, rules: list[str] | None, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue(name)
    options = {"resultTypes": ["violations"]} | ({"runOnly": {"type": "rule", "values": rules}} if rules else {})
    # Charts are pictures with a description; what they are drawn of is hidden from those who cannot see it. Without it
    # axe has a tenth of the work.
    assert page.locator('.chart[role="img"][aria-label] > :not([aria-hidden="true"])').count() == 0
    page.evaluate("for (const each of document.querySelectorAll('.chart > div')) each.replaceChildren()")
    result = Axe().run(page, options=options).response["violations"]
    grave = [each for each in result if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in grave] == []
