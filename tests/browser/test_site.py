"""The static site: every page without a warning, nothing from a network, the search, both themes, narrow and wide."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from browser_support import eventually
from playwright.sync_api import Browser, Page, expect

# Sphinx takes half a minute for the pages, whose links and examples tests/docs checks without it.
pytestmark = pytest.mark.thorough

REPOSITORY = Path(__file__).parents[2]
FRONT = "docs/README.html"
LOADED = re.compile(
    r"""<(?:script|img|source|iframe)\b[^>]*?\bsrc="([^"]+)"|<link\b(?![^>]*rel="(?:next|prev|index|search)")[^>]*?\bhref="([^"]+)\""""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` makes it, any warning an error."""
    if importlib.util.find_spec("furo") is None:
        pytest.skip("furo is not installed: the site was not made")
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", "docs",
         "-d", str(out / ".doctrees"), ".", str(out)],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


@contextlib.contextmanager
def opened(browser: Browser, site: Path, page: str, *, scheme: str = "light") -> Iterator[Page]:
    """Open a page of the site; fail at the end if it reported an error or requested anything but the site's files."""
    complaints: list[str] = []
    context = browser.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    try:
        tab = context.new_page()
        tab.on(
            "console", lambda output: complaints.append(output.text) if output.type in ("error", "warning") else None
        )
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda requested: None if _inside(requested.url, site) else complaints.append(requested.url))
        tab.goto((site / page).as_uri())
        yield tab
    finally:
        context.close()
    assert complaints == []


def _inside(url: str, site: Path) -> bool:
    return url.startswith((site.as_uri(), "data:", "blob:"))


def test_site_contains_every_page(site: Path) -> None:
    for page in (REPOSITORY / "docs").rglob("*.md"):
        assert (site / page.relative_to(REPOSITORY)).with_suffix(".html").exists(), page
    for part in ("README", "nginx/README", "collector/vector/README", "lab/README", "CHANGELOG"):
        assert (site / f"{part}.html").exists()
    assert not list(site.rglob("*.md")), "what is on the site is pages, not their sources"
    assert f"url={FRONT}" in (site / "index.html").read_text()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for result in LOADED.findall(page.read_text(encoding="utf-8")):
            address = unquote(result[0] or result[1]).partition("?")[0]
            assert not re.match(r"[a-z]+:|//", address) or address.startswith("data:"), f"{page}: {address}"
            assert address.startswith("data:") or (page.parent / address).resolve().exists(), f"{page}: {address}"
    for style in (site / "_static").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_the_page_on_python_has_the_docstrings(site: Path) -> None:
    text = (site / "docs/reference/python.html").read_text(encoding="utf-8")
    assert 'id="sojourn.split"' in text


def test_the_navigation_has_the_four_kinds(site: Path, browser: Browser) -> None:
    with opened(browser, site, FRONT) as page:
        captions = page.locator(".sidebar-tree .caption-text").all_inner_texts()
        assert [caption.casefold() for caption in captions][:4] == ["tutorial", "how-to", "reference", "explanation"]
        page.locator(".sidebar-tree a", has_text="From nothing to a verdict").click()
        expect(page.locator("h1")).to_have_text(re.compile("^From nothing to a verdict"))


def test_the_search_works_from_a_disk(site: Path, browser: Browser) -> None:
    with opened(browser, site, FRONT) as page:
        page.locator("input.sidebar-search").fill("imbalance")
        page.keyboard.press("Enter")
        # One hit after the other is put on the page.
        hit = page.locator("#search-results li a", has_text="sojourn blame")
        hit.wait_for(timeout=60_000)
        hit.click()
        expect(page.locator("#search-results")).to_have_count(0)
        expect(page.locator("article")).to_contain_text("imbalance")


@pytest.mark.parametrize(
    ("page", "scheme"),
    [
        (FRONT, "light"),
        (FRONT, "dark"),
        ("docs/reference/commands.html", "dark"),
        ("docs/explanation/formulas.html", "light"),
        ("README.html", "light"),
    ],
)
def test_a_page_fits_a_telephone_and_a_wall(site: Path, browser: Browser, page: str, scheme: str) -> None:
    with opened(browser, site, page, scheme=scheme) as tab:
        for width in (360, 1920):
            tab.set_viewport_size({"width": width, "height": 900})
            eventually(tab, f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}")
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 380) == (scheme == "light")
