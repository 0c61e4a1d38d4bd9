"""Pages made of hostile text, in a real browser: no script in it runs, and it sends no request."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from browser_support import eventually, opened
from playwright.sync_api import Browser, Page

sys.path.append(str(Path(__file__).parents[1] / "hostile"))
from hostile_files import built, every_command, ran
from hostile_text import obeyed

PAGES = {"report": "report.html", "pcap": "pcap.html", "movie": "movie.html"}
# Vega puts an empty form of its own below each chart.
THEIRS = (
    "img, iframe, object, embed, form:not(.vega-bindings), link, base, textarea, "
    "[onerror], [onload], [onmouseover], [onfocus]"
)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sequence[object]]:
    folder = tmp_path_factory.mktemp("installation")
    (folder / "out").mkdir()
    return {**every_command(built(folder), folder / "out"), "out": (folder / "out",)}


@pytest.fixture(params=[pytest.param(n, marks=() if n == "report" else pytest.mark.thorough) for n in PAGES])
def page(request: pytest.FixtureRequest, browser: Browser, commands: dict[str, Sequence[object]]) -> Iterator[Page]:
    """Yield the page; fail at the end if it reported an error or sent a request."""
    (pages,) = commands["out"]
    assert isinstance(pages, Path)
    done = ran(*commands[request.param])
    assert done.code == 0, done.err
    dialogs: list[str] = []
    with opened(browser, pages / PAGES[request.param], width=800) as produced:
        produced.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        produced.reload()
        ready = (
            "!document.getElementById('bar').hidden"
            if request.param == "movie"
            else "'ready' in document.documentElement.dataset"
        )
        eventually(produced, ready, seconds=90)
        yield produced
    assert dialogs == []


def test_nothing_of_theirs_is_part_of_the_page(page: Page) -> None:
    assert page.locator(THEIRS).count() == 0
    assert (
        page.evaluate("[...document.querySelectorAll('a[href]')].filter(a => a.getAttribute('href')[0] !== '#').length")
        == 0
    )
    text = page.evaluate("document.body.innerText")
    assert obeyed(text.replace("\t", " ")) == set()
    assert "\\x1b" in text
    # A table or a picture that is too wide scrolls by itself.
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    assert page.evaluate("document.title").endswith("sojourn")
