"""The agents of a store: which are silent, and which logs they have not read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from sojourn.model.formatting import counted, duration, printable
from sojourn.store.client import Store, plainly, rows
from sojourn.store.damage import Advice

SILENT_S = 45  # s; a sample is due every ten
_SILENT = """
    SELECT host, dateDiff('second', max(arrived), now('UTC')) AS seconds FROM log_files
    WHERE file = '' AND arrived > now('UTC') - INTERVAL 1 DAY GROUP BY host ORDER BY host"""
_UNREAD = """
    SELECT source, sum(overdue) AS bytes FROM log_files_read WHERE overdue > 0
    GROUP BY source ORDER BY bytes DESC, source LIMIT 10"""
_FILES = '"SELECT * FROM log_files_read WHERE unread > 0"'


@dataclass(frozen=True)
class Agents:
    """What the samples of logs say of the agents that ship them.

    Attributes:
        sampled: there are samples of the last day.
        silent: seconds since the last sample of a host arrived, where these are over ``SILENT_S``.
        unread: by log, bytes that were written a minute before the last sample and are not read; the ten with the most.
    """

    sampled: bool
    silent: dict[str, int]
    unread: dict[str, int]

    @classmethod
    def of(cls, store: Store) -> Agents:
        """Read the samples of a store.

        Raises:
            SojournError: the store failed.
        """
        with plainly(store, "looking at the samples of the logs"):
            hosts = {str(host): int(seconds) for host, seconds in rows(store, _SILENT)}
            unread = {str(source): int(count) for source, count in rows(store, _UNREAD)}
        return cls(bool(hosts), {host: seconds for host, seconds in hosts.items() if seconds > SILENT_S}, unread)

    def advice(self, store: Store) -> list[Advice]:
        """Return what to run."""
        return [*self.about_silence(), *self.about_logs(store)]

    def about_silence(self) -> Iterator[Advice]:
        """Yield what to run on the hosts that are silent."""
        for host, seconds in self.silent.items():
            what = f"no sample of the logs of {printable(host)} has arrived for {duration(seconds)}"
            why = "Its agent does not run or cannot reach the store, or `sojourn store files` has ended there."
            yield Advice(what, "sojourn store files LOG --agent /var/lib/vector", why)

    def about_logs(self, store: Store) -> Iterator[Advice]:
        """Yield what to run about logs that are not read."""
        for source, count in self.unread.items():
            what = f"{counted(count, 'byte')} of {printable(source)} are older than a minute and not read"
            why = "They are lost if the file is removed before its agent reads it to its end."
            yield Advice(what, f"sojourn store query {quote(store.dsn)} {_FILES}", why)
