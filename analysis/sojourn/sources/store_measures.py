"""The aggregates of a split, computed by a store, which sends sums and figures but no requests."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from sojourn.components.clock_offsets.correction import Lines
from sojourn.components.clock_offsets.offsets import BOUNDS_SCHEMA, PAIR, clocks
from sojourn.model.components import COMPONENTS, QUEUE_SOURCES
from sojourn.model.coverage import COUNTS, Coverage, waits_of
from sojourn.model.evidence import NO_WAYS, WAY_ROWS, Ways, evidence_of, is_way_possible, ways_of
from sojourn.model.figures import FIGURES, QUANTILES, Summary
from sojourn.model.formatting import counted
from sojourn.model.frame import Selection
from sojourn.model.instants import epoch_us
from sojourn.model.measures import EDGE, GROUP_COLUMNS, INSTANTS, ROUNDING, STATUS_CLASSES, SUMMARY_COLUMNS, Means, Row
from sojourn.model.one_worker import Overlap
from sojourn.sources.coverage_rows import coverage_of
from sojourn.sources.store_chart_measures import ChartMeasures
from sojourn.store import statements as sql
from sojourn.store.client import Store, connect, in_utc, plainly

# Quantiles are exact up to this many requests, which takes about 250 bytes of the store's memory a request.
EXACT_ROWS = 5_000_000
BEFORE_ALL = -(1 << 62)  # us


class StoreMeasures(ChartMeasures):
    """``Measures`` of the requests a store holds; attributes as there.

    Args:
        dsn: the store; connected to for every question, or once for all inside ``session``.
        selection: which requests.
        clocks: the requests whose clock offsets are used; None: all that the conditions select from.
        exact_rows: quantiles are exact up to this many requests; beyond, of values cut off after four digits.
    """

    def __init__(
        self, dsn: str, selection: Selection, *, exact_rows: int = EXACT_ROWS, clocks: StoreMeasures | None = None
    ) -> None:
        self._dsn = dsn
        self._which = sql.chosen(selection)
        self._selection = selection
        self._clocks = clocks
        self._exact_rows = exact_rows
        self._open: Store | None = None

    @property
    def clock(self) -> pl.DataFrame:
        """See ``Measures``."""
        return self._offsets[0]

    @property
    def notes(self) -> list[str]:
        """See ``Measures``."""
        if self._exact:
            return []
        return [
            f"There are more than {counted(self._exact_rows, 'request')}: p50 to p99.9 are cut off after their fourth "
            "digit. Means, shares, sums, counts and maxima are exact."
        ]

    @contextmanager
    def session(self) -> Iterator[Store]:
        """Use one connection for every query inside."""
        if self._open is not None:
            yield self._open
            return
        with connect(self._dsn) as store, plainly(store, "splitting its requests"):
            self._open = store
            try:
                yield store
            finally:
                self._open = None

    def overall(self) -> Row:
        """See ``Measures``."""
        row = self._summary
        classes = (f"class/{each}" for each in STATUS_CLASSES)
        names = ("requests", "first", "last", "wasted", *(f"source/{s}" for s in QUEUE_SOURCES), "several", *classes)
        return {**{name: row[name] for name in names}, "upgraded": row["requests"] - row["served_requests"]}

    def figures(self) -> dict[str, Summary]:
        """See ``Measures``."""
        row = self._summary
        return {column: _summary(row, column) for column in ("request_time", *SUMMARY_COLUMNS)}

    def means(self, at_least: float | None = None) -> Means:
        """See ``Measures``."""
        if at_least is None:
            row = self._summary
            requests = row["served_requests"]
        else:
            means = sql.means(ways=self._ways)
            row = self._one("tail", {"means": means}, at_least=at_least, **sql.ways_parameters(self._ways))
            requests = row["requests"]
        components = {name: row[f"mean/{name}"] or 0.0 for name in COMPONENTS}
        return Means(requests, components, evidence_of(row), waits_of(requests, row))

    def grouped(self, group: str, limit: int) -> tuple[list[Row], int]:
        """See ``Measures``."""
        rows = self._rows("grouped", sql.group_parts(self._group_of(group), exact=self._exact), limit=limit)
        groups = []
        for row in rows:
            group_row = {group: row["value"], "requests": row["requests"], "share": row["share"]}
            for column in GROUP_COLUMNS:
                group_row |= {f"{column}/{figure}": value for figure, value in _summary(row, column).items()}
            groups.append(group_row)
        return groups, rows[0]["groups"] if rows else 0

    def grouped_each(self, groups: Sequence[str], limit: int) -> list[tuple[list[Row], int]]:
        """See ``Measures``."""
        return [self.grouped(group, limit) for group in groups]

    def checks(self) -> Row:
        """See ``Measures``."""
        row = self._summary
        return {
            **{f"negative/{name}": row[f"negative/{name}"] for name in COMPONENTS},
            "error": row["error"] or 0.0,
            "garbled": row["garbled"],
            "differ": row["differ"][0],
            "first": row["first_served"],
            "last": row["last_served"],
            "p99": _summary(row, "request_time")["p99"],
            "duplicates": None,
            **{name: value for name, value in row.items() if name.split("/")[0] in INSTANTS},
        }

    def between(self, begin: datetime, end: datetime) -> StoreMeasures:
        """See ``Measures``."""
        since, until = self._selection.since, self._selection.until
        selection = replace(
            self._selection,
            since=begin if since is None else max(begin, since),
            until=end if until is None else min(end, until),
        )
        part = StoreMeasures(self._dsn, selection, exact_rows=self._exact_rows, clocks=self)
        part._open = self._open
        return part

    def coverage(self) -> Coverage:
        """See ``Measures``."""
        schema = {"upstream": pl.String(), **dict.fromkeys(COUNTS, pl.Int64())}
        return coverage_of(pl.DataFrame([{name: row[name] for name in schema} for row in self._backends], schema))

    def phases(self, instant: str, tick: int) -> int:
        """See ``Measures``."""
        return int(self._one("phases", {"instant": sql.INSTANT_US[instant]}, tick=tick)["phases"])

    def little(self, begin: datetime, seconds: float) -> Row:
        """See ``Measures``."""
        row = self._one("little", begin=epoch_us(begin), seconds=seconds, edge=EDGE, rounding=ROUNDING)
        return {**row, "weight": row["weights"]}

    def windows(self, begin: datetime, end: datetime, count: int) -> pl.DataFrame:
        """See ``Measures``."""
        rows = self._rows("windows", begin=epoch_us(begin), end=epoch_us(end), count=count)
        schema = {"window": pl.Int64(), "arrivals": pl.Int64(), "response": pl.Float64()}
        return pl.DataFrame(rows, schema).rename({"response": "response time"})

    def backends(self, first: datetime) -> tuple[float, list[tuple[str | None, int, float]]]:
        """See ``Measures``."""
        rows = [row for row in self._backends if row["held_until"] is not None]  # of some request handed to an app
        seconds = max(((row["held_until"] - first).total_seconds() for row in rows), default=0.0)
        return seconds, [(row["upstream"], row["workers"], row["busy"]) for row in rows]

    def overlaps(self) -> dict[str | None, Overlap]:
        """See ``Measures``."""
        rows = self._rows("overlaps", sql.overlap_parts())
        return {row["upstream"]: Overlap(row["most"], row["share"]) for row in rows}

    @functools.cached_property
    def _backends(self) -> list[Row]:
        return self._rows("backends")

    @functools.cached_property
    def _counted(self) -> Row:
        return self._query(sql.of_requests("counted", self._which, once=False))[0]

    @functools.cached_property
    def _exact(self) -> bool:
        return bool(self._counted["requests"] <= self._exact_rows)

    @functools.cached_property
    def _spans(self) -> bool:
        (row,) = self._query(sql.of_window("spans_counted", self._which))
        return any(row.values())

    @functools.cached_property
    def _offsets(self) -> tuple[pl.DataFrame, dict[str, object]]:
        """Return the clock table, and the parameters that the statements need of it: those of all requests."""
        if self._clocks is not None:
            return self._clocks._offsets
        if self._selection.where:
            with self.session() as store:
                whole = self._of_window
                whole._open = store
                return whole._offsets
        numbers = pl.DataFrame(schema={**dict.fromkeys(PAIR, pl.String()), "pair": pl.UInt64()})

        def ask(width: int, within: pl.DataFrame | None) -> pl.DataFrame:
            nonlocal numbers
            parameters: dict[str, object] = {}
            if within is not None:
                selected = within.join(numbers, on=list(PAIR), nulls_equal=True)
                names = {"within": "pair", "within_begin": "begin", "within_end": "end"}
                parameters = {name: selected[column].to_list() for name, column in names.items()}
            part = "1" if within is None else sql.WITHIN
            statement = sql.statement("clock_bounds", self._which, self._spans, within=part)
            rows = self._query(statement, pairs=[], offsets=[], tolerances=[], width=width, **parameters)
            bounds = pl.DataFrame(
                [{**row, "coarse": bool(row["coarse"])} for row in rows], {**BOUNDS_SCHEMA, "pair": pl.UInt64()}
            )
            if within is None:
                numbers = bounds.select(*PAIR, "pair").unique()
            return bounds.drop("pair")

        ends = (self._counted["first"], self._counted["last"]) if self._counted["requests"] else (None, None)
        clock = clocks(ask, *ends)
        pairs = clock.select(PAIR).join(numbers, on=list(PAIR), nulls_equal=True, how="left", maintain_order="left")
        return clock, {"pairs": pairs["pair"].to_list(), **_lines(clock)}

    @functools.cached_property
    def _of_window(self) -> StoreMeasures:
        """The same of all requests, without conditions."""
        return StoreMeasures(self._dsn, replace(self._selection, where={}), exact_rows=self._exact_rows)

    @property
    def requests_of_window(self) -> int:
        """Number of requests that conditions select from."""
        return int((self._of_window if self._selection.where else self)._counted["requests"])

    def _group_of(self, group: str) -> str:
        """Return the expression for a group: of routes, with their service, where there are several."""
        if group != "route":
            return group
        return sql.route_in_store("split", several=self._services > 1)

    @functools.cached_property
    def _services(self) -> int:
        (row,) = self._query(sql.over_chosen("services", self._which, taken="1"))
        return int(row["services"])

    @functools.cached_property
    def _summary(self) -> Row:
        parts = sql.summary_parts(exact=self._exact, ways=self._ways)
        row = self._one("summary", parts, **sql.ways_parameters(self._ways))
        if not row["requests"]:  # the smallest of no instants is not an instant
            row |= dict.fromkeys(("first", "last"))
        if not row["served_requests"]:
            row |= dict.fromkeys(("first_served", "last_served", "shortest", "error", "request_time/max"))
        return row

    @functools.cached_property
    def _ways(self) -> Ways:
        """The ways to backends, where a clock's offset is not known well: only there can a way be long."""
        if not is_way_possible(self.clock):
            return NO_WAYS
        rows = self._rows("idle_ways", sql.idle_ways_parts())
        return ways_of(pl.DataFrame(rows, WAY_ROWS), self.clock)

    def _one(self, name: str, parts: dict[str, str] | None = None, **parameters: object) -> Row:
        (row,) = self._rows(name, parts, **parameters)
        return row

    def _rows(self, name: str, parts: dict[str, str] | None = None, **parameters: object) -> list[Row]:
        """Return the rows of ``sql/<name>.sql``."""
        _, lines = self._offsets
        changing = "offsets" not in lines
        statement = sql.statement(name, self._which, self._spans, changing=changing, **(parts or {}))
        return self._query(statement, **lines, **parameters)

    def _query(self, statement: str, **parameters: object) -> list[Row]:
        with self.session() as store:
            answer = store.client.query(
                statement,
                parameters=self._which.bound(statement, **parameters),
                settings=store.permitted(sql.EVERY_BRANCH),
            )
        return [dict(zip(answer.column_names, map(_plain, row), strict=True)) for row in answer.result_rows]


def _lines(clock: pl.DataFrame) -> dict[str, object]:
    """Return the parameters of ``clocked_by_pair``, or of ``clocked_by_time`` where a clock drifted or was set."""
    if clock.is_empty():
        return {"offsets": [], "tolerances": []}
    lines = Lines.of(clock)
    if lines.constant:
        return {"offsets": clock["correction"].to_list(), "tolerances": clock["tolerance"].to_list()}
    table = pl.DataFrame(
        {"begins": lines.begin, "middles": lines.middle, "levels": lines.offset, "drifts": lines.drift}
    )
    # A pair's first segment holds for all time before it.
    first = pl.Series(lines.pair).diff().fill_null(1) > 0
    table = table.with_columns(begins=pl.when(first).then(BEFORE_ALL).otherwise("begins"), pair=lines.pair)
    lists = table.group_by("pair", maintain_order=True).agg(pl.all()).drop("pair")
    # The last line is that of a pair without any.
    none: dict[str, list[float]] = {"begins": [BEFORE_ALL], "middles": [0], "levels": [0.0], "drifts": [0.0]}
    return {
        "tolerances": clock["tolerance"].to_list(),
        **{name: [*lists[name].to_list(), none[name]] for name in lists.columns},
    }


def _plain(value: Any) -> Any:
    """Return a value as frames have it: an average of nothing is None, an instant is UTC."""
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _summary(row: Row, column: str) -> Summary:
    """Return the figures of a column; None where there was no value."""
    quantiles = dict(zip(QUANTILES, row[f"{column}/quantiles"], strict=True))
    figures = {"mean": row[f"{column}/mean"], **quantiles, "max": row[f"{column}/max"]}
    return {figure: figures[figure] if figures["mean"] is not None else None for figure in FIGURES}
