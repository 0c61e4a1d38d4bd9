"""Which schema a store has, what arrives in it and is lost in it, and what to run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sojourn.model.dsn import Dsn
from sojourn.model.formatting import counted
from sojourn.store.agents import Agents
from sojourn.store.client import DamagedError, Store, connect, plainly, rows
from sojourn.store.condition import MissingSpans, broken_parts, missing_spans
from sojourn.store.damage import Advice, damage, without_spans
from sojourn.store.schema_state import STATE, compared

RECENT = "24 HOUR"
GAPS = '"SELECT * FROM line_gaps ORDER BY noticed"'


@dataclass
class StoreState:
    """What ``sojourn store doctor`` reports.

    Attributes:
        store: the address, without the password.
        schema: ``current``, ``none``, ``differs`` or ``later``.
        missing, changed, later: files of the schema, as in ``sojourn.store.schema_state.Comparison``.
        lines: lines that arrived in the last 24 hours, by what they became: requests, dead_letters.
        missing_lines: lines that the store lacks, though it has acknowledged them, later lines of their files
            arrived, or their file is not on the disk any more; None: not known.
        unread_bytes: bytes of logs that were written a minute before the last sample and are not read; None: no sample.
        silent: hosts whose logs were sampled within a day, and the seconds since the last sample arrived, if over 45 s.
        missing_spans: minutes of the last 24 hours in which requests have the app's headers and no span, though their
            service has spans.
        advice: what to run; empty: nothing.
    """

    store: str
    schema: str
    missing: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    missing_lines: int | None = None
    unread_bytes: int | None = None
    silent: dict[str, int] = field(default_factory=dict)
    missing_spans: list[MissingSpans] = field(default_factory=list)
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
        schema = compared(store)
        state = StoreState(store.dsn, "current", schema.missing, schema.changed, schema.later)
        if not (schema.missing or schema.changed or schema.later):
            _look_at_lines(store, state)
    init = f"sojourn store init {state.store}"
    if schema.later:
        state.schema = "later"
        what = f"a later version has applied {', '.join(schema.later)}; this one does not know these files"
        state.advice.append(Advice(what, "git pull && make setup"))
    elif STATE in schema.missing:
        state.schema = "none"
        state.advice.append(Advice("there is no schema in this store", init))
    elif schema.missing or schema.changed:
        state.schema = "differs"
        differing = schema.missing + schema.changed
        what = (
            f"{counted(len(differing), 'file')} of the schema, such as {differing[0]}, "
            f"{'differs from that' if len(differing) == 1 else 'differ from those'} of this version. Rows are kept"
        )
        state.advice.append(Advice(what, init))
    return state


def _look_at_lines(store: Store, state: StoreState) -> None:
    state.advice = damage(store)
    arrived = f"SELECT kind, sum(lines) FROM lines_received WHERE minute > now() - INTERVAL {RECENT} GROUP BY kind"  # noqa: S608 - a constant
    gaps = "SELECT sum(lines), (SELECT count() FROM line_runs) FROM line_gaps"
    try:
        with plainly(store, "counting what arrived"):
            state.lines = {kind: int(count) for kind, count in rows(store, arrived)}
            ((lost, runs),) = rows(store, gaps)
        state.missing_spans = missing_spans(store)
    except DamagedError:  # one of the parts that the advice is about
        return
    # Without a part of these, lines that arrived can look as if they had not.
    damaged = any(part.table.startswith(("line_runs", "log_files")) for part in broken_parts(store))
    state.missing_lines = int(lost) if runs and not damaged else None
    if state.missing_lines:
        what = f"{counted(state.missing_lines, 'line')} of the logs did not arrive"
        state.advice.append(Advice(what, f"sojourn store query {state.store} {GAPS}"))
    state.advice += without_spans(store, state.missing_spans)
    try:
        agents = Agents.of(store)
    except DamagedError:  # as above
        return
    state.silent = agents.silent
    state.unread_bytes = sum(agents.unread.values()) if agents.sampled else None
    state.advice += agents.advice(store)
