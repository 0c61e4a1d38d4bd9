"""The format of the lines of a table: its delimiter, the places and units of its columns, and what it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sojourn.model.frame import APP, PROXY, WHOLE, LogFacts
from sojourn.readers.formats.line_format import LineFormat
from sojourn.readers.tables.roles import ISO, RELATIVE, ROLES, Column

FINE = 0.001  # s: of coarser instants or durations, no queue is inferred
UNIT_NAMES = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns", ISO: "dates"}


@dataclass(frozen=True)
class TableFormat(LineFormat):
    """The format of the lines of one table.

    Attributes:
        delimiter: between two cells.
        names: of all columns.
        columns: those with a role, each with its unit.
        instants: the step in which its instants count, s.
        durations: the same of its durations.
    """

    delimiter: str = ","
    names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    instants: float = 0.001
    durations: float = 0.001

    @cached_property
    def by_role(self) -> dict[str, Column]:
        """Role -> column."""
        return {column.role: column for column in self.columns}

    def place(self, name: str) -> int:
        """Return the place of a column, from 1."""
        return self.names.index(name) + 1

    def has(self, *names: str) -> bool:
        """Return whether it has a column for each of these fields."""
        return {*names} <= {ROLES[column.role].field for column in self.columns}

    @property
    def json(self) -> bool:
        """Whether its lines are JSON objects."""
        return False

    @cached_property
    def vantage(self) -> str:
        """What its times are seen from: ``PROXY``, ``WHOLE`` or ``APP`` (see ``sojourn.model.frame``)."""
        if "service" in self.by_role and not self.by_role.keys() & {"response", "wait"} and not self.spans:
            return APP
        return WHOLE if self.coarse else PROXY

    @property
    def spans(self) -> bool:
        """Whether its requests last from one instant to another."""
        return {"arrival", "end"} <= self.by_role.keys()

    @property
    def coarse(self) -> bool:
        """Whether its times are too coarse to infer a queue.

        Instants of whole seconds are fine enough if they are ends: the order of the lines is then that of the answers.
        """
        if self.durations > FINE:
            return True
        return self.instants > FINE and (self.instants < 1.0 or "arrival" in self.by_role)

    @cached_property
    def step(self) -> float:
        """The step in which the instant of a line counts, s: the end is known to it, or the beginning."""
        return max(self.instants, self.durations)

    @cached_property
    def lacks(self) -> tuple[str, ...]:
        """The fields that it does not have and no line can do without: none."""
        return ()

    def facts(self, source: str) -> LogFacts:
        """Return what there is to know about a table of this format."""
        mapping = tuple((column.name, _meaning(column)) for column in self.columns)
        return LogFacts(
            source, self.name, self.title, self.certainty, self.vantage, self.step, mapping, self.lacks, self.notes
        )


def _meaning(column: Column) -> str:
    meaning, unit = ROLES[column.role].meaning, column.unit
    if unit in RELATIVE:
        return f"{meaning} ({UNIT_NAMES[RELATIVE[unit]]} since the beginning of the trace)"
    return f"{meaning} ({UNIT_NAMES[unit]})" if unit else meaning
