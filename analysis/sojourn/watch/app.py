"""The live display on a terminal: a Textual application with keys and mouse."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile, zip_longest
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES, Theme
from textual.widget import Widget
from textual.widgets import Footer, Input, Static

from sojourn.model.errors import SojournError
from sojourn.model.groups import GROUPS
from sojourn.present.palette import THEMES
from sojourn.watch.cells import SORTS, Line, Part, plain_text
from sojourn.watch.reading import Reading
from sojourn.watch.screen import LABELS, Looks, screen
from sojourn.watch.view import View
from sojourn.watch.watcher import Choice, Watcher

CYCLES: dict[str, Sequence[Any]] = {"by": GROUPS, "window": tuple(LABELS), "sort": SORTS, "paused": (False, True)}
INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
LONGEST_FILTER = 200
NEW = 0.1  # s between two checks for a new view
WHEEL = 3  # rows
# The terminal's own colours, and those of charts.
TERMINAL_THEMES = (
    replace(BUILTIN_THEMES["ansi-dark"], name="terminal"),
    *(
        Theme(name, each.text, foreground=each.text, background=each.background, surface=each.background,
              panel=each.grid, dark=name == "dark")
        for name, each in (("dark", THEMES["dark"]), ("light", THEMES["light"]))
    ),
)  # fmt: skip
HELP = """\
q          quit (Ctrl-C too)
g          next column to group by: route, upstream, worker, status, service
w          window of the table: now (10 s), 1 min, 10 min
s, ←, →    column to sort by
↑, ↓       scroll the table
f          filter: text of a route, backend, worker, status or service, or COLUMN=VALUE; Esc removes it
p, space   pause the display; the log is still read
+, -       redraw more or less often
t          theme: the terminal's own colours, dark, light
mouse      click a heading to sort by it, a window to show its groups, a row to filter by it, a key below; wheel: scroll

Times in milliseconds. A request counts when it ends, because nginx logs it then.
queueing: waiting for a worker; service: the app's own work; queued share: of all seconds; errors: 499 and 5xx.
Backends: workers and requests in queue refer to the minute that ended one log lag ago: a request that has not ended \
is not in the log yet.
Caused by: causes of the last minute's waits; caused: share of each group.
imbalance: another backend was free. dispatch: its own backend was free.
bound: another process was free. Others: `sojourn blame` explains them."""


class Picture(Widget):
    """Lines of text; only cells that changed are redrawn, which suits a slow connection.

    Args:
        lines: the lines to show in a width and a height.
    """

    DEFAULT_CSS = "Picture { height: 1fr; }"

    def __init__(self, lines: Callable[[int, int], list[Line]]) -> None:
        super().__init__()
        self._lines = lines
        self._strips: list[Strip] = []

    def draw(self) -> None:
        """Show the current lines."""
        width, height = self.size
        lines = [[Segment(part.text, _style(*part[1:])) for part in line] for line in self._lines(width, height)]
        strips = [Strip(line).simplify().adjust_cell_length(width) for line in lines[:height]]
        before, self._strips = self._strips, strips
        rows = enumerate(zip_longest(before, strips, fillvalue=Strip.blank(width)))
        regions = [Region(0, row, columns, 1) for row, (old, new) in rows if (columns := _changed(old, new))]
        if regions:  # refresh() without regions redraws everything
            self.refresh(*regions)

    def on_resize(self) -> None:
        """Fit the lines to the new size."""
        self.draw()

    def render_line(self, y: int) -> Strip:
        """See ``Widget``."""
        strip = self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)
        return strip.apply_style(self.rich_style)


class Filter(Input):
    """The input field of the filter; control characters are removed."""

    def validate_value(self, value: str) -> str:
        """See ``Input.value``."""
        return "".join(filter(str.isprintable, value))


class Help(ModalScreen[None]):
    """The meaning of keys and columns; keys scroll or close it."""

    CSS = "Help { background: $background; } Help VerticalScroll { scrollbar-size: 0 0; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """See ``Screen``."""
        yield VerticalScroll(Static(self._text, markup=False))

    def on_key(self, event: events.Key) -> None:
        """Quit, scroll, or close the help."""
        if event.key in {"q", "Q"}:
            self.app.exit()
        elif event.key not in {"up", "down", "pageup", "pagedown", "home", "end"}:
            event.stop()
            self.dismiss()


class WatchApp(App[None]):
    """The live display of a watcher, with its keys and mouse actions.

    Args:
        reading: the thread that reads and computes; started and stopped with the application.
        choice: initial groups and filter.
        looks: initial display options.
        theme: initial theme, one of ``TERMINAL_THEMES``.
        options: of ``textual.app.App``.
    """

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = ""
    CSS = """
    Screen { overflow: hidden; }
    Filter { display: none; height: 1; border: none; padding: 0; background: $background; }
    FooterKey .footer-key--key { color: $foreground; }
    Footer, FooterKey, FooterKey .footer-key--key, FooterKey .footer-key--description { background: $background; }
    """
    BINDINGS: ClassVar = [
        Binding("q,Q", "leave", "quit"),
        Binding("ctrl+c", "leave(130)", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("g", "next('by')", "group"),
        Binding("w", "next('window')", "window"),
        Binding("s,right", "next('sort')", "sort"),
        Binding("left", "next('sort', -1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("up", "scroll(-1)", show=False),
        # Priority: handled before the next key is dispatched, so that key already goes to the filter.
        Binding("f", "filter", "filter", priority=True),
        Binding("escape", "escape", show=False),
        Binding("p,space", "next('paused')", "pause"),
        Binding("plus,equals_sign", "every(-1)", "every", key_display="+/-"),
        Binding("minus", "every(1)", show=False),
        Binding("t", "theme", "theme"),
        Binding("question_mark,h", "help", "help", key_display="?"),
    ]

    def __init__(self, reading: Reading, choice: Choice, looks: Looks, theme: str = "terminal", **options: Any) -> None:
        # NO_COLOR: only the terminal's own colours.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None, **options)
        self.reading, self.choice, self.looks = reading, choice, looks
        self._view: View | None = None
        self._drawn: tuple[object, ...] = ()
        for each in TERMINAL_THEMES:
            self.register_theme(each)
        self.theme = theme

    def compose(self) -> ComposeResult:
        """See ``App``."""
        yield Picture(self._lines)
        yield Filter(placeholder="TEXT or COLUMN=VALUE; Enter applies, Esc leaves", max_length=LONGEST_FILTER,
                     select_on_focus=False, compact=True)  # fmt: skip
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Start reading."""
        self.reading.start()
        self.set_interval(NEW, self._draw)
        # After Ctrl-Z the terminal shows something else.
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))

    def _lines(self, width: int, height: int) -> list[Line]:
        return screen(self._view, self.looks, width, height) if self._view else [(Part(self.reading.progress),)]

    def _draw(self) -> None:
        """Draw the view if it changed."""
        if self.reading.failure is not None:
            self.exit()
            return
        if not self.looks.paused:
            self._view = self.reading.view
        drawn = (self._view, self.looks, self.reading.progress)
        if drawn != self._drawn:
            self._drawn = drawn
            for picture in self.query(Picture):  # none while the application ends
                picture.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """See ``DOMNode``: while the filter or the help is open, f does not open the filter."""
        opens = action == "filter" and not parameters
        return not opens or (self.focused is None and not isinstance(self.screen, Help))

    def action_leave(self, code: int = 0) -> None:
        """Exit with a code."""
        self.exit(return_code=code)

    def action_choose(self, name: str, value: Any) -> None:
        """Change what is computed (``by``, ``where``) or how it is displayed."""
        if hasattr(self.choice, name):
            self.choice = replace(self.choice, **{name: value})
        else:
            self.looks = replace(self.looks, **{name: value})
        if name not in {"scroll", "paused", "every"}:
            self.looks = replace(self.looks, scroll=0)
        self.reading.want(self.choice, self.looks.every)
        self._draw()

    def action_next(self, name: str, step: int = 1) -> None:
        """Change to the next value, cyclically."""
        values = CYCLES[name]
        now = getattr(self.choice if hasattr(self.choice, name) else self.looks, name)
        self.action_choose(name, values[(values.index(now) + step) % len(values)])

    def action_scroll(self, rows: int) -> None:
        """Scroll the table by a number of rows."""
        groups = len(self._view.windows[self.looks.window].groups) if self._view else 0
        self.action_choose("scroll", max(min(self.looks.scroll + rows, groups - 1), 0))

    def action_every(self, step: int) -> None:
        """Change the interval between updates."""
        others = [each for each in INTERVALS[::step] if (each - self.looks.every) * step > 0]
        self.action_choose("every", (others or [self.looks.every])[0])

    def action_theme(self) -> None:
        """Change to the next theme."""
        names = [look.name for look in TERMINAL_THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def action_help(self) -> None:
        """Show the help."""
        text = HELP.replace("s, ←, →", "s, l, r").replace("↑, ↓", "u, d") if self.looks.ascii_only else HELP
        self.push_screen(Help("\n".join(map(plain_text, text.split("\n"))) if self.looks.ascii_only else text))

    def on_mouse_scroll_down(self) -> None:
        """Scroll the table."""
        self.action_scroll(WHEEL)

    def on_mouse_scroll_up(self) -> None:
        """Scroll the table."""
        self.action_scroll(-WHEEL)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter."""
        text = event.value.strip()
        self.action_filter(opened=False)
        self.action_choose("where", text)

    def action_escape(self) -> None:
        """Close the filter field without a change; where it is closed, remove the filter."""
        if self.query_one(Filter).display:
            self.action_filter(opened=False)
        elif self.choice.where:
            self.action_choose("where", "")

    def action_filter(self, opened: bool = True) -> None:
        """Open the filter field, or close it without a change."""
        field = self.query_one(Filter)
        field.display, self.query_one(Footer).display = opened, not opened
        field.value = self.choice.where
        field.cursor_position = len(field.value)
        self.screen.set_focus(field if opened else None)

    def _print_error_renderables(self) -> None:
        """Print nothing: the command reports the error in one sentence."""


class _Terminal(LinuxDriver):
    """A driver that draws on standard output, where every other command prints."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = sys.__stdout__


def watch_terminal(watcher: Watcher, choice: Choice, looks: Looks, theme: str) -> None:
    """Run the display until the user quits.

    Raises:
        SojournError: a log cannot be read any longer, or there is no terminal to read keys from.
        SystemExit: the user left by Ctrl-C, or a signal ended the program; the code says which.
    """
    _keys_from_terminal()
    # When set, these override the size of the terminal even after it changes.
    os.environ.pop("LINES", None)
    os.environ.pop("COLUMNS", None)
    reading = Reading(watcher, choice, looks.every)
    app = WatchApp(reading, choice, looks, theme, driver_class=_Terminal)
    try:
        with _closed_terminal_ignored():
            asyncio.run(_until_left(app))
    finally:
        reading.stop()
    failure = reading.failure or app._exception
    if isinstance(failure, Exception):
        raise failure
    if app.return_code:
        raise SystemExit(app.return_code)


@contextmanager
def _closed_terminal_ignored() -> Iterator[None]:
    """Suppress the traceback of Textual's thread when the terminal was closed."""
    hook = threading.excepthook

    def ignore(failure: threading.ExceptHookArgs) -> None:
        if not isinstance(failure.exc_value, OSError):
            hook(failure)

    threading.excepthook = ignore
    try:
        yield
    finally:
        threading.excepthook = hook


async def _until_left(app: WatchApp) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, app.action_leave, 128 + number)
    await app.run_async()


def _keys_from_terminal() -> None:
    """Read keys from the terminal itself when a log is piped in."""
    if os.isatty(0):
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError as error:
        raise SojournError(f"no terminal to read keys from ({error.strerror}); try --once, or TERM=dumb") from error
    os.dup2(terminal, 0)
    os.close(terminal)


@lru_cache(1024)
def _style(style: str, action: tuple[str, tuple[str, ...]] | None) -> Style:
    return Style.parse(style) + Style.from_meta({"@click": action} if action else None)


def _changed(old: Strip, new: Strip) -> int:
    """Return how many columns, from the left, contain all changes: Textual sends a row from its beginning."""
    before, now = ([(sign, style) for text, style, _ in strip for sign in text][::-1] for strip in (old, new))
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    return new.cell_length - sum(cell_len(sign) for (sign, _), _ in same)
