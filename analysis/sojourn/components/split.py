"""The split: canonical rows to rows with components, of files, of a log that grows, and of the rows of a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import polars as pl

from sojourn.components.app_log import AppLogMatch, with_app_log
from sojourn.components.clock_offsets.correction import with_clock_offset
from sojourn.components.clock_offsets.offsets import clock_offsets
from sojourn.components.expressions import with_app_facts, with_components, with_spans
from sojourn.components.inferred.backends import BackendInference
from sojourn.components.inferred.rows import inferred_rows
from sojourn.estimation.inferred import REFUSED
from sojourn.model.frame import AppLog, checked


class Split(NamedTuple):
    """Rows with components, and what they rest on.

    Attributes:
        rows: the canonical columns, those of ``with_app_facts`` and ``with_components``, and ``inferred_workers``.
        clock: the clock offsets used, as from ``clock_offsets``.
        inferred: the inference of every backend whose app reported nothing.
        app_log: how the app's own log and the requests fit; None without one.
    """

    rows: pl.LazyFrame
    clock: pl.DataFrame
    inferred: tuple[BackendInference, ...]
    app_log: AppLogMatch | None = None


def split_rows(
    rows: pl.LazyFrame,
    spans: pl.DataFrame | None = None,
    clock: pl.DataFrame | None = None,
    *,
    app_log: AppLog | None = None,
    infer: bool = True,
    workers: int | Mapping[str, int] | None = None,
    computed: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda rows: rows,
) -> Split:
    """Return canonical rows with the components of every request.

    Args:
        rows: canonical frame, at least ``SPLIT_COLUMNS`` (others pass through; missing ones become null).
        spans: as from ``sojourn.readers.spans.read_spans``; joining them needs ``request_id``,
            ``trace_id`` and ``span_id``.
        app_log: the app's own log; it adds what spans do not have, by ``request_id``.
        clock: offsets estimated from more requests than these, as from ``clock_of``; None: estimated from these.
        infer: infer the queue of each backend whose app reported nothing.
        workers: with this number of workers per backend, or one number for all; None: inferred.
        computed: computes the lazy rows before they are read several times, and again when queues were inferred.

    Raises:
        SojournError: the app's log cannot be joined to these requests.
    """
    joined, match = with_app_log(with_spans(rows, spans), app_log)
    facts = with_app_facts(joined)
    if clock is None:
        clock = clock_offsets(facts)
    measured = with_components(with_clock_offset(facts, clock))
    if not infer:
        return Split(measured.with_columns(inferred_workers=pl.lit(None, pl.Int64)), clock, (), match)
    result, inferred = inferred_rows(computed(measured), workers)
    if any(each.result.verdict != REFUSED for each in inferred):
        result = computed(result)
    return Split(result, clock, tuple(inferred), match)


def clock_of(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the offsets of the apps' clocks from nginx's, by what the headers of canonical rows report."""
    return clock_offsets(with_app_facts(with_spans(rows, None)))


def checked_split(rows: pl.LazyFrame | pl.DataFrame, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return ``split_rows`` of a user's frame: its columns are checked first, missing ones are null.

    Raises:
        SojournError: it is no frame of requests.
    """
    return split_rows(checked(rows.lazy(), "frame"), spans).rows.collect()
