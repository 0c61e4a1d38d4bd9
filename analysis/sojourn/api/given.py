"""Requests as people have them: sources to be read, a split, requests that were read, or a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from sojourn.analyses.split.analysis import split, split_requests
from sojourn.analyses.split.result import SplitResult
from sojourn.model.errors import SojournError
from sojourn.model.frame import SCHEMA, Requests, Selection, checked, is_extra
from sojourn.readers.inputs import Source, listed
from sojourn.sources.rows import split_rows

RequestsLike = SplitResult | Requests | pl.LazyFrame | pl.DataFrame | Source | Sequence[Source]
Instant = datetime | float | None
Where = Mapping[str, object] | None


@dataclass(frozen=True)
class Given:
    """Requests to work on.

    Attributes:
        rows: with the components of every request, as ``SplitResult.rows``.
        result: the split they are of, which holds on to the folder they lie in; None for a frame of the user's own.
    """

    rows: pl.LazyFrame
    result: SplitResult | None


def given(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> Given:
    """Requests with their components.

    Args:
        requests: sources, which are read and split; a split; what ``sojourn.read`` returned; or a frame, split already
            or canonical.
        columns: of sources, read besides what the split needs.
        spans: of sources, the app's spans.
        since, until, where: only these requests.

    Raises:
        SojournError: a source cannot be read, the frame is none of requests, ``where`` names no column, or ``spans``
            come too late.
    """
    if isinstance(requests, SplitResult | Requests | pl.LazyFrame | pl.DataFrame):
        if listed(spans):
            raise SojournError("spans are joined when requests are read: give them to sojourn.split or sojourn.read")
        if isinstance(requests, Requests):
            result = split_requests(requests, since=since, until=until, where=where)
            return Given(result.rows, result)
        selection = Selection.of(since, until, where)
        if isinstance(requests, SplitResult):
            return Given(_selected(requests.rows, selection), requests)
        return Given(_selected(_split_frame(requests.lazy()), selection), None)
    result = split(
        requests, spans=listed(spans), since=since, until=until, where=where, columns=("request_id", *columns)
    )
    return Given(result.rows, result)


def split_given(
    requests: RequestsLike,
    *,
    columns: Sequence[str] = (),
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> SplitResult:
    """As ``given``, for what needs the whole split; a split is taken as it is, and a frame is split anew.

    Raises:
        SojournError: as ``given``; or a part of a split is asked for.
    """
    if isinstance(requests, SplitResult):
        if listed(spans) or since is not None or until is not None or where:
            raise SojournError("this is a split already: give spans, since, until and where to sojourn.split")
        return requests
    if isinstance(requests, pl.LazyFrame | pl.DataFrame):
        from sojourn.model.frame import Records  # noqa: PLC0415 - for a frame only

        rows = _canonical(requests.lazy())
        count = int(rows.select(pl.len()).collect().item())
        requests = Requests(rows, Records(read=count), names=("frame",))
    found = given(requests, columns=columns, spans=spans, since=since, until=until, where=where).result
    assert found is not None  # noqa: S101 - only a frame has none
    return found


def in_memory(requests: RequestsLike) -> bool:
    """Whether they were read already: a split, what was read, or a frame."""
    return isinstance(requests, SplitResult | Requests | pl.LazyFrame | pl.DataFrame)


def _split_frame(rows: pl.LazyFrame) -> pl.LazyFrame:
    if {"queueing_delay", "queue", "answered"} <= set(rows.collect_schema().names()):
        return rows
    return split_rows(_canonical(rows))[0]


def _canonical(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The canonical columns, and text columns of the user's own."""
    schema = rows.collect_schema()
    return checked(rows, "frame", [name for name in schema if is_extra(name) and schema[name] == pl.String()])


def _selected(rows: pl.LazyFrame, selection: Selection) -> pl.LazyFrame:
    names = rows.collect_schema().names()
    missing = [name for name in selection.columns if name not in names and name in SCHEMA]
    if missing:
        raise SojournError(f"there is no column {missing[0]!r} in what was read; read it with split(columns=…)")
    return selection.of_rows(rows)
