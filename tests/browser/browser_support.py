"""A page in a real browser, watched: what it complains of, and what it asks of a network."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Request

Scheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome")


WAITED = 60.0  # s


def eventually(page: Page, expression: str, seconds: float = WAITED) -> None:
    """Wait until an expression is true in the page, whether or not the page lets strings be evaluated in it."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"still not true after {seconds:g} s: {expression}"
        time.sleep(0.02)


def chromium() -> str | None:
    """Where the system's Chromium is; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@contextlib.contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, height: int = 900, scheme: Scheme = "light", **more: Any
) -> Iterator[Page]:
    """Open a file in a new page; fail at the end if the page reported an error or sent a request.

    Args:
        browser: opens the page.
        path: the file.
        width, height: of the view, pixels.
        scheme: light or dark, what the reader's system prefers.
        more: for ``Browser.new_context``: java_script_enabled=False, reduced_motion="reduce", …
    """
    complaints: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"console {message.type}: {message.text}")

    def request(request: Request) -> None:
        # A document within the page is no request: it leaves nothing.
        if request.url.split("#")[0] != path.as_uri() and not request.url.startswith(("data:", "blob:")):
            complaints.append(f"a request left: {request.url[:200]}")

    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more)
    try:
        page = context.new_page()
        page.on("console", console)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", request)
        page.goto(path.as_uri())
        yield page
    finally:
        context.close()
    if complaints:
        raise AssertionError(f"{path.name} complained:\n" + "\n".join(complaints))
