"""The core of the split: canonical rows to rows with components."""

from __future__ import annotations

import polars as pl

from sojourn.clocks.correction import with_clock_offset
from sojourn.clocks.offsets import clock_offsets
from sojourn.model.components import with_app_facts, with_components, with_spans
from sojourn.model.frame import checked


def split_rows(rows: pl.LazyFrame, spans: pl.DataFrame | None = None) -> tuple[pl.LazyFrame, pl.DataFrame]:
    """Return canonical rows (and spans) as rows with components, and the clock offsets used.

    Args:
        rows: canonical frame, at least ``SPLIT_COLUMNS`` (others pass through; missing ones become null).
        spans: as from ``sojourn.readers.spans.read_spans``; joining them needs ``request_id``,
            ``trace_id`` and ``span_id``.
    """
    facts = with_app_facts(with_spans(rows, spans))
    offsets = clock_offsets(facts)
    return with_components(with_clock_offset(facts, offsets)), offsets


def checked_split(rows: pl.LazyFrame | pl.DataFrame, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return ``split_rows`` of a user's frame: its columns are checked first, missing ones are null.

    Raises:
        SojournError: it is no frame of requests.
    """
    split_lazily, _ = split_rows(checked(rows.lazy(), "frame"), spans)
    return split_lazily.collect()
