"""What a key does to how a view is looked at; nothing here knows a terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sojourn.model.groups import GROUPS
from sojourn.watch.cells import SORTS
from sojourn.watch.screen import LABELS, Looks
from sojourn.watch.view import View
from sojourn.watch.watcher import Choice

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
ENTER = {"\n", "\r", "KEY_ENTER"}
ERASE = {"\x7f", "\b", "KEY_BACKSPACE"}
SAME = {"KEY_RIGHT": "s", " ": "p", "=": "+"}
ESCAPE = "\x1b"
LONGEST_FILTER = 200


@dataclass(frozen=True)
class Looking:
    """What is computed, and how it is looked at."""

    choice: Choice
    looks: Looks


def pressed(key: str, looking: Looking, view: View | None) -> Looking | None:
    """How it is looked at after a key (a character, or a name of curses'); None: the user leaves."""
    looks = looking.looks
    if looks.editing is not None:
        return _typed(key, looking, looks.editing)
    if key in {"q", "Q"}:
        return None
    if key in {"?", "h"} or looks.helping:
        return replace(looking, looks=replace(looks, helping=not looks.helping))
    if key == "g":
        by = _after(looking.choice.by, GROUPS)
        return Looking(replace(looking.choice, by=by), replace(looks, scroll=0))
    if key == "f":
        return replace(looking, looks=replace(looks, editing=looking.choice.where))
    changes = _changes(key, looks, 0 if view is None else len(view.windows[looks.window].groups))
    return replace(looking, looks=replace(looks, **changes)) if changes else looking


def _changes(key: str, looks: Looks, groups: int) -> dict[str, Any]:
    """What becomes of the looks, as far as it is another."""
    scrolled = min(looks.scroll + 1, max(groups - 1, 0)) if key == "KEY_DOWN" else max(looks.scroll - 1, 0)
    oftener = next((seconds for seconds in reversed(INTERVALS) if seconds < looks.every), looks.every)
    changes: dict[str, dict[str, Any]] = {
        "w": {"window": _after(looks.window, tuple(LABELS)), "scroll": 0},
        "s": {"sort": _after(looks.sort, SORTS), "scroll": 0},
        "KEY_LEFT": {"sort": _after(looks.sort, SORTS[::-1]), "scroll": 0},
        "KEY_DOWN": {"scroll": scrolled},
        "KEY_UP": {"scroll": scrolled},
        "p": {"paused": not looks.paused},
        "+": {"every": oftener},
        "-": {"every": next((seconds for seconds in INTERVALS if seconds > looks.every), looks.every)},
    }
    return changes.get(SAME.get(key, key), {})


def _typed(key: str, looking: Looking, text: str) -> Looking:
    """A key while the filter is being typed."""
    if key in ENTER:
        return Looking(replace(looking.choice, where=text.strip()), replace(looking.looks, editing=None, scroll=0))
    if key == ESCAPE:
        return replace(looking, looks=replace(looking.looks, editing=None))
    if key in ERASE:
        text = text[:-1]
    elif key == "\x15":  # Ctrl-U
        text = ""
    elif len(key) == 1 and key.isprintable():
        text = (text + key)[:LONGEST_FILTER]
    return replace(looking, looks=replace(looking.looks, editing=text))


def _after(value: str, values: tuple[str, ...]) -> str:
    """The next of some values, the first after the last."""
    return values[(values.index(value) + 1) % len(values)]
