"""Distributions in a few exact numbers."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
FIGURES = ("mean", *QUANTILES, "max")
Summary = dict[str, float | None]


def summary_exprs(column: str) -> list[pl.Expr]:
    """Mean, quantiles (exact, linear between order statistics) and maximum of a column, named ``column/figure``."""
    value = pl.col(column)
    quantiles = [value.quantile(q, "linear").alias(f"{column}/{name}") for name, q in QUANTILES.items()]
    return [value.mean().alias(f"{column}/mean"), *quantiles, value.max().alias(f"{column}/max")]


def summary_of(row: dict[str, object], column: str) -> Summary:
    """The figures of one column out of a row made by ``summary_exprs``; None where there was no value."""
    return {figure: row[f"{column}/{figure}"] for figure in FIGURES}  # type: ignore[misc]


def summaries(rows: pl.LazyFrame, columns: Sequence[str]) -> dict[str, Summary]:
    """Column -> its figures, nulls left out."""
    exprs = [expr for column in columns for expr in summary_exprs(column)]
    row = rows.select(exprs).collect(engine="streaming").row(0, named=True)
    return {column: summary_of(row, column) for column in columns}
