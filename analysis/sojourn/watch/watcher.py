"""Open logs for watching, and compute views of the requests that a live reader holds: once or repeatedly."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from sojourn.components.split import clock_of, split_rows
from sojourn.model.formatting import counted, duration, milliseconds, percent, printable
from sojourn.model.verdict import SLO
from sojourn.readers.foreign_logs import format_of_rejects
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.sources.live.follow import READ_BYTES, Follower
from sojourn.sources.live.opening import opened_followers, refuse_endless
from sojourn.sources.live.pace import Paced
from sojourn.sources.live.reader import LiveReader
from sojourn.sources.live.recent import SPAN
from sojourn.sources.live.tail import Tail
from sojourn.watch.figures import BUCKET, Figures, figures
from sojourn.watch.queues import MINUTE, Queues, lag_of, queues
from sojourn.watch.view import BUCKETS, WINDOWS, View, short_name

SHORTEST = 1.0  # s; the shortest period for a rate
FEW = 100  # requests needed for a note on a clock's uncertainty
SPEAKING = 0.5  # share of answers with the app's times below which a note is given
SHARES = {"now": 0.1, "1m": 0.04, "10m": 0.05, "queues": 0.04, "clock": 0.02}
"""Share of one processor that each computation may use."""
PAUSE = 0.02  # s between two polls of an idle pipe
OLD = SPAN  # s; a log without records for longer is shown as of its own end


@dataclass(frozen=True)
class Choice:
    """The column of the groups, and a filter (empty: none)."""

    by: str = "route"
    where: str = ""


class Watcher(LiveReader):
    """Logs that are being written, with the requests of their last ten minutes.

    Args:
        followers: of the logs.
        tails: start positions of the files that existed at the start.
        replay: the last record defines the current time.
        slo: as for ``sojourn.split``, s.
        form: format of all logs; None: each log's own.
    """

    def __init__(
        self,
        followers: Sequence[Follower],
        tails: Sequence[Tail] = (),
        *,
        replay: bool = False,
        slo: float = SLO,
        form: LineFormat | Units | None = None,
    ) -> None:
        super().__init__(followers, tails, replay=replay, form=form, on_step=self._outdated)
        self._slo = slo
        self._choice = Choice()
        self._clocks = Paced(self._clocks_of, SHARES["clock"])
        self._windows = {name: Paced(self._figures, SHARES[name]) for name in WINDOWS}
        self._queues = Paced(self._queues_of, SHARES["queues"])

    def end_of_log(self, wall: datetime) -> datetime:
        """Return the local time, or the log's last record where that is older than ``OLD``."""
        last = self.recent.last
        return last if last is not None and (wall - last).total_seconds() > OLD else wall

    def view(self, choice: Choice, wall: datetime, now: datetime | None = None, *, with_queues: bool = True) -> View:
        """Compute the view; under load, long windows are computed less often than short ones.

        ``wall``: the local time; ``now``: the log's, None: derived from it. The queues take longest the first time.
        """
        following = now is None
        late = self.clock.late if following else None
        now = self.now(wall) if now is None else now
        if choice != self._choice:
            self._choice = choice
            self._outdated()
        clock = self._clocks.get(now)
        windows = {name: paced.get(now, WINDOWS[name], clock) for name, paced in self._windows.items()}
        return View(
            at=now,
            names=tuple(follower.name for follower in self.followers),
            by=choice.by,
            where=choice.where,
            windows=windows,
            queues=self._queues.get(now, clock) if with_queues else None,
            history=_history(windows, now),
            records=self.recent.records,
            in_memory=len(self.recent),
            last=self.recent.last,
            age=None if self.recent.last is None else (wall - self.recent.last).total_seconds(),
            late=late,
            records_ahead=self.ahead.total,
            notes=(*(self._about_logs() if following else ()), *self._notes(clock, windows, now)),
        )

    def _outdated(self) -> None:
        """Compute the windows and queues again at the next view."""
        for paced in self._windows.values():
            paced.outdated()
        self._queues.outdated()

    def _clocks_of(self, now: datetime) -> pl.DataFrame:
        return clock_of(self.recent.rows(now, SPAN))

    def _figures(self, now: datetime, seconds: float, clock: pl.DataFrame) -> Figures:
        rows = split_rows(self.recent.rows(now, seconds), clock=clock, infer=False).rows
        covered = max((now - self.recent.known_since()).total_seconds(), SHORTEST)
        return figures(rows, min(seconds, covered), self._choice.by, self._choice.where, self._slo)

    def _queues_of(self, now: datetime, clock: pl.DataFrame) -> Queues:
        lag = lag_of(self.recent.rows(now, MINUTE))
        rows = split_rows(self.recent.rows(now, 2 * (MINUTE + lag)), clock=clock, infer=False).rows
        since = self.recent.known_since()
        return queues(rows, now, lag, by=self._choice.by, where=self._choice.where, log_begin=since)

    def _about_logs(self) -> Iterator[str]:
        for follower in self.followers:
            if follower.missing:
                yield f"{short_name(follower.name)}: no such file; reading starts when it is created."
            elif follower.ended:
                yield f"{short_name(follower.name)}: ended; no more lines will arrive."
        if self.behind > READ_BYTES:
            yield f"{self.behind >> 20} MB of the logs are not read yet: they grow faster than they are read."

    def _notes(self, clock: pl.DataFrame, windows: Mapping[str, Figures], now: datetime) -> Iterator[str]:
        records = self.recent.records
        if records.read and not records.accepted:
            foreign = format_of_rejects(records)
            which = f" (this is {foreign.name})" if foreign else ""
            lines = counted(records.read, "line")
            yield f"None of {lines} is a record{which}; sojourn doctor reports what the log lacks."
        if self.ahead.sentence:
            yield self.ahead.sentence
        if self.recent.full is not None:
            span = duration((now - self.recent.full).total_seconds())
            yield f"Only {counted(len(self.recent), 'request is', 'requests are')} held: those of the last {span}."
        determined = windows["10m"].determined
        if determined is not None and determined < SPEAKING:
            yield (
                f"{percent(1 - determined)} of the answers have no service time from the app: their queueing delay and "
                "service time are unknown."
            )
            yield "sojourn infer looks for the queue in the log's own times, if these are those of a proxy."
        if self.recent.duplicates:
            repeated = counted(self.recent.duplicates, "repeated record was", "repeated records were")
            yield f"{repeated} left out."
        doubtful = [row for row in clock.iter_rows(named=True) if row["requests"] >= FEW and not row["idle"]]
        if doubtful:
            worst = max(doubtful, key=lambda row: row["uncertainty"])
            others = f" and of {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
            yield (
                f"The clock of {printable(worst['upstream'], 40)}{others} is known only to "
                f"±{milliseconds(worst['uncertainty'])} ms: its queue was never empty."
            )


def _history(windows: Mapping[str, Figures], now: datetime) -> tuple[float | None, ...]:
    """Return the buckets until ``now``, oldest first; buckets of shorter windows are newer and take precedence."""
    last = int(now.timestamp() // BUCKET * BUCKET)
    means: dict[int, float | None] = {}
    for name in reversed(list(windows)):
        # A window begins within a bucket, whose value covers only a part.
        whole = now - timedelta(seconds=WINDOWS[name])
        means |= {begin: mean for begin, mean in windows[name].history.items() if begin >= whole.timestamp()}
    return tuple(means.get(last - int(BUCKET) * k) for k in reversed(range(BUCKETS)))


def watcher_of(
    logs: Sequence[str], *, from_start: bool = False, slo: float = SLO, form: LineFormat | Units | None = None
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


def read_once(
    logs: Sequence[str], wall: datetime, *, slo: float = SLO, form: LineFormat | Units | None = None
) -> Watcher:
    """Return a watcher that has read the last ten minutes of these logs once.

    Raises:
        SojournError: a log does not exist, or cannot be read.
    """
    refuse_endless(logs)
    watcher = watcher_of(logs, slo=slo, form=form)
    begun = time.monotonic()
    watcher.catch_up(wall)
    while watcher.piped:
        if watcher.poll():
            watcher.read(wall + timedelta(seconds=time.monotonic() - begun))
        else:
            time.sleep(PAUSE)
    return watcher
