"""Add the components to rows of a live log, corrected by a clock estimated from more requests than these."""

from __future__ import annotations

import polars as pl

from sojourn.clocks.correction import with_clock_offset
from sojourn.clocks.offsets import clock_offsets
from sojourn.model.components import with_app_facts, with_components, with_spans


def clock_of(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the offsets of the apps' clocks from nginx's, as ``clock_offsets`` does."""
    return clock_offsets(_facts(rows))


def split_by(rows: pl.LazyFrame, clock: pl.DataFrame) -> pl.LazyFrame:
    """Return ``rows`` with components, corrected by ``clock``, an estimate from more requests than these."""
    return with_components(with_clock_offset(_facts(rows), clock))


def _facts(rows: pl.LazyFrame) -> pl.LazyFrame:
    return with_app_facts(with_spans(rows, None))
