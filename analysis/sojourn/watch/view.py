"""What is known at one instant: all that a screen shows and ``--once --json`` prints."""

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
BUCKETS = round(WINDOWS["10m"] / BUCKET)


def short_name(name: str) -> str:
    """A log's name without the folders it is in."""
    return printable(os.path.basename(name) or name, 40)


@dataclass(frozen=True)
class View:
    """The figures of one instant.

    Attributes:
        at: the end of every window.
        names: the logs.
        by: what groups are of; ``where``: the filter, empty for none.
        windows: name (of ``WINDOWS``) -> figures.
        queues: of the last minute; None where they have not been computed yet.
        history: mean queueing delay (s) of ten seconds each, the oldest first, ``BUCKETS`` of them; None: no request.
        records: what became of the lines.
        held: requests that are held.
        last: end of the last request; None of none. ``age``: s it is ago by this machine's clock.
        late: s, the log's clock is behind this machine's by so much; None: the two agree.
        notes: what to know, in plain sentences; those that change by the second are not among them.
    """

    at: datetime
    names: tuple[str, ...]
    by: str
    where: str
    windows: dict[str, Figures]
    queues: Queues | None
    history: tuple[float | None, ...]
    records: Records
    held: int
    last: datetime | None
    age: float | None
    late: float | None
    notes: tuple[str, ...] = ()

    @property
    def judged(self) -> Verdict | None:
        """The verdict of the shortest window with a request in it."""
        return next((w.judged for w in self.windows.values() if w.judged), None)

    def to_dict(self) -> dict[str, Any]:
        """The object that ``sojourn watch --json`` prints."""
        judged = self.judged
        return {
            "at": iso(self.at),
            "sources": list(self.names),
            "last_record": self.last and iso(self.last),
            "last_record_age": self.age,
            "clock_late": self.late,
            "records": self.records.to_dict(),
            "filter": self.where or None,
            "verdict": judged and judged.to_dict(),
            "windows": {name: found.to_dict(self.by) for name, found in self.windows.items()},
            "queues": self.queues and self.queues.to_dict(self.by),
            "history": {"seconds": BUCKET, "queueing_delay": list(self.history)},
            "notes": list(self.notes),
        }
