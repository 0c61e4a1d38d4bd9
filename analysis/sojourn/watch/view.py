"""The state at one instant: the contents of the screen and of ``--once --json``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sojourn.model.formatting import iso, printable
from sojourn.model.frame import Records
from sojourn.model.verdict import Verdict
from sojourn.watch.figures import BUCKET, Figures
from sojourn.watch.queues import Queues

WINDOWS = {"now": 10.0, "1m": 60.0, "10m": 600.0}
"""Name of a window -> its length, s."""
LEAST_JUDGED = 30
"""Requests of a window; fewer allow no verdict."""
BUCKETS = round(WINDOWS["10m"] / BUCKET)


def short_name(name: str) -> str:
    """Return a log's name without its folders."""
    return printable(os.path.basename(name) or name, 40)


@dataclass(frozen=True)
class View:
    """The figures of one instant.

    Attributes:
        at: the end of every window.
        names: of the logs.
        by: column of the groups.
        where: the filter; empty for none.
        windows: name (of ``WINDOWS``) -> figures.
        queues: of the last minute; None where they have not been computed yet.
        history: mean queueing delay (s) of ``BUCKETS`` ten-second buckets, oldest first; None: no request.
        records: counts of accepted and rejected lines.
        in_memory: number of requests in memory.
        last: end of the last request; None before the first.
        age: s since ``last`` by the local clock.
        late: lag of the log's clock, s; None where the clocks agree.
        records_ahead: number of records from the future, which are in no figure.
        notes: warnings, as sentences that do not change every second.
    """

    at: datetime
    names: tuple[str, ...]
    by: str
    where: str
    windows: dict[str, Figures]
    queues: Queues | None
    history: tuple[float | None, ...]
    records: Records
    in_memory: int
    last: datetime | None
    age: float | None
    late: float | None
    records_ahead: int = 0
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> Verdict | None:
        """The verdict of the shortest window with ``LEAST_JUDGED`` requests in it."""
        window = self.judged_window
        return None if window is None else self.windows[window].judged

    @property
    def judged_window(self) -> str | None:
        """The shortest window with enough requests for a verdict; None without any."""
        return next((name for name, w in self.windows.items() if w.judged and w.requests >= LEAST_JUDGED), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``sojourn watch --json`` prints."""
        judged = self.judged
        return {
            "at": iso(self.at),
            "sources": list(self.names),
            "last_record": self.last and iso(self.last),
            "last_record_age": self.age,
            "clock_late": self.late,
            "records": self.records.to_dict(),
            "records_ahead": self.records_ahead,
            "filter": self.where or None,
            "verdict": judged and judged.to_dict(),
            "windows": {name: figures.to_dict(self.by) for name, figures in self.windows.items()},
            "queues": self.queues and self.queues.to_dict(self.by),
            "history": {"seconds": BUCKET, "queueing_delay": list(self.history)},
            "notes": list(self.notes),
        }
