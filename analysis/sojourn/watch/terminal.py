"""A terminal that is drawn on as things change, and left as it was.

The log is read and computed on by a thread of its own: a key is answered at once, whatever there is to compute. curses
sends only what differs from what is there, so a slow line does.
"""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.cells import cell_len

from sojourn.model.errors import SojournError
from sojourn.present.signals import ended_in_order
from sojourn.watch.cells import BAD, BOLD, DIM, GOOD, QUEUEING, REVERSE, SERVICE, Line, Part
from sojourn.watch.follow import READ_BYTES
from sojourn.watch.keys import Looking, pressed
from sojourn.watch.screen import screen
from sojourn.watch.view import View
from sojourn.watch.watcher import Choice, Watcher

LOOK = 0.25  # s between two looks at the files: what is written and truncated in between is lost
LEAVING = 10.0  # s in which what is being computed must end
KEY = 100  # ms until a key that was not pressed is given up on
ESCAPE = 25  # ms after which an Escape is one, and not the beginning of another key

# Vermillion and blue of sojourn.present.palette as xterm's 256 colours have them; of eight colours, the nearest.
COLOURS = {QUEUEING: (166, curses.COLOR_RED), SERVICE: (32, curses.COLOR_CYAN), BAD: (166, curses.COLOR_RED),
           GOOD: (35, curses.COLOR_GREEN)}  # fmt: skip


class Reading(threading.Thread):
    """Reads and computes until it is told to stop.

    Attributes:
        view: the latest; None: nothing is known yet.
        told: what is being done until then.
        failure: what ended it.
    """

    def __init__(self, watcher: Watcher, choice: Choice, every: float) -> None:
        super().__init__(name="sojourn-watch", daemon=True)
        self.view: View | None = None
        self.told = "reading the last ten minutes"
        self.failure: BaseException | None = None
        self._watcher = watcher
        self._wanted = (choice, every)
        self._wake = threading.Event()
        self._leaving = threading.Event()

    def want(self, choice: Choice, every: float) -> None:
        """Compute this from now on."""
        if (choice, every) != self._wanted:
            self._wanted = (choice, every)
            self._wake.set()

    def stop(self) -> None:
        """End soon."""
        self._leaving.set()
        self._wake.set()

    def run(self) -> None:
        """See ``threading.Thread``."""
        try:
            self._watcher.catch_up(datetime.now(UTC), self._read)
            while not self._leaving.is_set():
                choice, every = self._wanted
                wall = datetime.now(UTC)
                self._watcher.read(wall)
                # Whom was waited for comes with the second picture: what computes it takes a moment to load.
                first = self.view is None
                self.view = self._watcher.view(choice, wall, with_queues=not first)
                if not first and self._watcher.behind < READ_BYTES:
                    self._wait(every)
        except BaseException as error:  # told where the terminal is in order again
            self.failure = error

    def _wait(self, every: float) -> None:
        waited = 0.0
        while waited < every and not self._wake.wait(min(LOOK, every - waited)):
            waited += LOOK
            self._watcher.look()
        self._wake.clear()
        self._watcher.look()

    def _read(self, done: int, left: int) -> None:
        self.told = f"reading the last ten minutes: {done >> 20} MB, {left >> 20} MB to go"
        if self._leaving.is_set():
            raise SystemExit


def watch_terminal(watcher: Watcher, looking: Looking) -> None:
    """Draw until the user leaves.

    Raises:
        SojournError: a log cannot be read any longer, or the terminal cannot be drawn on.
        KeyboardInterrupt: Ctrl-C.
    """
    reading = Reading(watcher, looking.choice, looking.looks.every)
    _keys_from_terminal()
    try:
        with ended_in_order(), _terminal() as window:
            reading.start()
            _draw_until_left(window, reading, looking)
    finally:
        reading.stop()
        if reading.is_alive():
            reading.join(LEAVING)
    if isinstance(reading.failure, Exception):
        raise reading.failure


def speaks_utf8() -> bool:
    """Whether the terminal's own character set has more than ASCII."""
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    return locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8"


def _keys_from_terminal() -> None:
    """Where a log is piped in, keys come from the terminal itself."""
    if os.isatty(0):
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError as error:
        raise SojournError(f"no terminal to read keys from ({error.strerror}); try --once, or TERM=dumb") from error
    os.dup2(terminal, 0)
    os.close(terminal)


def _draw_until_left(window: curses.window, reading: Reading, looking: Looking) -> None:
    styles = _styles()
    drawn: tuple[object, ...] = ()
    frozen: View | None = None
    while reading.failure is None:
        height, width = window.getmaxyx()
        frozen = (frozen or reading.view) if looking.looks.paused else None
        view = frozen or reading.view
        seen = (view, looking.looks, looking.choice, height, width, reading.told if view is None else "")
        if seen != drawn:
            drawn = seen
            told = [(Part(reading.told),)] if view is None else screen(view, looking.looks, width, height)
            _draw(window, told, styles, height)
        key = _key(window)
        if key is None:
            continue
        if key == "KEY_RESIZE":
            curses.update_lines_cols()
            # All anew: what a terminal keeps of the old picture when its size changes, nobody can know.
            window.clear()
            drawn = ()
            continue
        after = pressed(key, looking, view)
        if after is None:
            return
        looking = after
        reading.want(looking.choice, looking.looks.every)


def _key(window: curses.window) -> str | None:
    try:
        key = window.get_wch()
    except curses.error:
        return None
    if isinstance(key, str):
        return key
    return curses.keyname(key).decode()


def _draw(window: curses.window, lines: Sequence[Line], styles: Mapping[str, int], height: int) -> None:
    window.erase()
    for row, line in enumerate(lines[:height]):
        column = 0
        for text, style in line:
            # The last place of the last line cannot be written without an error: the cursor has nowhere to go.
            with contextlib.suppress(curses.error):
                window.addstr(row, column, text, styles.get(style, 0))
            column += cell_len(text)
    window.refresh()


def _styles() -> dict[str, int]:
    styles = {
        BOLD: curses.A_BOLD,
        DIM: curses.A_DIM,
        REVERSE: curses.A_REVERSE,
        BAD: curses.A_BOLD,
        GOOD: curses.A_BOLD,
    }
    if os.environ.get("NO_COLOR") or not curses.has_colors():
        return styles
    curses.start_color()
    ground = curses.COLOR_BLACK
    with contextlib.suppress(curses.error):  # not every terminal can leave the ground as it is
        curses.use_default_colors()
        ground = -1
    for number, (style, (many, few)) in enumerate(COLOURS.items(), 1):
        curses.init_pair(number, many if curses.COLORS >= 256 else few, ground)
        styles[style] = curses.color_pair(number) | (curses.A_BOLD if style in {BAD, GOOD} else 0)
    return styles


@contextlib.contextmanager
def _terminal() -> Iterator[curses.window]:
    """The whole terminal; put in order again however this ends."""
    os.environ.setdefault("ESCDELAY", str(ESCAPE))
    # Where these are set, curses believes them, and not the terminal when its size changes.
    for name in ("LINES", "COLUMNS"):
        os.environ.pop(name, None)
    try:
        window = curses.initscr()
    except curses.error as error:
        raise SojournError(f"this terminal cannot be drawn on ({error}); try --once, or TERM=dumb") from error
    try:
        curses.noecho()
        curses.cbreak()
        window.keypad(True)
        window.timeout(KEY)
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        yield window
    finally:
        window.keypad(False)
        with contextlib.suppress(curses.error):
            curses.curs_set(1)
        curses.nocbreak()
        curses.echo()
        curses.endwin()
        sys.stdout.flush()
