"""Opened requests: rows with the components of every request, and aggregates over them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import polars as pl

from sojourn.components.app_log import AppLogMatch
from sojourn.components.expressions import REWRITTEN
from sojourn.components.inferred.backends import BackendInference
from sojourn.components.split import split_rows
from sojourn.model.column_errors import not_read
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted
from sojourn.model.frame import SCHEMA, Records, Requests, Selection
from sojourn.model.instants import Instant
from sojourn.model.measures import Measures
from sojourn.readers.spool import on_disk
from sojourn.sources.frame_measures import FrameMeasures, without_upgraded

Value = TypeVar("Value")
Where = Mapping[str, object] | None


@dataclass(kw_only=True, repr=False)
class OpenedRequests:
    """Opened requests, from any source.

    Attributes:
        measures: aggregates over them: of a frame, or of a store, which sends no row for any.
        records: lines read and refused.
        names: what was opened.
        audited: whether sources were read; False for a frame of the user's own, of which nothing else is known.
        inferred: the inference of every backend whose app reported nothing.
        app_log: how the app's own log and the requests fit; None without one.
        where: column -> value: by what the requests were selected from ``whole``.
        log_requests: number of requests of the log that the rows of a frame come from; None: unknown.
    """

    measures: Measures
    records: Records
    names: tuple[str, ...]
    audited: bool = True
    inferred: tuple[BackendInference, ...] = ()
    app_log: AppLogMatch | None = None
    where: Mapping[str, object] = field(default_factory=dict)
    log_requests: int | None = None
    # Holds on to what the rows lie in: a temporary folder, or where a store is.
    _rows: Callable[[], pl.LazyFrame] = field(default=pl.LazyFrame, repr=False)
    _derived: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _whole: Callable[[], OpenedRequests] | None = field(default=None, repr=False)

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return ``make(requests)``, called once for each key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def forget(self, name: str) -> None:
        """Release what ``once`` keeps for the key ``name``, or for keys that are tuples which begin with it."""
        for key in [key for key in self._derived if (key[0] if isinstance(key, tuple) else key) == name]:
            del self._derived[key]

    @functools.cached_property
    def rows(self) -> pl.LazyFrame:
        """The frame with the components of every request; of a store, it is fetched at its first use.

        Canonical columns read, plus ``COMPONENTS``, ``queueing_delay``, ``queue_by_duration``, ``queue_source``,
        ``clock_offset``, ``proxied``, ``answered`` and ``wasted``. Upgraded connections (101) are in it.

        Raises:
            SojournError: a store holds more rows than fit here.
        """
        return self._rows()

    @property
    def whole(self) -> OpenedRequests:
        """All requests, also those that ``where`` leaves out: they hold workers, and are ahead in the queues."""
        return self if self._whole is None else self._whole()

    @property
    def served(self) -> pl.LazyFrame:
        """The rows of the distributions: without upgraded connections, which last as long as they are used."""
        return without_upgraded(self.rows)

    @property
    def of_app(self) -> bool:
        """Whether the requests are in logs of app servers, so that their times do not contain the wait."""
        return self.once("of_app", lambda: self.measures.coverage().of_app)

    @property
    def empty(self) -> bool:
        """Whether it has no request."""
        return self.rows.head(1).collect().is_empty()


def of_requests(
    requests: Requests,
    *,
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    workers: int | Mapping[str, int] | None = None,
) -> OpenedRequests:
    """Compute the components of requests already read; the other arguments are as of ``open_sources``.

    Raises:
        SojournError: the app's log cannot be joined to these requests.
    """
    selection = Selection.of(since, until, None)
    many = requests.spool is not None
    stored = requests.rows if requests.stored and not selection.narrows else None
    # Those in which the latest rows lie: an earlier one takes space that is not needed any more.
    folders: tuple[object, ...] = ()

    def computed(rows: pl.LazyFrame) -> pl.LazyFrame:
        nonlocal stored, folders
        rows, folder = _computed(rows, many, stored)
        folders = (folder, None if stored is None else requests.spool)
        stored = None
        return rows

    split = split_rows(
        selection.of_rows(requests.rows), requests.spans, app_log=requests.app_log, workers=workers, computed=computed
    )
    size = int(split.rows.select(pl.len()).collect().item())
    rows, count = split.rows.with_columns(log_requests=pl.lit(size, pl.UInt32)), size if many else None
    rows_and_folders = (rows, folders)  # the temporary folders live as long as the rows
    measures = FrameMeasures(rows, split.clock, requests.duplicates, count)
    whole = OpenedRequests(
        measures=measures, records=requests.records, names=requests.names, inferred=split.inferred,
        app_log=split.app_log, _rows=lambda: rows_and_folders[0],
    )  # fmt: skip
    return selected(whole, Selection.of(None, None, where))


def selected(requests: OpenedRequests, selection: Selection) -> OpenedRequests:
    """Return the requests of a selection; those that its ``where`` leaves out remain in ``whole``.

    Raises:
        SojournError: a column of the selection was not read.
    """
    if not selection.narrows:
        return requests
    names = requests.rows.collect_schema().names()
    missing = [name for name in selection.columns if name not in names and name in SCHEMA]
    if missing:
        raise SojournError(not_read(missing[0], names))
    window = replace(selection, where={})
    whole = _narrowed(requests.whole, window) if window.narrows else requests.whole
    where = {**requests.where, **selection.where}
    return _narrowed(whole, Selection(where=where)) if where else whole


def _narrowed(requests: OpenedRequests, selection: Selection) -> OpenedRequests:
    """Return the requests of a selection; their ``whole`` is ``requests`` if it has conditions."""
    rows_and_source = (selection.of_rows(requests.rows), requests)  # which holds on to the folder the rows lie in
    rows, measures, inferred = rows_and_source[0], requests.measures, requests.inferred
    duplicates, count = 0, None
    if isinstance(measures, FrameMeasures):
        duplicates = measures.duplicates
        count = None if measures.count is None else int(rows.select(pl.len()).collect().item())
    if inferred:
        backends = set(rows.select(pl.col("upstream").unique()).collect()["upstream"])
        inferred = tuple(each for each in inferred if each.upstream in backends)
    return OpenedRequests(
        measures=FrameMeasures(rows, measures.clock, duplicates, count),
        records=requests.records,
        names=requests.names,
        audited=requests.audited,
        inferred=inferred,
        app_log=requests.app_log,
        where=selection.where,
        log_requests=requests.log_requests,
        _rows=lambda: rows_and_source[0],
        _whole=(lambda: requests) if selection.where else None,
    )


def with_all_holders(requests: OpenedRequests, where: Where) -> tuple[OpenedRequests, dict[str, object]]:
    """Return all requests, and the conditions of those to analyse: the others hold workers all the same."""
    return requests.whole, {**requests.where, **(where or {})}


def refuse_part_of_backends(requests: OpenedRequests) -> None:
    """Refuse a selection without some of the requests of its backends: workers that these held would look free.

    Raises:
        SojournError: it leaves out such requests.
    """
    if requests.whole is requests:
        return
    served = pl.col("proxied")
    parts = requests.rows.filter(served).group_by("upstream").len("selected")
    every = requests.whole.rows.filter(served).group_by("upstream").len("served")
    both = every.join(parts, on="upstream", nulls_equal=True).select(pl.col("selected", "served").sum()).collect()
    chosen, served_there = both.row(0)
    if chosen < served_there:
        conditions = ", ".join(f"{column} = {value}" for column, value in requests.where.items())
        raise SojournError(
            f"the condition {conditions} leaves out {served_there - chosen:,} of {counted(served_there, 'request')} of "
            "the same backends, which hold the same workers: select by upstream, or by a service with backends of its "
            "own"
        )


def _computed(
    rows: pl.LazyFrame, many: bool, stored: pl.LazyFrame | None = None
) -> tuple[pl.LazyFrame, tempfile.TemporaryDirectory[str] | None]:
    """Return computed rows: in memory, or in a temporary folder if there are ``many``.

    ``stored``: rows on disk of which ``rows`` are the split; what they hold already is not written again.
    """
    if not many:
        return rows.collect(engine="streaming").lazy(), None
    if stored is None:
        return on_disk(rows)
    names = rows.collect_schema().names()
    stored_names = [name for name in stored.collect_schema().names() if name not in REWRITTEN]
    added, folder = on_disk(rows.drop(stored_names))
    return pl.concat([stored.select(stored_names), added], how="horizontal").select(names), folder
