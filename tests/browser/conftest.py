"""A headless Chromium for pages that Sojourn writes; skipped where there is none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_support import Scheme, chromium, opened
from playwright.sync_api import Browser, Page, expect, sync_playwright

expect.set_options(timeout=60_000)  # ms


# Not for the whole session: while Playwright runs, no other test of this process could run an event loop of its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, started once for the tests of a file."""
    path = chromium()
    if path is None:
        pytest.skip("chromium is not installed: no page was opened in a browser")
    with contextlib.ExitStack() as stack:
        try:
            playwright = stack.enter_context(sync_playwright())
        except Exception as error:
            pytest.skip(f"Playwright's driver does not start here ({error}; it needs the library libatomic1)")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file: ``open_page(path, width=360, height=800, scheme="dark")``; other arguments as of a new context.

    The test fails if the page complains (a console error, an uncaught error) or asks for anything but the
    file itself.
    """
    with contextlib.ExitStack() as pages:

        def open_one(
            path: Path, *, width: int = 1280, height: int = 900, scheme: Scheme = "light", **more: Any
        ) -> Page:
            return pages.enter_context(opened(browser, path, width=width, height=height, scheme=scheme, **more))

        yield open_one
