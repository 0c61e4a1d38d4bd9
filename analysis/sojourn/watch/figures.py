"""The split of a window's requests, in total and by group, with the sums and quantiles of ``sojourn split``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from sojourn.model.components import COMPONENTS, PROXY_STATUSES, failed
from sojourn.model.coverage import Coverage, Waits
from sojourn.model.figures import Summary
from sojourn.model.groups import GROUPS, route_name
from sojourn.model.measures import GROUP_COLUMNS
from sojourn.model.statistics import summary_exprs, summary_of
from sojourn.model.verdict import SLO, Verdict, verdict
from sojourn.sources.coverage_rows import COVERAGE_COLUMNS, coverage_of_frame, waits_of_frame
from sojourn.sources.frame_measures import group_share, without_upgraded

BUCKET = 10.0  # s, of the history
MOST_GROUPS = 200
ERROR = failed(pl.col("status"))


@dataclass(frozen=True)
class Figures:
    """Requests that ended in a window. Durations in seconds.

    Attributes:
        seconds: length of the window, as far as the log is known.
        requests: count, without upgraded connections (101).
        errors: requests with status 499 or 5xx.
        statuses: status (of ``PROXY_STATUSES``) -> requests.
        response, queueing, service: distributions; None where there is no value.
        share: queueing as a share of all seconds; None without requests.
        determined: share of answered requests whose app reported both queueing delay and service time.
        judged: the verdict; None without requests.
        groups: value, requests, errors, seconds, share, and the distributions of ``GROUP_COLUMNS``; most seconds first.
        values: number of groups.
        history: begin of a ten-second bucket (unix s) -> mean queueing delay; None where it is unknown.
    """

    seconds: float
    requests: int
    errors: int
    statuses: dict[int, int]
    response: Summary
    queueing: Summary
    service: Summary
    share: float | None
    determined: float | None
    judged: Verdict | None
    groups: list[dict[str, Any]]
    values: int
    history: dict[int, float | None]

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    def to_dict(self, by: str) -> dict[str, Any]:
        """Return an entry of ``windows`` in the JSON output; ``by``: the column of the groups."""
        return {
            "seconds": self.seconds,
            "requests": self.requests,
            "rate": self.rate,
            "errors": self.errors,
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "response_time": self.response,
            "queueing_delay": self.queueing,
            "service_time": self.service,
            "queueing_share": self.share,
            "app_known": self.determined,
            "verdict": self.judged and self.judged.to_dict(),
            "by": {by: [{by if key == "value" else key: value for key, value in row.items()} for row in self.groups]},
        }


def fitting(text: str) -> pl.Expr:
    """Return the condition of a filter: ``COLUMN=VALUE`` of a group column, or case-insensitive text in any of them."""
    column, equals, value = text.partition("=")
    if equals and column.strip() in GROUPS:
        matches = pl.col(column.strip()).cast(pl.String) == value.strip()
        if column.strip() == "route":  # or its name where there are several services
            matches |= pl.concat_str("service", "route", separator=" ") == value.strip()
        return matches.fill_null(False)
    text = text.strip().lower()
    return pl.any_horizontal(
        pl.col(name).cast(pl.String).str.to_lowercase().str.contains(text, literal=True).fill_null(False)
        for name in GROUPS
    )


def figures(rows: pl.LazyFrame, seconds: float, by: str, where: str = "", slo: float = SLO) -> Figures:
    """Compute the figures of split rows, of a window of ``seconds``, that match the filter ``where`` (``fitting``)."""
    needed = ("service", "status", "time", "request_time", "queueing_delay", *COVERAGE_COLUMNS, *COMPONENTS)
    columns = dict.fromkeys((by, *needed))
    matching = without_upgraded(rows).filter(fitting(where)) if where else without_upgraded(rows)
    served = matching.select(*columns).collect(engine="streaming")
    if by == "route":
        served = served.with_columns(route_name(served))
    coverage = coverage_of_frame(served.lazy())
    distributions = [expr for column in GROUP_COLUMNS for expr in summary_exprs(column)]
    row = served.select(
        *distributions,
        *(pl.col(name).fill_null(0.0).mean() for name in COMPONENTS),
        errors=ERROR.sum(),
        **{f"status/{status}": (pl.col("status") == status).sum() for status in PROXY_STATUSES},
    ).row(0, named=True)
    means = {name: row[name] or 0.0 for name in COMPONENTS}
    waits = waits_of_frame(served.lazy())
    groups, values = _groups(served, by)
    return Figures(
        seconds=seconds,
        requests=len(served),
        errors=row["errors"],
        statuses={status: row[f"status/{status}"] for status in PROXY_STATUSES},
        response=summary_of(row, "request_time"),
        queueing=summary_of(row, "queueing_delay"),
        service=summary_of(row, "service_time"),
        share=waits.share,
        determined=coverage.determined,
        judged=_judged(served, means, row["request_time/p99"], slo, coverage, waits),
        groups=groups,
        values=values,
        history=_history(served),
    )


def _judged(
    served: pl.DataFrame, means: Mapping[str, float], p99: float | None, slo: float, coverage: Coverage, waits: Waits
) -> Verdict | None:
    if served.is_empty() or p99 is None:
        return None
    tail = served.filter(pl.col("request_time") >= p99)
    slowest = tail.select(pl.col(name).fill_null(0.0).mean() for name in COMPONENTS).row(0, named=True)
    both = (waits, waits_of_frame(tail.lazy()))
    return verdict(dict(means), slowest, p99, len(served), slo, coverage, waits=both)


def _groups(served: pl.DataFrame, by: str) -> tuple[list[dict[str, Any]], int]:
    distributions = [expr for column in GROUP_COLUMNS for expr in summary_exprs(column)]
    table = (
        served.group_by(by)
        .agg(
            pl.len().alias("requests"),
            ERROR.sum().alias("errors"),
            pl.col("request_time").sum().alias("seconds"),
            group_share(),
            *distributions,
        )
        .sort("seconds", by, descending=[True, False], nulls_last=True)
    )
    groups = [
        {
            "value": row[by],
            "requests": row["requests"],
            "errors": row["errors"],
            "seconds": row["seconds"],
            "queueing_share": row["share"],
            "response_time": summary_of(row, "request_time"),
            "queueing_delay": summary_of(row, "queueing_delay"),
            "service_time": summary_of(row, "service_time"),
        }
        for row in table.head(MOST_GROUPS).iter_rows(named=True)
    ]
    return groups, len(table)


def _history(served: pl.DataFrame) -> dict[int, float | None]:
    width = int(BUCKET * 1e6)
    begin = (pl.col("time").dt.epoch("us") // width * int(BUCKET)).alias("begin")
    return dict(served.group_by(begin).agg(pl.col("queueing_delay").mean()).iter_rows())
