"""What is lost in a store, and the commands that bring it back; and spans that are lost on the way to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from sojourn.model.formatting import counted, printable
from sojourn.store.client import DamagedError, Store
from sojourn.store.condition import BrokenPart, MissingSpans, broken_parts, lost_records, tables_of

MOST_FILES = 5  # with a command each; others are counted
MOST_MINUTES = 5  # in a sentence about missing spans; others are counted
LOADED = ("requests", "dead_letters")  # their records are compared with those that arrived
ARRIVALS = "records_received"  # what they are compared with
# Other tables: what an answer lacks without a part, and the command that brings it back; empty: nothing does.
_REMEDIES = {
    "spans": (
        "Spans are missing: of requests that the app did not answer in time, the work is not known.",
        "sojourn store load {dsn} LOG --spans SPANS",
    ),
    "line_runs": (
        "The view line_gaps shows lines as missing that are stored: without the part it does not know that they "
        "arrived. The command begins the search for missing lines from now on.",
        "TRUNCATE TABLE {table}",
    ),
    "lines_received": ("Counts of lines that arrived are too low.", ""),
    ARRIVALS: ("Whether records of those hours are lost is not known.", ""),
    **dict.fromkeys(
        ("rollup_minute", "touched_minutes", "clock_bounds"),
        ("Dashboards show too little. Loading the logs of that time again computes its minutes again.",
         "sojourn store load {dsn} LOG"),
    ),
    **dict.fromkeys(
        ("blame_minute", "held_minute", "explained_minutes"),
        ("Blame and held workers of some minutes are missing.", "sojourn store explain {dsn} --since T --until T"),
    ),
    "capacity": ("A stored capacity is missing.", "sojourn store capacity {dsn} SERVICE RATE"),
    "schema_state": ("Which files of the schema the store has is not known.", "sojourn store init {dsn}"),
}  # fmt: skip
_OTHER = ("Rows of that time are missing.", "")


@dataclass
class Advice:
    """One thing to do.

    Attributes:
        what: what is so, as a clause.
        run: the command.
        why: what it means, in sentences; empty: ``what`` says it.
        loses: something is missing in answers until the command has run.
    """

    what: str
    run: str
    why: str = ""
    loses: bool = True


def damage(store: Store) -> list[Advice]:
    """Return what is lost in a store with a schema of this version, and what to run; empty: nothing.

    Raises:
        SojournError: the store failed.
    """
    parts = broken_parts(store)
    try:
        lost = lost_records(store)
    except DamagedError as error:
        return [unreadable(store, error), *_put_aside(store, parts, compared=False)]
    return [*_of_files(store, lost, parts), *_put_aside(store, parts, compared=not lost)]


def unreadable(store: Store, error: DamagedError) -> Advice:
    """Return what to do about a part that the engine cannot read, and has not put aside."""
    what = f"the engine cannot read the part {error.part} of the table {error.table}"
    why = (
        "Every answer that needs the part fails. The command puts it aside; run this doctor again afterwards: it names "
        "the files whose records were in it, so that they can be loaded again."
    )
    return Advice(what, _changing(store, f"ALTER TABLE {_name(store, error.table)} DETACH PART '{error.part}'"), why)


def without_spans(store: Store, minutes: list[MissingSpans]) -> Iterator[Advice]:
    """Yield a sentence for each service whose spans are missing, with the query that lists its minutes."""
    by_service: dict[str, list[MissingSpans]] = {}
    for each in minutes:
        by_service.setdefault(each.service, []).append(each)
    why = (
        "The app answered these requests and emits spans, so theirs were lost on the way to the store: the agent was "
        "killed or its disk was full, or the app's exporter discarded them. No command brings them back. Waits and "
        "service times are in the log and do not change; work for clients that had gone is too low in these minutes."
    )
    for service, of_service in by_service.items():
        total = sum(each.missing for each in of_service)
        texts = [f"{each.minute}: {each.missing:,}" for each in of_service[:MOST_MINUTES]]
        if len(of_service) > MOST_MINUTES:
            texts.append(f"{counted(len(of_service) - MOST_MINUTES, 'more minute')}")
        of = f"of the service {printable(service, 100)} " if service else ""
        what = f"{counted(total, 'request')} {of}of the last day {_is(total)} without a span ({', '.join(texts)})"
        query = '"SELECT * FROM spans_missing WHERE missing > 0 ORDER BY minute"'
        yield Advice(what, f"sojourn store query {quote(store.dsn)} {query}", why)


def _of_files(store: Store, lost: dict[str, int], parts: list[BrokenPart]) -> Iterator[Advice]:
    """Yield the files of which records are lost; a file that arrived by a shipper is on the shipper's machine."""
    of_loaded = [part for part in parts if part.plain_table in LOADED]
    deleted = "rows were deleted, or their files are gone"
    cause = f"the engine has put aside {tables_of(of_loaded)}" if of_loaded else deleted
    why = (
        f"All of them arrived: the file and its shipper are not at fault, but the store ({cause}). Loading the file "
        "again stores what is missing, and counts the rest once."
    )
    for source, count in list(lost.items())[:MOST_FILES]:
        host, _, file = source.rpartition(":") if ":/" in source else ("", "", source)
        on = f" (on {printable(host, 100)})" if host else ""
        what = f"{counted(count, 'record')} of {printable(file, 200)}{on} arrived and {_is(count)} not stored any more"
        yield Advice(what, f"sojourn store load {quote(store.dsn)} {quote(file) if file else 'FILE'}", why)
    if len(lost) > MOST_FILES:
        names = '"SELECT source, sum(lost) FROM reconciliation WHERE lost > 0 GROUP BY source ORDER BY 2 DESC"'
        what = f"records of {counted(len(lost) - MOST_FILES, 'more file')} are not stored any more"
        yield Advice(what, f"sojourn store query {quote(store.dsn)} {names}", why)


def _put_aside(store: Store, parts: list[BrokenPart], *, compared: bool) -> Iterator[Advice]:
    """Yield the parts that are put aside, by table.

    Args:
        store: the store.
        parts: the parts.
        compared: of the tables whose records are compared, none is lost.
    """
    by_table: dict[str, list[BrokenPart]] = {}
    for part in parts:
        by_table.setdefault(part.table, []).append(part)
    uncertain = any(part.plain_table == ARRIVALS for part in parts)
    for table, of_table in by_table.items():
        plain = of_table[0].plain_table
        drop = _changing(store, *(_dropping(store, part) for part in of_table))
        reasons = ", ".join(sorted({part.reason or "detached by hand" for part in of_table}))
        count = counted(len(of_table), "part")
        what = f"{count} of the table {table} {_is(len(of_table))} put aside ({printable(reasons, 100)})"
        if plain in LOADED:
            if uncertain:
                why = "Whether their records are stored is not known. Load the logs of that time again."
                yield Advice(what, f"sojourn store load {quote(store.dsn)} LOG\n{drop}", why)
            elif compared:
                yield Advice(what, drop, "Every record that arrived is stored: the parts can be dropped.", loses=False)
            continue
        why, command = _REMEDIES.get(plain, _OTHER)
        if command.startswith("TRUNCATE"):
            command = _changing(store, command.format(table=_name(store, table)))
        run = command.format(dsn=quote(store.dsn)) if command.startswith("sojourn") else command
        yield Advice(what, f"{run}\n{drop}" if run else drop, why)


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _name(store: Store, table: str) -> str:
    return f"{store.database}.{table}"


def _dropping(store: Store, part: BrokenPart) -> str:
    table = _name(store, part.table)
    return f"ALTER TABLE {table} DROP DETACHED PART '{part.name}' SETTINGS allow_drop_detached = 1"


def _changing(store: Store, *statements: str) -> str:
    """Return the commands that run statements which change a store: `sojourn store query` only reads."""
    if store.embedded:
        # The engine reads ./config.xml when it is imported.
        code = 'import os, sys; os.chdir("/"); import chdb; chdb.connect(sys.argv[1]).query(sys.argv[2])'
        run = f"{quote(sys.executable)} -c {quote(code)} {quote(str(Path(store.address.path).resolve()))}"
    else:
        secure = " --secure" if store.address.scheme == "clickhouses" else ""
        run = f"clickhouse-client --host {store.address.host}{secure} --query"
    return "\n".join(f'{run} "{statement}"' for statement in statements)
