"""Which schema a store has, what arrives in it, and what to run where something is missing."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sojourn.model.dsn import Dsn
from sojourn.model.formatting import counted
from sojourn.store.client import Store, connect, plainly, rows
from sojourn.store.migrate import applied, migrations

# Version -> number of its last file. A store of none of them is between two.
VERSIONS = {"0.1.0": 104}
RECENT = "24 HOUR"
GAPS = '"SELECT * FROM line_gaps ORDER BY noticed"'


@dataclass
class Advice:
    """One thing to do: what is so, and the command."""

    what: str
    run: str


@dataclass
class StoreState:
    """What ``sojourn store doctor`` reports.

    Attributes:
        store: the address, without the password.
        schema: ``current``, ``none``, ``unknown``, or the version that a store of earlier files belongs to.
        missing, unknown, changed: files that the store has not applied, that only a later version has, and that differ
            from those of this version.
        lines: lines that arrived in the last 24 hours, by what they became: requests, dead_letters.
        missing_lines: lines that did not arrive, by the reconciliation; None: not known.
        typed_rows: rows of the last 24 hours from agents that still parse by themselves.
        advice: what to run; empty: nothing.
    """

    store: str
    schema: str
    missing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    missing_lines: int | None = None
    typed_rows: int = 0
    advice: list[Advice] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self)


def examine(dsn: str | Dsn) -> StoreState:
    """Examine a store without changing it.

    Raises:
        SojournError: the store cannot be opened, or failed.
    """
    with connect(dsn) as store:
        return state_of(store)


def state_of(store: Store) -> StoreState:
    """Examine an open store; see ``examine``."""
    known = applied(store)
    files = {m.name: m for m in migrations("cluster" if _clustered(store) else None)}
    state = StoreState(
        store.dsn,
        schema="none",
        missing=[name for name in files if name not in known],
        unknown=sorted(known.keys() - files.keys()),
        changed=[name for name, file in files.items() if known.get(name, file.checksum) != file.checksum],
    )
    if known:
        state.schema = _version(state, max(int(name.split("_")[0]) for name in known))
    _advise_schema(state)
    if state.schema == "current":
        _look_at_lines(store, state)
    return state


def _clustered(store: Store) -> bool:
    with plainly(store, "reading which tables there are"):
        return bool(rows(store, "EXISTS TABLE requests_local")[0][0])


def _version(state: StoreState, last: int) -> str:
    if state.unknown:
        return "unknown"
    if not state.missing:
        return "current"
    return next((version for version, number in VERSIONS.items() if last <= number), "between two versions")


def _advise_schema(state: StoreState) -> None:
    if state.schema == "none":
        state.advice.append(Advice("there is no schema in this store", f"sojourn store init {state.store}"))
    elif state.unknown:
        what = f"a later version has applied {', '.join(state.unknown)}; this one does not know these files"
        state.advice.append(Advice(what, "git pull && make setup"))
    elif state.missing:
        what = (
            f"the schema is of {state.schema}; {counted(len(state.missing), 'file')} of this version, from "
            f"{state.missing[0]} on, {'is' if len(state.missing) == 1 else 'are'} not applied. Rows are kept"
        )
        state.advice.append(Advice(what, f"sojourn store init {state.store}"))
    if state.changed:
        what = f"{', '.join(state.changed)} differ from the files that this store has applied; restore them"
        state.advice.append(Advice(what, "git checkout -- collector/clickhouse"))


def _look_at_lines(store: Store, state: StoreState) -> None:
    with plainly(store, "counting what arrived"):
        arrived = f"SELECT kind, sum(lines) FROM lines_received WHERE minute > now() - INTERVAL {RECENT} GROUP BY kind"  # noqa: S608 - a constant
        state.lines = {kind: int(count) for kind, count in rows(store, arrived)}
        missing = "SELECT sum(missing), count() FROM reconciliation"
        ((lost, hours),) = rows(store, missing)
        state.missing_lines = int(lost) if hours else None
        typed = f"SELECT count() FROM requests WHERE line_bytes > 0 AND ingested > now() - INTERVAL {RECENT}"  # noqa: S608 - a constant
        state.typed_rows = int(rows(store, typed)[0][0])
    if state.typed_rows:
        what = (
            f"{counted(state.typed_rows, 'row')} of the last 24 hours came from agents that parse lines themselves; "
            "they go on, and an agent of this version ships lines for less than a third of the processor time"
        )
        state.advice.append(Advice(what, "copy collector/vector/config to those agents and restart them"))
    if state.missing_lines:
        what = f"{counted(state.missing_lines, 'line')} did not arrive, though later lines of the same files did"
        state.advice.append(Advice(what, f"sojourn store query {state.store} {GAPS}"))
