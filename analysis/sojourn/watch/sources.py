"""Open the named logs for watching."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from sojourn.model.verdict import SLO
from sojourn.readers.formats.line_format import LineFormat
from sojourn.sources.live.opening import opened_followers, refuse_endless
from sojourn.watch.watcher import Watcher

PAUSE = 0.02  # s between two polls of an idle pipe


def watcher_of(
    logs: Sequence[str], *, from_start: bool = False, slo: float = SLO, form: LineFormat | None = None
) -> Watcher:
    """Return a watcher of these logs; a file need not exist yet.

    Args:
        logs: names of files and named pipes, globs, folders of runs, and ``-``.
        from_start: read files from their beginning, as a replay.
        slo: as for ``sojourn.split``, s.
        form: format of all logs; None: each log's own, recognised by its lines.

    Raises:
        SojournError: a log cannot be read, or cannot be watched.
    """
    followers, tails = opened_followers(logs, from_start=from_start, form=form)
    return Watcher(followers, tails, replay=from_start, slo=slo, form=form)


def read_once(logs: Sequence[str], wall: datetime, *, slo: float = SLO, form: LineFormat | None = None) -> Watcher:
    """Return a watcher that has read the last ten minutes of these logs once.

    Raises:
        SojournError: a log does not exist, or cannot be read.
    """
    refuse_endless(logs)
    watcher = watcher_of(logs, slo=slo, form=form)
    watcher.catch_up(wall)
    while watcher.piped:
        if watcher.poll():
            watcher.read(wall)
        else:
            time.sleep(PAUSE)
    return watcher
