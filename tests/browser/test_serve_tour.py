"""The steps of docs/how-to/ten-minutes-with-serve.md, in a browser; its pictures are made here.

``SOJOURN_PICTURES=docs/images`` writes the pictures there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import sojourn
from browser_support import eventually
from page_support import IDLE, comparison_of, drag, enter_window, open_lanes, opened_page, requests_of
from playwright.sync_api import Browser, Page
from served import served

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/how-to/ten-minutes-with-serve.md").read_text(encoding="utf-8")
PICTURES = os.environ.get("SOJOURN_PICTURES")
Picture = Callable[[Page, str, str], None]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    """Takes a picture of a part of the page, which the guide shows."""

    def take(page: Page, selector: str, name: str) -> None:
        assert f"../images/serve-{name}.png" in GUIDE
        folder = ROOT / PICTURES if PICTURES else tmp_path
        part = page.locator(selector)
        part.scroll_into_view_if_needed()
        page.mouse.move(0, 0)
        part.screenshot(path=folder / f"serve-{name}.png", animations="disabled")
        assert (folder / f"serve-{name}.png").stat().st_size > 5_000
        assert (ROOT / f"docs/images/serve-{name}.png").is_file()

    return take


def test_shop_tour_names_the_export(browser: Browser, picture: Picture) -> None:
    shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    with (
        served(shop, "--spans", spans, "--quiet", folder=ROOT) as page_of_log,
        opened_page(browser, page_of_log.address) as page,
    ):
        assert f"{requests_of(page):,} requests" in GUIDE
        picture(page, "#plots", "overview")
        drag(page, "heat", 0.38, 0.52, 0.0, 0.2)
        text = comparison_of(page)
        assert "route /export" in text
        picture(page, "#comparison-panel", "comparison")
        enter_window(page, "2026-01-01T00:01:05Z", "2026-01-01T00:01:12Z")
        open_lanes(page)
        page.focus("#lanes")
        for _ in range(30):
            page.keyboard.press("n")
        eventually(page, "!document.getElementById('request').hidden")
        picture(page, "#lanes", "lanes")
        page.click("#whole")
        eventually(page, f"!location.hash.includes('from=') && {IDLE}")
        page.click("#replay-panel > summary")
        eventually(page, "document.getElementById('replay').dataset.busy === 'false'")
        page.locator("#replay-route").select_option("/export")
        page.locator("#replay-factor").fill("0.5")
        eventually(page, "document.getElementById('replay-command').textContent.includes('service:/export=x0.5')")
        (variant,) = sojourn.whatif(ROOT / shop, {"service:/export": "x0.5"}, spans=[ROOT / spans]).variants
        predicted = f"{variant.response_time['p99'] * 1000:,.0f} ms"
        assert predicted in page.inner_text("#replay-sentence")
        assert predicted in GUIDE
        picture(page, "#replay-panel", "replay")


@pytest.mark.thorough
def test_streaming_tour_names_the_body(browser: Browser, picture: Picture) -> None:
    log = "docs/examples/streaming.jsonl.gz"
    with served(log, "--quiet", folder=ROOT) as page_of_log, opened_page(browser, page_of_log.address) as page:
        drag(page, "heat", 0.02, 0.98, 0.05, 0.45)
        text = comparison_of(page)
        assert "route /feed" in text
        assert "held the workers" in text
        enter_window(page, "2026-01-01T00:00:20Z", "2026-01-01T00:00:35Z")
        open_lanes(page)
        assert "body" in page.inner_text("#lanes-legend")
        picture(page, "#lanes", "streaming")
