"""Reads what is new, forgets what is old, and tells what is known: once, or again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.model.formatting import counted, duration, milliseconds, percent, printable
from sojourn.model.verdict import SLO
from sojourn.readers.foreign_logs import format_of_rejects
from sojourn.watch.clock import LogClock
from sojourn.watch.figures import BUCKET, Figures, clock_of, figures, split_by
from sojourn.watch.follow import READ_BYTES, FileFollower, Follower
from sojourn.watch.pace import Paced
from sojourn.watch.parsing import Parser
from sojourn.watch.queues import MINUTE, Queues, lag_of, queues
from sojourn.watch.recent import EMPTY, SPAN, Recent
from sojourn.watch.tail import Tail
from sojourn.watch.view import BUCKETS, WINDOWS, View, short_name

LITTLE = 1 << 20  # bytes
LOOK = 0.25  # s between two looks at the files: what is written and truncated in between is lost
SHORTEST = 1.0  # s: a rate is not told of less
FEW = 100  # requests from which on it is told how well a clock is known
SPEAKING = 0.5  # share of the answers on which the app must say what it did, or a note says that it does not
SHARES = {"now": 0.1, "1m": 0.04, "10m": 0.05, "queues": 0.04, "clock": 0.02}
"""Of one processor: what each may take where there is much to compute."""
OLD = SPAN  # s: of a log that has been silent longer, its own end is looked at


@dataclass(frozen=True)
class Choice:
    """What is asked for: the column of the groups, and a filter (empty: none)."""

    by: str = "route"
    where: str = ""


class Watcher:
    """Logs that are being written, and what is known of their last ten minutes.

    Args:
        followers: of the logs.
        tails: how those were begun that were there from the beginning.
        replay: the log's own last instant is now.
        slo: as for ``sojourn.split``, s.
    """

    def __init__(
        self, followers: Sequence[Follower], tails: Sequence[Tail] = (), *, replay: bool = False, slo: float = SLO
    ) -> None:
        self.recent = Recent()
        self._followers = list(followers)
        self._tails = list(tails)
        self._parser = Parser()
        self._clock = LogClock(replay=replay)
        self._slo = slo
        self._pending: list[bytes] = []
        self._caught_up = replay
        self._choice = Choice()
        self._clocks = Paced(self._clocks_of, SHARES["clock"])
        self._windows = {name: Paced(self._figures, SHARES[name]) for name in WINDOWS}
        self._queues = Paced(self._queues_of, SHARES["queues"])

    def close(self) -> None:
        """Let go of the logs."""
        for follower in self._followers:
            follower.close()

    @property
    def ended(self) -> bool:
        """Nothing will ever come again."""
        return all(follower.ended for follower in self._followers)

    @property
    def behind(self) -> int:
        """Bytes there are that were not read yet."""
        return sum(follower.behind for follower in self._followers) + sum(map(len, self._pending))

    @property
    def piped(self) -> bool:
        """Something is piped in that has not ended."""
        return any(not follower.ended for follower in self._followers if not isinstance(follower, FileFollower))

    def look(self) -> int:
        """Take in what was written since the last look, without reading it yet; returns its bytes.

        Cheap, and best done often: what is written into a file and truncated between two looks is lost.
        """
        if sum(map(len, self._pending)) >= READ_BYTES:
            return 0
        found = [lines for follower in self._followers if (lines := follower.lines())]
        self._pending += [lines if lines.endswith(b"\n") else lines + b"\n" for lines in found[:-1]] + found[-1:]
        return sum(map(len, found))

    def read(self, wall: datetime) -> None:
        """Read what was taken in."""
        for tail in self._tails:
            if tail.since is not None:
                self.recent.known_from(datetime.fromtimestamp(tail.since, UTC))
        lines, self._pending = b"".join(self._pending), []
        tables, records = self._parser.rows(lines)
        self.recent.add(pl.concat([EMPTY, *tables]), records)
        live = self._caught_up or not any(isinstance(follower, FileFollower) for follower in self._followers)
        if tables and live:
            self._clock.saw(pl.concat(tables).select(pl.col("time").max()).item(), wall)
        self.recent.forget(self.now(wall) if live else min(wall, self.recent.last or wall))

    def catch_up(self, wall: datetime, on_bytes: Callable[[int, int], None] | None = None) -> None:
        """Read what is there by now; ``on_bytes`` is told how much was read, and how much is left."""
        done = 0
        while size := self.look():
            self.read(wall)
            done += size
            if on_bytes:
                on_bytes(done, self.behind)
            if size < LITTLE:  # what came while the last of it was read, and there is always more of that
                break
        self._caught_up = True

    def now(self, wall: datetime) -> datetime:
        """The log's time."""
        if self.ended and self.recent.last is not None and self._clock.late is not None:
            return self.recent.last
        return self._clock.now(wall)

    def last_words(self, wall: datetime) -> datetime:
        """The log's time, or its own end where it has been silent for long."""
        last = self.recent.last
        return last if last is not None and (wall - last).total_seconds() > OLD else wall

    def view(self, choice: Choice, wall: datetime, now: datetime | None = None, *, with_queues: bool = True) -> View:
        """What is known; long windows are computed less often than short ones when there is much to compute.

        Args:
            choice: groups and filter.
            wall: this machine's time.
            now: the log's; None: as it follows from this machine's.
            with_queues: also tell the queues, which takes longest the first time.
        """
        following = now is None
        late = self._clock.late if following else None
        now = self.now(wall) if now is None else now
        if choice != self._choice:
            self._choice = choice
            for paced in self._windows.values():
                paced.outdated()
            self._queues.outdated()
        clock = self._clocks.get(now)
        windows = {name: paced.get(now, WINDOWS[name], clock) for name, paced in self._windows.items()}
        return View(
            at=now,
            names=tuple(follower.name for follower in self._followers),
            by=choice.by,
            where=choice.where,
            windows=windows,
            queues=self._queues.get(now, clock) if with_queues else None,
            history=_history(windows, now),
            records=self.recent.records,
            held=len(self.recent),
            last=self.recent.last,
            age=None if self.recent.last is None else (wall - self.recent.last).total_seconds(),
            late=late,
            notes=(*(self._about_logs() if following else ()), *self._notes(clock, windows, now)),
        )

    def _clocks_of(self, now: datetime) -> pl.DataFrame:
        return clock_of(self.recent.rows(now, SPAN))

    def _covered(self, now: datetime, seconds: float) -> float:
        """How much of a window the log is known for, s."""
        return min(seconds, max((now - self.recent.known_since()).total_seconds(), SHORTEST))

    def _figures(self, now: datetime, seconds: float, clock: pl.DataFrame) -> Figures:
        rows = split_by(self.recent.rows(now, seconds), clock)
        return figures(rows, self._covered(now, seconds), self._choice.by, self._choice.where, self._slo)

    def _queues_of(self, now: datetime, clock: pl.DataFrame) -> Queues:
        lag = lag_of(self.recent.rows(now, MINUTE))
        rows = split_by(self.recent.rows(now, 2 * (MINUTE + lag)), clock)
        since = self.recent.known_since()
        return queues(rows, now, lag, by=self._choice.by, where=self._choice.where, known_since=since)

    def _about_logs(self) -> Iterator[str]:
        for follower in self._followers:
            if follower.missing:
                yield f"{short_name(follower.name)}: no such file; it is read as soon as it is there."
            elif follower.ended:
                yield f"{short_name(follower.name)}: nothing more will come."
        if self.behind > READ_BYTES:
            yield f"{self.behind >> 20} MB of the logs are not read yet: they grow faster than they are read."

    def _notes(self, clock: pl.DataFrame, windows: Mapping[str, Figures], now: datetime) -> Iterator[str]:
        records = self.recent.records
        if records.read and not records.accepted:
            foreign = format_of_rejects(records)
            which = f" (this is {foreign.name})" if foreign else ""
            lines = counted(records.read, "line")
            yield f"Not one of {lines} is a record{which}; sojourn doctor says what the log lacks."
        if self.recent.full is not None:
            kept = duration((now - self.recent.full).total_seconds())
            yield f"Only {counted(len(self.recent), 'request is', 'requests are')} held: those of the last {kept}."
        known = windows["10m"].known
        if known is not None and known < SPEAKING:
            yield (
                f"{percent(1 - known)} of the answers came without the app's service time: waiting and working are "
                "unknown there."
            )
        if self.recent.duplicates:
            again = counted(self.recent.duplicates, "record that came again counts", "records that came again count")
            yield f"{again} once."
        doubtful = [row for row in clock.iter_rows(named=True) if row["requests"] >= FEW and not row["idle"]]
        if doubtful:
            worst = max(doubtful, key=lambda row: row["uncertainty"])
            others = f" and of {len(doubtful) - 1} more" if len(doubtful) > 1 else ""
            yield (
                f"The clock of {printable(worst['upstream'], 40)}{others} is known to "
                f"±{milliseconds(worst['uncertainty'])} ms only: the queue there was never seen empty."
            )


def _history(windows: Mapping[str, Figures], now: datetime) -> tuple[float | None, ...]:
    """The buckets until ``now``, the oldest first; those of shorter windows are newer than those of longer ones."""
    last = int(now.timestamp() // BUCKET * BUCKET)
    told: dict[int, float | None] = {}
    for name in reversed(list(windows)):
        # A window begins within a bucket, which is told in part only.
        whole = now - timedelta(seconds=WINDOWS[name])
        told |= {begin: mean for begin, mean in windows[name].history.items() if begin >= whole.timestamp()}
    return tuple(told.get(last - int(BUCKET) * k) for k in reversed(range(BUCKETS)))
