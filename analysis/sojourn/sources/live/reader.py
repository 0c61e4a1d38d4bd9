"""Read what is written to logs: poll, parse, hold the recent requests, and know the log's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.model.frame import Records
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.formats.units import Units
from sojourn.readers.record import EXPRESSIONS
from sojourn.sources.live.ahead import Ahead, AheadOfClock, AheadOfLog
from sojourn.sources.live.follow import READ_BYTES, FileFollower, Follower
from sojourn.sources.live.log_clock import ClockSteps, LogClock
from sojourn.sources.live.parsing import Parser
from sojourn.sources.live.recent import Recent
from sojourn.sources.live.tail import Tail

LITTLE = 1 << 20  # bytes
POLL_INTERVAL = 0.25  # s between two polls of the files; lines written and truncated in between are in a copy only


class LiveReader:
    """Logs that are being written, with their recent requests.

    Args:
        followers: of the logs.
        tails: start positions of the files that existed at the start.
        replay: the last record defines the current time.
        form: format of all logs; None: each log's own.
        recent: holds the requests; None: those of the last ten minutes.
        columns: read in addition, for ``on_rows``.
        expressions: column -> SQL, as ``EXPRESSIONS``.
        prepare: returns the rows that are held and received, from those that were parsed.
        on_rows: receives new rows that ``recent`` did not have yet.
        on_step: called when the local clock was set: what is held of before is dropped.
        elapsed: a clock that nothing sets, s.

    Attributes:
        recent: the requests held.
        followers: of the logs.
        clock: the log's time.
        ahead: the records from the future, which are not in ``recent``.
        lines: name of a log -> lines read.
    """

    def __init__(
        self,
        followers: Sequence[Follower],
        tails: Sequence[Tail] = (),
        *,
        replay: bool = False,
        form: LineFormat | Units | None = None,
        recent: Recent | None = None,
        columns: Sequence[str] = (),
        expressions: Mapping[str, str] = EXPRESSIONS,
        prepare: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows,
        on_rows: Callable[[pl.DataFrame], None] | None = None,
        on_step: Callable[[], None] | None = None,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.recent = Recent() if recent is None else recent
        self.followers = list(followers)
        self.clock = LogClock(replay=replay)
        self.ahead: Ahead = AheadOfLog() if replay else AheadOfClock(self.recent.span)
        self.lines: dict[str, int] = {}
        self._tails = list(tails)
        self._parser = Parser(form, columns, expressions)
        self._prepare = prepare
        self._on_rows = on_rows
        self._on_step = on_step
        self._elapsed = elapsed
        self._steps = ClockSteps(elapsed)
        self._pending: list[tuple[str, bytes]] = []
        self._caught_up = replay

    def close(self) -> None:
        """Close the logs."""
        for follower in self.followers:
            follower.close()

    @property
    def ended(self) -> bool:
        """Whether no more lines can arrive."""
        return all(follower.ended for follower in self.followers)

    @property
    def behind(self) -> int:
        """Bytes written and not read yet."""
        return self.unfetched + self._unparsed

    @property
    def unfetched(self) -> int:
        """Bytes written and not fetched yet."""
        return sum(follower.behind for follower in self.followers)

    @property
    def _unparsed(self) -> int:
        """Bytes fetched and not parsed yet."""
        return sum(len(lines) for _, lines in self._pending)

    @property
    def piped(self) -> bool:
        """Whether a pipe has not ended."""
        return any(not follower.ended for follower in self.followers if not isinstance(follower, FileFollower))

    def poll(self) -> int:
        """Fetch the lines written since the last poll without parsing them; return their size in bytes.

        Cheap, and best done often: lines written and truncated between two polls are in the copy of the log only.
        """
        if self._unparsed >= READ_BYTES:
            return 0
        batches = [(follower.name, lines) for follower in self.followers if (lines := follower.lines())]
        self._pending += batches
        return sum(len(lines) for _, lines in batches)

    def read(self, wall: datetime) -> None:
        """Parse the fetched lines; ``wall`` is the local time."""
        stepped = self._steps.stepped(wall) and not self.clock.replay
        if stepped:
            self._restart(wall)
        for tail in self._tails:
            if tail.since is not None:
                self.recent.covers_from(datetime.fromtimestamp(tail.since, UTC))
        pending, self._pending = self._pending, []
        tables, records = [], Records()
        for name in dict.fromkeys(name for name, _ in pending):
            # A line cut off by a rotation has no newline; what follows it begins on a line of its own.
            lines = [lines if lines.endswith(b"\n") else lines + b"\n" for log, lines in pending[:-1] if log == name]
            lines += [lines for log, lines in pending[-1:] if log == name]
            parsed, counts = self._parser.rows(b"".join(lines), name)
            tables += parsed
            records.add(counts)
            self.lines[name] = self.lines.get(name, 0) + counts.read
        every = self.ahead.without(pl.concat([self._parser.empty, *tables]), wall)
        if stepped:
            self.ahead.restart()  # those that were just read are of before
        rows = self.recent.add(self._prepare(every), records)
        if self._on_rows is not None and len(rows):
            self._on_rows(rows)
        live = self._caught_up or not any(isinstance(follower, FileFollower) for follower in self.followers)
        if len(every) and live:
            self.clock.observe(every.select(pl.col("time").max()).item(), wall)
        self.recent.forget(self.now(wall) if live else min(wall, self.recent.last or wall))

    def catch_up(self, wall: datetime, on_bytes: Callable[[int, int], None] | None = None) -> None:
        """Read all lines written so far; ``on_bytes`` receives the bytes read and the bytes left.

        ``wall``: the local time at the beginning.
        """
        done, begun = 0, self._elapsed()
        while size := self.poll():
            self.read(wall + timedelta(seconds=self._elapsed() - begun))
            done += size
            if on_bytes:
                on_bytes(done, self.behind)
            if size < LITTLE:  # lines that arrived meanwhile; there are always more
                break
        self._caught_up = True

    def _restart(self, wall: datetime) -> None:
        """Begin a new stretch: instants of before the step are on another clock."""
        self._tails.clear()
        self.recent.restart(wall)
        self.clock = LogClock()
        if self._on_step is not None:
            self._on_step()

    def now(self, wall: datetime) -> datetime:
        """Return the log's time at a local time."""
        if self.ended and self.recent.last is not None and self.clock.late is not None:
            return self.recent.last
        return self.clock.now(wall)
