"""Bins, quantiles and means of a store, for charts; see ``sojourn.model.measures.Measures``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import polars as pl

from sojourn.model.frame import INSTANT
from sojourn.model.instants import epoch_us
from sojourn.model.measures import Hexagons, LogBins, Row, exceeding_ranks, window_width
from sojourn.store import statements as sql

PARTS_SCHEMA = {"requests": pl.Int64(), "response": pl.Float64()}


class ChartMeasures(ABC):
    """The part of ``Measures`` that charts need; subclasses query the store."""

    @property
    @abstractmethod
    def _summary(self) -> Row:
        """Figures of all requests, as ``sql/summary.sql`` has them."""

    @property
    @abstractmethod
    def _exact(self) -> bool:
        """Whether quantiles are exact."""

    @abstractmethod
    def _rows(self, name: str, parts: dict[str, str] | None = None, **parameters: object) -> list[Row]:
        """Return the rows of ``sql/<name>.sql``."""

    @abstractmethod
    def _group_of(self, group: str) -> str:
        """Return the expression for a group."""

    @abstractmethod
    def _one(self, name: str, parts: dict[str, str] | None = None, **parameters: object) -> Row:
        """Return its only row."""

    def response_range(self) -> tuple[float, float] | None:
        """See ``Measures``."""
        row = self._summary
        if not row["served_requests"]:
            return None
        return row["shortest"], row["request_time/max"]

    def response_bins(self, low: float, width: float, *, logarithmic: bool, count: int) -> pl.DataFrame:
        """See ``Measures``."""
        ratio, distance = "log(greatest(request_time, {low:Float64}) / {low:Float64})", "(request_time - {low:Float64})"
        index = f"{ratio if logarithmic else distance} / {{width:Float64}}"
        rows = self._rows("response_bins", {"index": index}, low=low, width=width, count=count)
        schema = {"bin": pl.Int32(), "requests": pl.Int64(), "total": pl.Float64()}
        return _parts(rows, schema)

    def exceeding(self, column: str, points: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """See ``Measures``."""
        count = self._summary[f"{column}/count"]
        ranks = exceeding_ranks(count, points)
        if not count:
            return np.array([]), np.array([])
        if self._exact:
            levels = [rank / max(count - 1, 1) for rank in ranks.tolist()]
        else:  # the value below which that many lie
            levels = [(rank + 0.5) / count for rank in ranks.tolist()]
        quantiles = sql.quantiles(column, tuple(levels), exact=self._exact)
        values = self._one("exceeding", {"quantiles": quantiles})["points"]
        return np.array(values), (count - ranks) / count

    def parts_by(self, group: str, limit: int) -> pl.DataFrame:
        """See ``Measures``."""
        rows = self._rows("parts_by", {"group": self._group_of(group)}, limit=limit)
        schema = {"value": pl.String(), "requests": pl.Int64(), "total": pl.Float64(), **PARTS_SCHEMA}
        return _parts(rows, schema).rename({"value": "group"})

    def parts_over_time(self, windows: int, *, p99: bool = True) -> pl.DataFrame:
        """See ``Measures``."""
        quantile = f"arrayElement({sql.quantiles('request_time', (0.99,), exact=self._exact)}, 1)"
        _, rows = self._windowed("parts_over_time", {"p99": quantile if p99 else "nan"}, windows)
        table = _parts(rows, {"arrived": INSTANT, "requests": pl.Int64(), "p99": pl.Float64(), **PARTS_SCHEMA})
        return table if p99 else table.drop("p99")

    def _windowed(
        self, name: str, parts: dict[str, str], windows: int, **parameters: object
    ) -> tuple[timedelta, list[Row]]:
        """Return the width of ``windows`` windows over all arrivals, and rows of ``sql/<name>.sql``."""
        first: datetime | None = self._summary["first_served"]
        if first is None:  # of no requests, a window of any width
            return timedelta(microseconds=1), []
        width = window_width(first, self._summary["last_served"], windows)
        rows = self._rows(name, parts, begin=epoch_us(first), width=width, **parameters)
        for row in rows:
            row["arrived"] = first + timedelta(microseconds=row["window"] * width)
        return timedelta(microseconds=width), rows

    def quantiles(self, column: str, levels: Sequence[float]) -> list[float | None]:
        """See ``Measures``."""
        if not self._summary[f"{column}/count"]:
            return [None] * len(levels)
        expression = sql.quantiles(column, tuple(levels), exact=self._exact)
        return list(self._one("exceeding", {"quantiles": expression})["points"])

    def counts_over_time(self, column: str, windows: int, bins: LogBins) -> tuple[timedelta, pl.DataFrame]:
        """See ``Measures``."""
        width, rows = self._windowed("counts_over_time", {"column": column}, windows, **_bins(bins))
        schema = {"arrived": INSTANT, "bin": pl.Int32(), "requests": pl.Int64()}
        table = pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema)
        return width, table

    def bins_by(self, group: str, limit: int, column: str, bins: LogBins) -> pl.DataFrame:
        """See ``Measures``."""
        rows = self._rows("bins_by", {"group": self._group_of(group), "column": column}, limit=limit, **_bins(bins))
        schema = {"value": pl.String(), "bin": pl.Int32(), "requests": pl.Int64(), "total": pl.Float64()}
        return _parts(rows, schema).rename({"value": "group"})

    def hexagons(self, lattice: Hexagons) -> pl.DataFrame:
        """See ``Measures``."""
        rows = self._rows("hexagons", low=lattice.low, step_across=lattice.across, step_up=lattice.up)
        return pl.DataFrame(rows, {"across": pl.Int32(), "up": pl.Int32(), "requests": pl.Int64()})


def _bins(bins: LogBins) -> dict[str, object]:
    return {"low": bins.low, "step": bins.width, "count": bins.count}


def _parts(rows: list[Row], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    full = {**schema, "queueing": pl.Float64(), "service": pl.Float64()}
    table = pl.DataFrame([{name: row[name] for name in full} for row in rows], full)
    return table.rename({"queueing": "queueing delay", "service": "service time"})
