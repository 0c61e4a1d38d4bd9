"""The application of ``sojourn watch``: keys, mouse, sizes, themes, and the display after each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sojourn.present import palette
from sojourn.sources.live.follow import FileFollower
from sojourn.sources.live.tail import from_the_beginning
from sojourn.watch.app import TERMINAL_THEMES, Picture, WatchApp
from sojourn.watch.reading import Reading
from sojourn.watch.screen import Looks
from sojourn.watch.view import View
from sojourn.watch.watcher import Choice, Watcher
from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot
from textual.widgets import Input
from watch_support import EPOCH, record

SIZES = [(200, 60), (120, 40), (80, 24), (60, 15), (40, 10), (20, 4), (3, 2), (1, 1)]
ROUTES = 30
EVIL = "\x1b[2J\x07\u202e/"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A minute of thirty routes; the higher its number, the longer a route's service and the shorter its queue."""
    path = tmp_path / "access.log"
    path.write_bytes(
        b"".join(
            record(EPOCH + k / 10, 0.5 - k % ROUTES / 100, 0.01 * (1 + k % ROUTES), route=f"/r{k % ROUTES}",
                   worker=str(k % 2), upstream_addr=f"10.0.0.{k % 2}:80")
            for k in range(600)
        )
    )  # fmt: skip
    return path


@asynccontextmanager
async def running(
    log: Path, choice: Choice | None = None, *, size: tuple[int, int] = (80, 24), ascii_only: bool = False
) -> AsyncIterator[tuple[WatchApp, Pilot[None]]]:
    """Run the application on a replayed log until its queues are computed."""
    watcher = Watcher([FileFollower(str(log), from_the_beginning)], replay=True)
    choice = choice or Choice()
    app = WatchApp(Reading(watcher, choice, 0.2), choice, Looks(every=0.2, ascii_only=ascii_only))
    try:
        async with app.run_test(size=size) as pilot:
            await drawn(app, lambda view: view.queues is not None)
            yield app, pilot
    finally:
        app.reading.stop()
        watcher.close()


def _wheel(*, down: bool) -> type[MouseScrollDown | MouseScrollUp]:
    return MouseScrollDown if down else MouseScrollUp


async def until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "did not happen in time"
        await asyncio.sleep(0.02)


async def drawn(app: WatchApp, holds: Callable[[View], object]) -> None:
    """Wait until the display shows a view for which something holds."""
    await until(lambda: app._drawn and isinstance(app._drawn[0], View) and holds(app._drawn[0]))


async def shows(app: WatchApp, *texts: str) -> None:
    """Wait until all of them are on the terminal."""
    await until(lambda: all(text in "\n".join(lines_of(app)) for text in texts))


def lines_of(app: WatchApp) -> list[str]:
    """Return the lines on the terminal."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def cell_of(app: WatchApp, text: str) -> tuple[int, int]:
    """Column and row at which a text stands first."""
    return next((line.index(text), row) for row, line in enumerate(lines_of(app)) if text in line)


def colours_of(app: WatchApp) -> set[str]:
    """The colours of text on the terminal."""
    segments = (segment for strip in app.screen._compositor.render_strips() for segment in strip)
    return {
        segment.style.color.name
        for segment in segments
        if segment.text.strip() and segment.style and segment.style.color
    }


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_keys(log: Path) -> None:
    async def scenario() -> None:
        async with running(log) as (app, pilot):
            assert "by route, 1 min, most seconds first, 30 in all" in lines_of(app)[8]
            await pilot.press("g")
            assert app.choice.by == "upstream"
            await until(lambda: app.reading.view and app.reading.view.by == "upstream")
            await pilot.press(*"gggg")
            assert app.choice.by == "route"
            await until(lambda: app.reading.view and app.reading.view.by == "route")
            await pilot.press("w")
            assert app.looks.window == "10m"
            await pilot.press("s", "right", "left")
            assert app.looks.sort == "rate"
            await pilot.press("left", "left")
            assert app.looks.sort == "errors"
            await pilot.press(*["down"] * 9, *["up"] * 8)
            assert app.looks.scroll == 1
            app.action_scroll(40)
            await pilot.press("down")
            assert app.looks.scroll == ROUTES - 1
            await pilot.press("p")
            assert app.looks.paused
            assert " PAUSED " in lines_of(app)[0]
            await pilot.press("space")
            assert not app.looks.paused
            await pilot.press("minus")
            assert app.looks.every == 0.5
            await pilot.press(*["minus"] * 4)
            assert app.looks.every == 10
            await pilot.press("plus", "equals_sign")
            assert app.looks.every == 2
            await pilot.press("question_mark")
            assert "Times in milliseconds." in "\n".join(lines_of(app))
            await pilot.press("g")
            assert "Times in milliseconds." not in "\n".join(lines_of(app))
            assert app.choice.by == "route"
            await pilot.press("h", "q")
        assert app.return_code == 0

    played(scenario)


@pytest.mark.parametrize(("keys", "code"), [("q", 0), ("Q", 0), ("ctrl+c", 130), ("question_mark ctrl+c", 130)])
def test_exit_codes_of_keys(log: Path, keys: str, code: int) -> None:
    async def scenario() -> None:
        async with running(log) as (app, pilot):
            await pilot.press(*keys.split())
        assert app.return_code == code

    played(scenario)


def test_filter_can_be_applied_and_cancelled(log: Path) -> None:
    async def scenario() -> None:
        async with running(log) as (app, pilot):
            await pilot.press("f", *"/r2q", "backspace", "p", "backspace", "enter")
            assert app.choice.where == "/r2"
            assert not app.looks.paused
            await drawn(app, lambda view: view.windows["10m"].requests == 220)
            assert " behind  only /r2" in lines_of(app)[0]
            await pilot.press("f", "x", "escape")
            assert app.choice.where == "/r2"
            await pilot.press("escape")
            assert app.choice.where == ""
            await drawn(app, lambda view: view.windows["10m"].requests == 600)
            await pilot.press("f", "x", "enter", "f", "ctrl+u", "enter")
            assert app.choice.where == ""
            await pilot.press("f")
            app.query_one(Input).value = "y" * 199
            await pilot.press("end", "z", "z")
            assert app.query_one(Input).value == "y" * 199 + "z"

    played(scenario)


def test_clicks_have_the_effects_of_keys(log: Path) -> None:
    async def scenario() -> None:
        async with running(log, size=(120, 30)) as (app, pilot):
            for heading, sort in (("req/s", "rate"), ("share", "share"), ("errors", "errors")):
                await pilot.click(offset=cell_of(app, heading))
                assert app.looks.sort == sort
            await pilot.click(offset=(cell_of(app, "service ms")[0] + 2, cell_of(app, "req/s")[1]))
            assert app.looks.sort == "service"
            # The longest service.
            await until(lambda: lines_of(app)[cell_of(app, "by route")[1] + 1].startswith("/r29 "))
            await pilot.click(offset=cell_of(app, "10 min"))
            assert app.looks.window == "10m"
            await pilot.click(offset=cell_of(app, "now, 10 s"))
            assert app.looks.window == "now"
            await pilot.click(offset=cell_of(app, "most mean service"))
            assert app.looks.sort == "service99"
            await pilot.click(offset=cell_of(app, "by route"))
            assert app.choice.by == "upstream"
            await drawn(app, lambda view: view.by == "upstream")
            await pilot.click(offset=cell_of(app, "10.0.0.1:80"))
            assert app.choice.where == "upstream=10.0.0.1:80"
            await drawn(app, lambda view: view.windows["10m"].requests == 300)
            await shows(app, "only upstream")
            await pilot.click(offset=cell_of(app, "only upstream"))
            assert app.query_one(Input).has_focus
            await pilot.press("escape")
            await shows(app, "p pause", "q quit")
            await pilot.click(offset=cell_of(app, "p pause"))
            assert app.looks.paused
            await pilot.click(offset=cell_of(app, "q quit"))
        assert app.return_code == 0

    played(scenario)


def test_the_wheel_scrolls_the_groups(log: Path) -> None:
    async def scenario() -> None:
        async with running(log) as (app, pilot):
            await pilot._post_mouse_events([_wheel(down=True)], offset=(5, 10))
            await until(lambda: app.looks.scroll == 3 and "from 4 of 30" in lines_of(app)[8])
            await pilot._post_mouse_events([_wheel(down=False)], offset=(5, 10))
            await until(lambda: app.looks.scroll == 0)

    played(scenario)


def fits(app: WatchApp, width: int, height: int, *texts: str) -> bool:
    """Return whether the display has a size and, where texts are given, these and the keys in the last line."""
    lines = lines_of(app)
    complete = all(any(text in line for line in lines) for text in texts)
    keys = not texts or lines[-1].startswith("q quit")
    return len(lines) == height and all(len(line) <= width for line in lines) and complete and keys


def test_display_fits_every_size(log: Path) -> None:
    async def scenario() -> None:
        async with running(log) as (app, pilot):
            for width, height in SIZES:
                await pilot.resize_terminal(width, height)
                for keys in ((), ("question_mark",), ("escape", "f")):
                    await pilot.press(*keys)
                    app.query_one(Input).value = "x" * 90
                    whole = not keys and width >= 40 and height >= 10
                    await until(partial(fits, app, width, height, *(("10 min", "504", "/r0 ") if whole else ())))
                await pilot.press("escape")
            await until(lambda: app.query_one(Picture).size == (1, 1))

    played(scenario)


def wears(app: WatchApp, colours: set[str], ground: str) -> bool:
    """Return whether the display has these colours and, where one is given, this background."""
    return colours <= colours_of(app) and ground in ("", app.query_one(Picture).background_colors[1].hex)


def test_themes_change_the_background_only(log: Path) -> None:
    async def scenario() -> None:
        async with running(log, size=(120, 30)) as (app, pilot):
            pair = {palette.QUEUEING.lower(), palette.SERVICE.lower()}
            grounds = []
            for name in ("terminal", "dark", "light"):
                assert app.theme == name
                # The terminal's own background is unknown.
                ground = "" if name == "terminal" else palette.THEMES[name].background.upper()
                await until(partial(wears, app, pair, ground))
                grounds.append(app.query_one(Picture).background_colors[1].hex)
                await pilot.press("t")
            assert app.theme == "terminal"
            assert grounds[1:] == [palette.THEMES[name].background.upper() for name in ("dark", "light")]
            assert app.available_themes["terminal"].ansi
            assert [look.dark for look in TERMINAL_THEMES] == [True, True, False]

    played(scenario)


def test_no_color_disables_colours(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scenario() -> None:
        async with running(log) as (app, pilot):
            for _ in range(len(TERMINAL_THEMES)):
                assert colours_of(app) <= {"default"}
                await pilot.press("t")
                await pilot.pause(0.1)

    played(scenario)


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    log = tmp_path / "log"
    markup = "[red]/[@click=app.leave(7)]x[/]"
    log.write_bytes(
        b"".join(record(EPOCH + k, route=(EVIL, markup)[k % 2], upstream_addr="a\x1bb [b]") for k in range(30))
    )

    async def scenario() -> None:
        async with running(log, Choice(where=EVIL), size=(120, 30)) as (app, pilot):
            assert all(character.isprintable() for line in lines_of(app) for character in line)
            await pilot.press("f")
            assert app.query_one(Input).value == "[2J/"
            await pilot.press("ctrl+u", "enter")
            await drawn(app, lambda view: view.windows["10m"].requests == 30)
            await shows(app, "\\x1b[2J", markup)
            assert all(character.isprintable() for line in lines_of(app) for character in line)
            await pilot.click(offset=cell_of(app, markup))
            assert app.choice.where == f"route={markup}"
            assert app.return_code is None

    played(scenario)


def test_no_redraw_after_the_picture_is_removed(log: Path) -> None:
    async def scenario() -> None:
        async with running(log) as (app, _):
            await app.query_one(Picture).remove()
            app.looks = replace(app.looks, scroll=3)
            app._draw()
            assert app.is_running

    played(scenario)


def test_ascii_only_terminal(log: Path) -> None:
    async def scenario() -> None:
        async with running(log, ascii_only=True) as (app, pilot):
            assert "\n".join(lines_of(app)).isascii()
            await pilot.press("question_mark")
            assert "s, l, r" in "\n".join(lines_of(app))
            assert "\n".join(lines_of(app)).isascii()

    played(scenario)
