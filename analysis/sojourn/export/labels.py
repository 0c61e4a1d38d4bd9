"""Label values of few kinds: values beyond a limit become ``other``, and are counted; a path is no route."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from sojourn.export.metrics import GROUP, OTHER, UNKNOWN, UNNAMED
from sojourn.export.settings import LIMITS
from sojourn.readers.record import PATH

MOST_GROUPS = 5_000  # combinations of values
LONGEST, CUT = 120, "…"  # characters of a value, and the end of one that is longer
WITHOUT_ROUTES = 1_000  # requests, all without the name of a route, after which that is reported
ABSENT = {"route": UNNAMED}  # instead of ``UNKNOWN``


class Routes:
    """The routes that apps and configurations have named, by service: the first ``MOST_GROUPS``.

    Args:
        report: say once on standard error that no request has the name of its route, if that is so for many.
    """

    def __init__(self, *, report: bool) -> None:
        self._report = report
        self._requests = 0
        self._routes = pl.DataFrame(schema=dict.fromkeys(("service", PATH, "of_path"), pl.String()))

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return ``rows`` without their column ``path``, the template of the path of requests without a route.

        Where the path is a route of the same service, it becomes the route: without an answer there is no X-Route.
        Otherwise the route remains null.
        """
        routes = rows.filter(pl.col("route").is_not_null()).select(
            "service", pl.col("route").alias(PATH), of_path="route"
        )
        self._routes = pl.concat([self._routes, routes]).unique(maintain_order=True).head(MOST_GROUPS)
        self._report_none(len(rows))
        joined = rows.join(self._routes, on=("service", PATH), how="left", nulls_equal=True, maintain_order="left")
        return joined.with_columns(route=pl.coalesce("route", "of_path")).drop(PATH, "of_path")

    def _report_none(self, requests: int) -> None:
        self._requests += requests
        if self._report and self._requests >= WITHOUT_ROUTES:
            self._report = False
            if self._routes.is_empty():
                sys.stderr.write(
                    f'routes: no request has the name of its route, and all count as route="{UNNAMED}": let the app '
                    "answer X-Route, or name routes in nginx ($sojourn_route)\n"
                )


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
        """Return ``rows`` with the columns of ``GROUP`` as label values; a null route is ``UNNAMED``."""
        rows = rows.with_columns(
            _value(label) if label in self._visible else pl.lit(UNKNOWN).alias(label) for label in GROUP
        )
        for label in GROUP:
            rows = self._limited(rows, label)
        return self._combined(rows)

    def value(self, label: str, value: str | None) -> str:
        """Return the value of a label that requests with this value have been counted under."""
        if label not in self._visible or not value:
            return UNKNOWN
        value = value if len(value) <= LONGEST else value[: LONGEST - 1] + CUT
        return value if value in self._values[label] else OTHER

    def _limited(self, rows: pl.DataFrame, label: str) -> pl.DataFrame:
        counts = rows[label].value_counts(sort=True)
        values = self._values[label]
        excess: list[str] = []
        for value, count in counts.iter_rows():
            if value in values or value in {UNKNOWN, UNNAMED}:
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


def _value(label: str) -> pl.Expr:
    value = pl.col(label)
    cut = value.str.slice(0, LONGEST - 1) + CUT
    return pl.when(value.str.len_chars() > LONGEST).then(cut).otherwise(value.fill_null(ABSENT.get(label, UNKNOWN)))
