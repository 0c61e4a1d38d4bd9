"""Requests that went to backends: their arrivals and departures there, by backend and window of time.

Those of a long log lie in a temporary file, and are read a window at a time.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.estimation.inferred import INFERRED
from sojourn.model.components import PROXY_STATUSES, SWITCHING_PROTOCOLS
from sojourn.model.frame import PROXY
from sojourn.readers.spool import ROWS_IN_MEMORY, on_disk

UNSERVED = (0, *PROXY_STATUSES)  # departures that are not those of a worker
SLOW_CLIENT = 20_000  # us from the backend's answer to the end of the request
WINDOW = 1_000_000  # requests of a backend in a window
SECOND = 1_000_000  # us
ROW = "__row"
TEXTS = ("upstream", "route", "proxy", "vantage")


@dataclass(frozen=True)
class Backend:
    """What all requests to a backend have in common.

    Attributes:
        upstream: its address; None: the log does not name it.
        requests: to it.
        answered: of these, the ones that it answered.
        measured: of these, the ones whose queueing delay is known.
        unserved: requests that left without being served.
        vantage: what the times of the log are seen from (``sojourn.model.frame``).
        step: the largest step of the instants, s; None: milliseconds.
        slow: share of the served requests whose client took long to receive the answer.
    """

    upstream: str | None
    requests: int
    answered: int
    measured: int
    unserved: int
    vantage: str
    step: float | None
    slow: float


@dataclass(frozen=True)
class Span:
    """A window of time: arrivals in [begin, end), us after the base; load: s in the system per s."""

    begin: int
    end: int
    load: float


@dataclass(frozen=True)
class Visits:
    """Requests that went to backends.

    Attributes:
        frame: ``__row`` (position among the rows), ``answered``, ``upstream``, ``route``, ``proxy``, ``vantage``,
            ``time_step`` (s), ``measured``, ``unserved``, and ``arrival``, ``departure`` and ``finish`` (us after
            ``base``); computed at each use.
        base: an instant in whole seconds.
        rows: number of the rows that they are among.
        by_backend: the requests of some backends, backend after backend, and the first row and number of rows of each.
    """

    frame: pl.LazyFrame
    base: datetime
    rows: int
    by_backend: tuple[pl.DataFrame, dict[str | None, tuple[int, int]]] | None = None

    @classmethod
    def of(cls, rows: pl.LazyFrame) -> Visits:
        """Return those among split rows."""
        epoch = pl.col("start").dt.epoch("us")
        first, count = rows.select(epoch.min(), pl.len()).collect(engine="streaming").row(0)
        base = (first or 0) // SECOND * SECOND
        return cls(_visits(rows, epoch - base), datetime.fromtimestamp(0, UTC) + timedelta(microseconds=base), count)

    @functools.cached_property
    def _frame_and_folder(self) -> tuple[pl.LazyFrame, tempfile.TemporaryDirectory[str] | None]:
        """The frame, computed once: in memory, or in a temporary folder.

        Raises:
            SojournError: there are many, and the temporary folder has no space.
        """
        if self.rows > ROWS_IN_MEMORY:
            return on_disk(self.frame, statistics=True)
        # Numbers in place of texts.
        return self.frame.with_columns(pl.col(*TEXTS).cast(pl.Categorical)).collect(engine="streaming").lazy(), None

    def batches(self, backends: Iterable[Backend]) -> Iterator[tuple[Visits, list[Backend]]]:
        """Yield some of the backends at a time, and the visits that have their requests.

        Backends with fewer than ``WINDOW`` requests are read together, up to that many requests: the requests are read
        as often for many backends as for few.
        """
        batch: list[Backend] = []
        requests = 0
        for backend in backends:
            if batch and requests + backend.requests > WINDOW:
                yield self._only(batch), batch
                batch, requests = [], 0
            batch.append(backend)
            requests += backend.requests
        if batch:
            yield self._only(batch), batch

    def _only(self, backends: list[Backend]) -> Visits:
        """Return the visits to several backends, in memory, by backend; those to one as they are."""
        if len(backends) == 1:
            return self
        names = pl.Series([each.upstream for each in backends], dtype=pl.String)
        frame = self._frame_and_folder[0].with_columns(pl.col("upstream").cast(pl.String))
        chosen = frame.filter(pl.col("upstream").is_in(names.drop_nulls().implode()) | pl.col("upstream").is_null())
        table = chosen.collect(engine="streaming").sort("upstream", ROW)
        places = table.select("upstream").with_row_index("at").group_by("upstream").agg(pl.col("at").min(), pl.len())
        slices = {name: (int(at), int(count)) for name, at, count in places.iter_rows()}
        return Visits(self.frame, self.base, self.rows, (table, slices))

    def backends(self) -> Iterator[Backend]:
        """Yield the backends, the one with most requests first."""
        served = ~pl.col("unserved")
        table = self.frame.group_by("upstream").agg(
            requests=pl.len(),
            answered=pl.col("answered").sum(),
            measured=(pl.col("measured") & pl.col("answered")).sum(),
            unserved=pl.col("unserved").sum(),
            vantage=pl.col("vantage").cast(pl.String).min(),
            step=pl.col("time_step").max(),
            slow=(pl.col("finish") - pl.col("departure") > SLOW_CLIENT).filter(served).mean().fill_null(0.0),
        )
        table = table.with_columns(pl.col("upstream").cast(pl.String)).sort("requests", "upstream", descending=True)
        for row in table.collect(engine="streaming").iter_rows(named=True):
            yield Backend(**row)

    def spans(self, backend: Backend) -> list[Span]:
        """Return windows of time with about ``WINDOW`` requests to a backend each, in order."""
        count = -(-backend.requests // WINDOW)
        second = pl.col("arrival") // SECOND
        lasted = (pl.col("departure") - pl.col("arrival")).fill_null(0).sum()
        seconds = (
            self._of(backend).group_by(second=second).agg(requests=pl.len(), lasted=lasted).sort("second")
            .with_columns(part=((pl.col("requests").cum_sum() - 1) * count // backend.requests))
            .group_by("part").agg(pl.col("second").min(), pl.col("lasted").sum()).sort("second")
            .collect(engine="streaming")
        )  # fmt: skip
        begins = (seconds["second"] * SECOND).to_list()
        ends = [*begins[1:], self._end(backend)]
        return [
            Span(begin, end, lasted / (end - begin))
            for begin, end, lasted in zip(begins, ends, seconds["lasted"], strict=True)
        ]

    def part(self, backend: Backend, span: Span) -> pl.DataFrame:
        """Return the requests to a backend that arrived in a window, and the served ones inside at its begin."""
        inside = (pl.col("departure") > span.begin) & ~pl.col("unserved") | (pl.col("arrival") >= span.begin)
        part = self._of(backend).filter(inside & (pl.col("arrival") < span.end)).sort(ROW)
        return part.with_columns(pl.col(*TEXTS).cast(pl.Categorical)).collect(engine="streaming")

    def _of(self, backend: Backend) -> pl.LazyFrame:
        if self.by_backend is not None:
            table, slices = self.by_backend
            return table.slice(*slices[backend.upstream]).lazy()
        return self._frame_and_folder[0].filter(pl.col("upstream").eq_missing(pl.lit(backend.upstream, pl.String)))

    def _end(self, backend: Backend) -> int:
        """Return an instant after the last arrival, us."""
        return int(self._of(backend).select(pl.col("arrival").max()).collect(engine="streaming").item()) + 1


def _visits(rows: pl.LazyFrame, start: pl.Expr) -> pl.LazyFrame:
    """Return ``Visits.frame``; ``start``: of a request, us after the base."""
    seconds = pl.col("upload") + pl.col("proxy_queue") + pl.col("retries")
    lasted = pl.coalesce("response", "header")
    return (
        rows.with_row_index(ROW)
        .filter(pl.col("proxied") & (pl.col("status") != SWITCHING_PROTOCOLS))
        .with_columns(__arrival=start + (seconds * 1e6).round().cast(pl.Int64))
        .select(
            pl.col(ROW).cast(pl.Int64), "answered", pl.col("upstream").cast(pl.String),
            pl.col("time_step").cast(pl.Float32),
            *(pl.col(name).cast(pl.String).fill_null("") for name in ("route", "proxy")),
            pl.col("vantage").cast(pl.String).fill_null(PROXY),
            measured=~pl.col("queue_source").is_in(["none", INFERRED]),
            unserved=pl.col("status").is_in(UNSERVED) | ~pl.col("answered") | lasted.is_null(),
            arrival="__arrival",
            departure=pl.col("__arrival") + (lasted * 1e6).round().cast(pl.Int64),
            finish=start + (pl.col("request_time") * 1e6).round().cast(pl.Int64),
        )
    )  # fmt: skip
