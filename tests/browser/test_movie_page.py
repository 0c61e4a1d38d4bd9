"""The movie's page in a real browser: it plays, pauses and scrubs, by mouse and by keys, in both themes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from axe_playwright_python.sync_playwright import Axe
from movie_support import HOSTILE, THREE, crowd, film, phased, scene
from playwright.sync_api import Page, expect
from sojourn.movie.film import MOST
from sojourn.movie.theme import DARK, LIGHT, rgb
from sojourn.movie.write import write_film
from sojourn.present.palette import OTHER, QUEUEING, SERVICE

OpenPage = Callable[..., Page]
PIXELS = """
(canvas, colours) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return colours.map(([r, g, b]) => {
    let count = 0;
    for (let k = 0; k < data.length; k += 4) if (data[k] === r && data[k + 1] === g && data[k + 2] === b && data[k + 3] === 255) count += 1;
    return count;
  });
}
"""  # noqa: E501 - JavaScript
SCRUB = """
value => {
  const at = document.getElementById("at");
  at.value = value;
  at.dispatchEvent(new Event("input"));
  at.dispatchEvent(new Event("change"));
}
"""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenes of three requests: 90 s."""
    path = tmp_path_factory.mktemp("movie") / "three.html"
    write_film(film(scene(), scene(name="the same again", later=1_000.0)), path)
    return path


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many requests as a page may hold, at two backends."""
    path = tmp_path_factory.mktemp("movie") / "many.html"
    write_film(film(scene(crowd(2_600, backends=2))), path)
    return path


def now(page: Page) -> float:
    return float(page.evaluate("document.body.dataset.now"))


def until(page: Page, condition: str) -> None:
    # Not Playwright's own: it evaluates text in the page, which the page's policy forbids.
    deadline = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(20)


def drawn(page: Page, number: int = 0, canvas: str = ".queue") -> dict[str, int]:
    """Pixels of each kind on a scene's canvas."""
    names = {"waiting": QUEUEING, "working": SERVICE, "abandoned": OTHER}
    element = page.locator(canvas).nth(number).evaluate(PIXELS, [list(rgb(each)) for each in names.values()])
    return dict(zip(names, element, strict=True))


def test_play_moves_the_clock_and_pause_stops_it(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    assert now(page) == 0
    page.get_by_role("button", name="Play").click()
    until(page, "Number(document.body.dataset.now) > 1")
    expect(page.locator("#status")).to_contain_text("At 0.00 s. ")  # not announced at every frame
    page.get_by_role("button", name="Pause").click()
    at, frames = now(page), page.evaluate("document.body.dataset.frames")
    assert 1 < at < 90
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert (now(page), page.evaluate("document.body.dataset.frames")) == (at, frames)
    expect(page.locator("#clock")).to_have_text(f"{at:.2f} of 90.00 s")
    expect(page.locator("#status")).to_contain_text(f"At {at:.2f} s. one worker: ")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_plays_at_the_chosen_speed_and_stops_at_the_end(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    page.locator("#speed").select_option("x 10")
    began = time.monotonic()
    page.locator("#play").click()
    until(page, "Number(document.body.dataset.now) >= 10")
    shown = now(page)  # before the clock here is read, which can only be later
    took = time.monotonic() - began
    assert shown / 10 <= took + 0.1
    assert took < 8  # 1 s and what a busy machine adds; in real time it would take 10 s
    page.locator("#speed").select_option("x 100")
    until(page, "document.body.dataset.playing === 'no'")
    assert now(page) == 90
    page.locator("#speed").select_option("x 1")
    page.locator("#play").click()  # from the beginning again
    until(page, "Number(document.body.dataset.now) < 80")
    page.locator("#play").click()


def test_draws_the_state_of_the_instant(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    page.emulate_media(reduced_motion="reduce")  # no moves

    def at(seconds: float) -> tuple[str | None, dict[str, int]]:
        page.evaluate(SCRUB, seconds)
        return page.locator(".counts").nth(1).text_content(), drawn(page, 1)

    words, seen = at(30)
    assert words == "waiting 2 · in service 1"
    assert seen["waiting"] > 800
    assert seen["working"] > 400
    assert seen["abandoned"] == 0
    words, seen = at(50)
    assert words == "waiting 0 · in service 1"
    assert seen["waiting"] == 0
    assert seen["abandoned"] > 100  # on the shelf: the one that was turned away
    words, late = at(70)
    assert late["abandoned"] > seen["abandoned"] + 400
    expect(page.locator("#status")).to_contain_text(
        "the same again: 0 waiting, 1 in service; so far 1 served, 1 given up, 1 turned away."
    )


def test_shows_the_phase_in_which_a_worker_is_held(open_page: OpenPage, three: Path, tmp_path: Path) -> None:
    write_film(film(scene(phased(), "phases")), tmp_path / "phases.html")
    page = open_page(tmp_path / "phases.html")
    page.emulate_media(reduced_motion="reduce")
    page.evaluate(SCRUB, 20)
    plain = drawn(page)["working"]
    page.evaluate(SCRUB, 12)
    expect(page.locator(".counts")).to_have_text(
        "waiting 2 · read 0 · in service 0 · body 1 · after 1 · perhaps held 1"
    )
    expect(page.locator("#status")).to_contain_text(
        "phases: 2 waiting, 0 in service, 1 in phase body, 1 in phase after, 1 perhaps held; so far 1 served."
    )
    assert 0.3 * plain < drawn(page)["working"] < 0.95 * plain  # two squares in boxes, with lines
    expect(page.locator(".legend i.body")).to_be_visible()
    assert not Axe().run(page).response["violations"]
    assert open_page(three).locator(".legend i.body").count() == 0


def test_the_line_of_depth_can_be_scrubbed(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    assert drawn(page, canvas=".depth")["waiting"] > 1_000
    place = page.locator(".depth").first.bounding_box()
    assert place is not None
    left, right, y = place["x"] + 38, place["x"] + place["width"] - 10, place["y"] + 20
    page.mouse.move(left + (right - left) / 2, y)
    page.mouse.down()
    assert now(page) == pytest.approx(45, abs=0.5)
    page.mouse.move(left + (right - left) / 4, y)
    assert now(page) == pytest.approx(22.5, abs=0.5)
    page.mouse.move(left - 500, y)
    page.mouse.up()
    assert now(page) == 0


def test_keys(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    for key, result in (("ArrowRight", 0.9), ("Shift+ArrowRight", 9.9), ("ArrowLeft", 9.0), ("End", 90), ("Home", 0)):
        page.keyboard.press(key)
        assert now(page) == pytest.approx(result), key
    page.locator("#at").focus()
    page.keyboard.press("ArrowRight")
    assert now(page) == pytest.approx(0.9)  # once, by the page or by the slider
    chosen = page.locator("#speed").input_value()
    page.keyboard.press("+")
    assert page.locator("#speed").input_value() != chosen
    page.keyboard.press("-")
    assert page.locator("#speed").input_value() == chosen
    page.keyboard.press("Space")
    until(page, "document.body.dataset.playing === 'yes'")
    page.keyboard.press("Space")
    until(page, "document.body.dataset.playing === 'no'")
    page.locator("#play").focus()
    page.keyboard.press("Space")
    until(page, "document.body.dataset.playing === 'yes'")
    page.keyboard.press("Space")
    until(page, "document.body.dataset.playing === 'no'")


def test_a_window_is_chosen_and_given_up_again(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    page.locator("#from").fill("40")
    page.locator("#to").fill("50")
    page.locator("#to").press("Tab")
    assert now(page) == 40
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("End")
    assert now(page) == 50
    page.locator("#from").fill("70")  # behind the end: the end moves
    page.locator("#from").press("Tab")
    assert now(page) == pytest.approx(70, abs=0.1)
    page.get_by_role("button", name="All").click()
    assert page.locator("#to").input_value() == "90"
    page.locator("body").click(position={"x": 2, "y": 2})
    page.keyboard.press("Home")
    assert now(page) == 0


def test_page_fits_every_width(open_page: OpenPage, three: Path, many: Path) -> None:
    for path in (three, many):
        page = open_page(path)
        for width in (360, 768, 1_280, 1_920):
            page.set_viewport_size({"width": width, "height": 900})
            # The canvases follow the browser's resize event.
            fitted = "scenes.every(scene => scene.layout.width === Math.max(scene.holder.clientWidth, 200))"
            narrow = f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}"
            until(page, f"{narrow} && {fitted}")
            boxes = page.evaluate(
                "[...document.querySelectorAll('canvas, .scene')].map(e => e.getBoundingClientRect())"
            )
            assert all(box["left"] >= 0 and box["right"] <= width for box in boxes)
            if path == three:
                tops = page.evaluate("scenes.map(scene => scene.holder.getBoundingClientRect().top)")
                assert (tops[0] == tops[1]) == (width >= 1_280)


@pytest.mark.parametrize(("scheme", "theme"), [("light", LIGHT), ("dark", DARK)])
def test_both_themes_and_no_barrier(open_page: OpenPage, three: Path, scheme: str, theme: Any) -> None:
    page = open_page(three, scheme=scheme)
    red, green, blue = rgb(theme.paper)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
    page.keyboard.press("Shift+ArrowRight")
    panel = page.locator(".queue").first.evaluate(PIXELS, [list(rgb(theme.panel))])
    assert panel[0] > 1_000
    result = Axe().run(page)
    assert not result.response["violations"], result.generate_report()


def test_the_theme_changes_while_the_page_is_open(open_page: OpenPage, three: Path) -> None:
    page = open_page(three)
    page.emulate_media(color_scheme="dark")
    until(page, "getComputedStyle(document.body).backgroundColor === 'rgb(13, 17, 23)' && colours.paper === '#0d1117'")


def test_as_many_requests_as_there_is_room_for_are_drawn_at_the_deepest(open_page: OpenPage, many: Path) -> None:
    page = open_page(many, width=1_280)
    requests = page.evaluate("scenes[0].arrival.length")
    assert MOST * 0.9 < requests <= MOST
    page.evaluate("seek(film.seconds * .55)")
    assert drawn(page)["waiting"] > 3_000


def test_hostile_names_and_no_script(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    write_film(film(scene(THREE.with_columns(backend=pl.lit(HOSTILE)), HOSTILE), title=HOSTILE), path)
    page = open_page(path)
    expect(page.locator("h1")).to_have_text("</script><b>&\\x1b[31m")
    assert page.locator("b").count() == 0
    silent = open_page(path, java_script_enabled=False)
    expect(silent.get_by_text("The animation needs a script")).to_be_visible()
    expect(silent.get_by_text("Of 3 requests 1 was served")).to_be_visible()
    expect(silent.locator("#bar")).to_be_hidden()
