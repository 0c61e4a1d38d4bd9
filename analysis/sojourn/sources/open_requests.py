"""Opened requests: rows with the components of every request, and aggregates over them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import polars as pl

from sojourn.components.app_log import AppLogMatch
from sojourn.components.expressions import REWRITTEN
from sojourn.components.inferred.backends import BackendInference
from sojourn.components.split import split_rows
from sojourn.model.frame import Records, Requests, Selection
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
    """

    measures: Measures
    records: Records
    names: tuple[str, ...]
    audited: bool = True
    inferred: tuple[BackendInference, ...] = ()
    app_log: AppLogMatch | None = None
    # Holds on to what the rows lie in: a temporary folder, or where a store is.
    _rows: Callable[[], pl.LazyFrame] = field(default=pl.LazyFrame, repr=False)
    _derived: dict[Hashable, Any] = field(default_factory=dict, repr=False)

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
    requests: Requests, *, since: Instant = None, until: Instant = None, where: Where = None
) -> OpenedRequests:
    """Compute the components of requests already read; ``since``, ``until`` and ``where`` as of ``open_sources``.

    Raises:
        SojournError: the app's log cannot be joined to these requests.
    """
    selection = Selection.of(since, until, where)
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

    split = split_rows(selection.of_rows(requests.rows), requests.spans, app_log=requests.app_log, computed=computed)
    rows = split.rows
    count = int(rows.select(pl.len()).collect().item()) if many else None
    rows_and_folders = (rows, folders)  # the temporary folders live as long as the rows
    measures = FrameMeasures(rows, split.clock, requests.duplicates, count)
    return OpenedRequests(
        measures=measures, records=requests.records, names=requests.names, inferred=split.inferred,
        app_log=split.app_log, _rows=lambda: rows_and_folders[0],
    )  # fmt: skip


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
