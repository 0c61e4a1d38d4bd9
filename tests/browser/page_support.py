"""A page of ``sojourn serve`` in a browser, watched: it reports no error and requests nothing of another host."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from browser_support import eventually
from playwright.sync_api import Browser, ConsoleMessage, Page

IDLE = "document.documentElement.dataset.busy === 'false' && document.documentElement.dataset.ready === 'true'"


def _is_foreign(address: str, host: str) -> bool:
    return host not in address and not address.startswith("blob:")


@contextlib.contextmanager
def opened_page(browser: Browser, address: str, fragment: str = "", **context: Any) -> Iterator[Page]:
    """Open a page; fail at the end if it reported an error or requested anything of another host."""
    complaints: list[str] = []
    host = urlsplit(address).netloc

    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(f"console {message.type}: {message.text} {message.location}")

    opened = browser.new_context(viewport={"width": 1200, "height": 900}, **context)
    try:
        page = opened.new_page()
        page.on("console", console)
        page.on("pageerror", lambda error: complaints.append(f"error: {error.stack}"))
        page.on("request", lambda sent: complaints.append(sent.url) if _is_foreign(sent.url, host) else None)
        page.goto(f"{address}{fragment}")
        eventually(page, IDLE)
        yield page
    finally:
        opened.close()
    assert complaints == []


def state_of(page: Page) -> dict[str, list[str]]:
    """Return the parameters in the fragment of the address."""
    return parse_qs(urlsplit(page.url).fragment)


def requests_of(page: Page) -> int:
    """Return the number of requests that the page says it shows."""
    match = re.match(r"([\d,]+) request", page.inner_text("#figures"))
    assert match is not None
    return int(match[1].replace(",", ""))


def drag(page: Page, chart: str, left: float, right: float, top: float = 0.1, bottom: float = 0.9) -> None:
    """Drag over parts of the area of a chart, and wait until the page is drawn again."""
    cover = page.locator(f"#{chart} .cover")
    cover.scroll_into_view_if_needed()
    box = cover.bounding_box()
    assert box is not None
    before = page.url
    page.mouse.move(box["x"] + left * box["width"], box["y"] + top * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + right * box["width"], box["y"] + bottom * box["height"], steps=4)
    page.mouse.up()
    eventually(page, f"location.href !== {before!r}")
    eventually(page, IDLE)


def comparison_of(page: Page) -> str:
    """Return the text of the comparison when it is there."""
    eventually(page, "document.getElementById('comparison-panel').dataset.busy === 'false'")
    return page.inner_text("#comparison")


def enter_window(page: Page, begin: str, end: str) -> None:
    """Show the requests between two instants, without a selection."""
    for name, text in (("from", begin), ("to", end), ("low", ""), ("high", "")):
        page.fill(f"#area-{name}", text)
    page.click("#area button[type=submit]")
    eventually(page, f"location.hash.includes('from=') && {IDLE}")


def open_lanes(page: Page) -> None:
    """Open the lanes of the window."""
    page.click("#lanes-panel > summary")
    eventually(page, "document.getElementById('lanes').dataset.busy === 'false'")
