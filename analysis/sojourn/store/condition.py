"""The condition of a store: its schema, the parts that its engine cannot read, and what is lost in it or before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sojourn.model.formatting import counted, iso
from sojourn.store.client import Store, plainly, rows
from sojourn.store.schema_state import STATE, compared

PARTS_VIEW = "views/broken_parts"
_PARTS = "SELECT table, name, reason FROM broken_parts ORDER BY table, name"
_APPLIED = "SELECT toUnixTimestamp64Milli(max(applied)) FROM schema_state"
_WEEKS = "SELECT DISTINCT toMonday(hour) AS week FROM records_received WHERE kind = 'requests' ORDER BY week"
# The sets of an hour take up to 1 MB each while they are compared, so there are as many at a time as a week has.
_LOST_REQUESTS = """
    SELECT source, sum(lost) FROM lost_records
    WHERE kind = 'requests' AND hour >= {week:Date} AND hour < {week:Date} + INTERVAL 7 DAY AND lost > 0
    GROUP BY source"""
_LOST_LETTERS = """
    SELECT source, sum(lost) FROM lost_records WHERE kind = 'dead_letters' AND lost > 0 GROUP BY source"""

_SPANS = """
    SELECT toUnixTimestamp(minute), service, sum(requests), sum(missing)
    FROM spans_missing WHERE minute > now() - INTERVAL 1 DAY
    GROUP BY minute, service HAVING sum(missing) > 0 ORDER BY service, minute"""


@dataclass(frozen=True)
class BrokenPart:
    """A part of a table that is in no answer.

    Attributes:
        table: the table; on a cluster, that of one machine.
        name: the part, as the folder ``detached`` of the table has it.
        reason: the engine's word for why, such as ``broken-on-start``; empty: it was detached by hand.
    """

    table: str
    name: str
    reason: str

    @property
    def plain_table(self) -> str:
        """The name of the table in a store of one machine."""
        return self.table.removesuffix("_local")


@dataclass(frozen=True)
class MissingSpans:
    """Requests of a minute whose spans are lost.

    Attributes:
        minute: its beginning, ISO 8601.
        service: the service, as the log has it.
        requests: requests of that minute whose app answered with the middleware's headers, on routes that emit spans.
        missing: those of them without a span, above the number that is usual.
    """

    minute: str
    service: str
    requests: int
    missing: int


def broken_parts(store: Store) -> list[BrokenPart]:
    """Return the parts that the engine has put aside.

    Raises:
        SojournError: the store failed.
    """
    with plainly(store, "reading which parts are put aside"):
        return [BrokenPart(*map(str, row)) for row in rows(store, _PARTS)]


def lost_records(store: Store) -> dict[str, int]:
    """Return source -> number of its records that arrived and are not stored, most first; of all hours.

    Raises:
        SojournError: the store failed, or cannot read a part of a table.
    """
    lost: dict[str, int] = {}
    with plainly(store, "comparing what arrived with what is stored"):
        results = [rows(store, _LOST_LETTERS)]
        results += [rows(store, _LOST_REQUESTS, {"week": week}) for (week,) in rows(store, _WEEKS)]
    for source, count in (row for result in results for row in result):
        lost[source] = lost.get(source, 0) + int(count)
    return dict(sorted(lost.items(), key=lambda each: (-each[1], each[0])))


def missing_spans(store: Store) -> list[MissingSpans]:
    """Return the minutes of the last day in which spans are missing, by service and time.

    Raises:
        SojournError: the store failed, or cannot read a part of a table.
    """
    with plainly(store, "comparing requests with spans"):
        return [
            MissingSpans(iso(datetime.fromtimestamp(minute, UTC)), str(service), int(requests), int(missing))
            for minute, service, requests, missing in rows(store, _SPANS)
        ]


def tables_of(parts: list[BrokenPart]) -> str:
    """Return the tables of parts with their numbers, as a phrase."""
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.table] = counts.get(part.table, 0) + 1
    return ", ".join(f"{counted(count, 'part')} of {table}" for table, count in counts.items())


def warnings(store: Store) -> Iterator[str]:
    """Yield sentences about what limits every answer of a store: an older or a later schema, parts put aside.

    Raises:
        SojournError: the store failed.
    """
    schema = compared(store)
    if STATE in schema.missing:
        yield f"The store has no schema of Sojourn: `sojourn store init {store.dsn}` creates it."
        return
    if schema.older:
        ((applied,),) = rows(store, _APPLIED)
        yield (
            f"The tables and views of the store are of another version, as applied on "
            f"{iso(datetime.fromtimestamp(applied / 1e3, UTC))} ({schema.older}). "
            f"`sojourn store init {store.dsn}` brings them up to date."
        )
    if schema.later:
        yield f"A later version of Sojourn has applied {', '.join(schema.later)}; this version does not use it."
    if PARTS_VIEW not in schema.missing and (parts := broken_parts(store)):
        yield (
            f"The store is damaged: its engine has put aside {tables_of(parts)}, and what they held is not in these "
            f"figures unless it was loaded again. `sojourn store doctor {store.dsn}` counts what is missing."
        )
