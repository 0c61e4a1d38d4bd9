"""The selected requests: by arrival, by a time of theirs, and by values; or the slow requests of the incident."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from sojourn.analyses.audit.incident import incident_of
from sojourn.model.arrays import Bools
from sojourn.model.errors import ArgumentError, SojournError
from sojourn.model.formatting import counted, duration, iso, listed, printable
from sojourn.model.frame import INSTANT, SCHEMA
from sojourn.model.instants import Instant, instant_of, limit_of
from sojourn.model.measures import Measures
from sojourn.timeline.classes import having
from sojourn.timeline.ordered_rows import OrderedRows

TIMES = {"response_time": "request_time", "queueing_delay": "queueing_delay", "service_time": "service_time"}
"""Name of a time -> its column."""

QUANTILE = 0.9  # of the requests outside the incident: slower ones inside it are selected
HOW = (
    "select by --begin and --end (arrival), by --above and --below (seconds of --of), or by --select COLUMN=VALUE; in "
    "Python by begin, end, above, below and select"
)

Select = Mapping[str, Any] | None
"""Column -> value, or a list of values any of which is selected."""


@dataclass(frozen=True)
class Selection:
    """Which requests are selected; all conditions hold at once.

    Attributes:
        begin, end: arrivals in [begin, end); None: no limit.
        above, below: values of ``of`` in [above, below), s; None: no limit. Unknown values are not selected.
        of: a key of ``TIMES``.
        select: column -> values, any of which is selected.
        incident: whether the limits are those of the incident of the log.
    """

    begin: datetime | None = None
    end: datetime | None = None
    above: float | None = None
    below: float | None = None
    of: str = "response_time"
    select: Mapping[str, Sequence[object]] = field(default_factory=dict)
    incident: bool = False

    @classmethod
    def of_options(
        cls, begin: Instant, end: Instant, above: float | None, below: float | None, of: str, select: Select
    ) -> Selection:
        """Build a selection from the arguments of ``sojourn.contrast``.

        Raises:
            ArgumentError: a limit is no instant or no number, the limits select nothing, or ``of`` is no time.
        """
        if of not in TIMES:
            raise ArgumentError(f"of: {of!r} is not one of {', '.join(TIMES)}")
        first, last = limit_of(begin, "begin"), limit_of(end, "end")
        if first is not None and last is not None and first >= last:
            raise ArgumentError(f"begin: {iso(first)} is not before the end, {iso(last)}")
        low, high = _seconds(above, "above"), _seconds(below, "below")
        if low is not None and high is not None and low >= high:
            raise ArgumentError(f"above: {low:g} is not less than below, {high:g}")
        values = {column: _values(column, value) for column, value in (select or {}).items()}
        return cls(first, last, low, high, of, values)

    @property
    def is_empty(self) -> bool:
        """Whether nothing selects."""
        return all(each is None for each in (self.begin, self.end, self.above, self.below)) and not self.select

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it uses."""
        return tuple(dict.fromkeys(("start", TIMES[self.of], *self.select)))

    def chosen(self, rows: pl.DataFrame | OrderedRows) -> Bools:
        """Return which rows are selected; ``rows``: with ``columns``."""
        table = pl.DataFrame({name: rows[name] for name in ("start", TIMES[self.of])})
        value, condition = pl.col(TIMES[self.of]), pl.lit(value=True)
        if self.begin is not None:
            condition &= pl.col("start") >= pl.lit(self.begin, INSTANT)
        if self.end is not None:
            condition &= pl.col("start") < pl.lit(self.end, INSTANT)
        if self.above is not None:
            condition &= value >= self.above
        if self.below is not None:
            condition &= value < self.below
        chosen = table.with_columns(chosen=condition.fill_null(value=False))["chosen"].to_numpy().copy()
        for column, values in self.select.items():
            any_of = np.zeros(len(rows), np.bool_)
            for each in values:
                any_of |= having(rows, {column: each})
            chosen &= any_of
        return chosen

    @property
    def clause(self) -> str:
        """The conditions as a clause: "arrived from … and have a response time of 0.5 s or more"."""
        parts = [f"arrived {self._interval}"] if self._interval else []
        name = self.of.replace("_", " ")
        limits = [f"{duration(self.above)} or more"] if self.above is not None else []
        limits += [f"less than {duration(self.below)}"] if self.below is not None else []
        parts += [f"have a {name} of {listed(limits)}"] if limits else []
        parts += [
            f"have {printable(column, 60)} = {' or '.join(printable(value, 60) for value in values)}"
            for column, values in self.select.items()
        ]
        return listed(parts)

    @property
    def _interval(self) -> str:
        if self.begin is not None and self.end is not None:
            return f"from {iso(self.begin)} to {iso(self.end)}"
        if self.begin is not None:
            return f"from {iso(self.begin)} on"
        return f"before {iso(self.end)}" if self.end is not None else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the ``selection`` object of the JSON output."""
        return {
            "begin": self.begin and iso(self.begin), "end": self.end and iso(self.end), "above": self.above,
            "below": self.below, "of": self.of,
            "select": {column: list(values) for column, values in self.select.items()}, "incident": self.incident,
        }  # fmt: skip


def incident_selection(measures: Measures, rows: pl.DataFrame, of: str) -> Selection:
    """Return the selection of the slow requests of the incident: those above the p90 of all others.

    Args:
        measures: aggregates of the requests.
        rows: the requests, with the columns of ``TIMES`` and ``start``.
        of: the time that is compared, a key of ``TIMES``.

    Raises:
        SojournError: the log has no incident.
    """
    first, last = rows["start"].min(), rows["start"].max()
    incident = incident_of(measures, first, last, len(rows)) if len(rows) else None  # type: ignore[arg-type]
    if incident is None:
        raise SojournError(f"nothing is selected, and the log has no incident: {HOW}")
    inside = pl.col("start").is_between(incident.begin, incident.end, closed="left")
    usual = rows.filter(~inside)[TIMES[of]].quantile(QUANTILE, "linear")
    return Selection(begin=incident.begin, end=incident.end, above=usual, of=of, incident=True)


def checked_choice(chosen: Bools, selection: Selection, values: pl.Series) -> Bools:
    """Check that some requests are selected, and others not.

    Args:
        chosen: which requests are selected.
        selection: how.
        values: of the time that the selection compares.

    Raises:
        SojournError: no request is selected, or all are.
    """
    if not chosen.any():
        limits = selection.above is not None or selection.below is not None
        if limits and values.null_count() == len(values):
            name = selection.of.replace("_", " ")
            raise SojournError(f"no request is selected: the {name} of every request is unknown; choose another --of")
        number = counted(len(chosen), "request")
        raise SojournError(f"no request is selected: of {number}, none is among those that {selection.clause}")
    if chosen.all():
        number = counted(len(chosen), "request is", "requests are")
        raise SojournError(f"{number} selected, and there is no rest to compare with: {HOW}")
    return chosen


def _seconds(value: float | None, name: str) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{name}: {printable(repr(value), 100)} is not a number of seconds")
    return number


def _values(column: str, value: object) -> tuple[object, ...]:
    values = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    if not values:
        raise ArgumentError(f"select: no value of {printable(column, 60)} is selected")
    if SCHEMA.get(column) == INSTANT:
        return tuple(instant_of(each, column) for each in values)
    return values
