"""Label values of few kinds: values beyond a limit become ``other``, and are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from sojourn.export.metrics import GROUP, OTHER, UNKNOWN
from sojourn.export.settings import LIMITS

MOST_GROUPS = 5_000  # combinations of values


class Labels:
    """The values of the labels of ``GROUP``, each known by its first requests.

    Args:
        visible: labels with values; the others are empty.
        limits: label -> number of values; more are ``other``.

    Attributes:
        other: label -> requests that were counted as ``other``; ``group``: because of too many combinations.
    """

    def __init__(self, visible: Sequence[str] = GROUP, limits: Mapping[str, int] | None = None) -> None:
        self.other: Counter[str] = Counter()
        self._visible = frozenset(visible)
        self._limits = LIMITS | dict(limits or {})
        self._values: dict[str, set[str]] = {label: set() for label in GROUP}
        self._groups: set[tuple[str, ...]] = set()

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return ``rows`` with the columns of ``GROUP`` as label values."""
        rows = rows.with_columns(
            pl.col(label).fill_null(UNKNOWN) if label in self._visible else pl.lit(UNKNOWN).alias(label)
            for label in GROUP
        )
        for label in GROUP:
            rows = self._limited(rows, label)
        return self._combined(rows)

    def value(self, label: str, value: str | None) -> str:
        """Return the value of a label that requests with this value have been counted under."""
        if label not in self._visible or not value:
            return UNKNOWN
        return value if value in self._values[label] else OTHER

    def _limited(self, rows: pl.DataFrame, label: str) -> pl.DataFrame:
        counts = rows[label].value_counts(sort=True)
        values = self._values[label]
        excess: list[str] = []
        for value, count in counts.iter_rows():
            if value in values or value == UNKNOWN:
                continue
            if len(values) < self._limits[label]:
                values.add(value)
            else:
                excess.append(value)
                self.other[label] += count
        if not excess:
            return rows
        return rows.with_columns(pl.when(pl.col(label).is_in(excess)).then(pl.lit(OTHER)).otherwise(label).alias(label))

    def _combined(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return ``rows`` with route and upstream ``other`` where there are too many combinations."""
        counts = rows.group_by(GROUP, maintain_order=True).len()
        excess = []
        for *group, count in counts.iter_rows():
            key = tuple(group)
            if key in self._groups:
                continue
            if len(self._groups) < MOST_GROUPS:
                self._groups.add(key)
            else:
                excess.append(key)
                self.other["group"] += count
        if not excess:
            return rows
        beyond = pl.DataFrame(excess, schema=dict.fromkeys(GROUP, pl.String()), orient="row").with_columns(
            __beyond=pl.lit(True)
        )
        folded = (
            pl.when(pl.col("__beyond")).then(pl.lit(OTHER)).otherwise(label).alias(label)
            for label in ("route", "upstream")
        )
        return rows.join(beyond, on=GROUP, how="left", maintain_order="left").with_columns(folded).drop("__beyond")
