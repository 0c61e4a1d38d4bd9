"""The split: response time into queueing delay, service time and the rest, over all requests and by group."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import polars as pl

from sojourn.errors import SojournError
from sojourn.explain.audit import audit
from sojourn.explain.clock import clock_offsets, with_clock_offset
from sojourn.explain.components import (
    COMPONENTS,
    QUEUE_SOURCES,
    SWITCHING_PROTOCOLS,
    with_app_facts,
    with_components,
    with_spans,
)
from sojourn.explain.groups import DEFAULT_GROUPS, GROUPS
from sojourn.explain.notes import notes
from sojourn.explain.result import SplitResult, without_upgraded
from sojourn.explain.statistics import summaries, summary_exprs, summary_of
from sojourn.explain.verdict import SLO, Verdict, verdict
from sojourn.frame import COLUMNS, INSTANT, SPLIT_COLUMNS, Requests, checked
from sojourn.readers.requests import Progress, read

GROUP_LIMIT = 1_000  # rows of one grouping in the JSON, the busiest first
SHOWN = ("queueing_delay", *COMPONENTS)

Source = str | os.PathLike[str]


def split(
    sources: Sequence[Source] | Source,
    *,
    spans: Sequence[Source] = (),
    by: Sequence[str] = DEFAULT_GROUPS,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    where: Mapping[str, object] | None = None,
    slo: float = SLO,
    all_columns: bool = False,
    rejects_to: TextIO | None = None,
    on_size: Callable[[int | None], None] | None = None,
    on_progress: Progress | None = None,
) -> SplitResult:
    """Read sources and split every request's response time.

    Args:
        sources: log files (plain, gzip, zstd), globs, ``-``, Parquet files, run folders.
        spans: OTLP/JSON-lines files of the app; they tell what became of requests the app never answered in time.
        by: columns to group by, any of ``GROUPS``.
        since, until: keep requests that arrived in [since, until): aware datetimes or unix seconds.
        where: column -> value that a row must have.
        slo: a p99 below this, with little queueing, is healthy, in seconds.
        all_columns: also read what the split itself does not need (ids, uri, addresses), for ``write_parquet``.
        rejects_to, on_size, on_progress: as for ``sojourn.read``.

    Raises:
        SojournError: a source cannot be read, or ``by`` or ``where`` names no column.
    """
    columns = COLUMNS if all_columns else SPLIT_COLUMNS
    extra = [c for c in (where or {}) if c not in columns]
    if spans or _names_runs(sources):
        extra += ["request_id", "trace_id", "span_id"]
    unknown = [c for c in extra if c not in COLUMNS]
    if unknown:
        raise SojournError(f"there is no column {unknown[0]!r}; columns are {', '.join(COLUMNS)}")
    requests = read(
        sources,
        spans=spans,
        columns=tuple(dict.fromkeys((*columns, *extra))),
        rejects_to=rejects_to,
        on_size=on_size,
        on_progress=on_progress,
    )
    return split_requests(requests, by=by, since=since, until=until, where=where, slo=slo)


def split_requests(
    requests: Requests,
    *,
    by: Sequence[str] = DEFAULT_GROUPS,
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    where: Mapping[str, object] | None = None,
    slo: float = SLO,
) -> SplitResult:
    """``split`` of requests already read; arguments as there."""
    unknown = [group for group in by if group not in GROUPS]
    if unknown:
        raise SojournError(f"cannot group by {unknown[0]!r}; choose from {', '.join(GROUPS)}")
    rows = selected_rows(requests.rows, since, until, where)
    rows, offsets = split_rows(rows, requests.spans)
    if requests.spool is None:
        rows = rows.collect(engine="streaming").lazy()
    served = without_upgraded(rows)
    overall = _overall(rows)
    figures = summaries(served, ["request_time", *SHOWN])
    means = _means(served)
    response = figures.pop("request_time")
    p99 = response["p99"] or 0.0
    tail_rows = served.filter(pl.col("request_time") >= p99)
    tail_means = _means(tail_rows)
    result = SplitResult(
        rows=rows,
        records=requests.records,
        names=requests.names,
        window=None if overall["first"] is None else (overall["first"], overall["last"]),
        clock=offsets,
        response_time=response,
        components=figures,
        means=means,
        queueing_share=_queueing_share(means),
        tail={
            "p99": {
                "threshold": response["p99"],
                "requests": tail_rows.select(pl.len()).collect().item(),
                "queueing_share": _queueing_share(tail_means),
                "components": tail_means,
            }
        },
        audit=audit(served, overall["upgraded"]),
        verdict=_verdict(means, tail_means, p99, overall["requests"], slo),
        by={},
        by_total={},
        sources={s: n for s in QUEUE_SOURCES if (n := overall[f"source/{s}"])},
        wasted=overall["wasted"] or 0.0,
        requests=overall["requests"],
        _source=requests,
    )
    for group in by:
        result.by[group], result.by_total[group] = _grouped(served, group)
    result.notes = notes(result)
    return result


def split_rows(rows: pl.LazyFrame, spans: pl.DataFrame | None = None) -> tuple[pl.LazyFrame, pl.DataFrame]:
    """The pure core: canonical rows (and spans) to rows with components, and the clock offsets used.

    Args:
        rows: canonical frame, at least ``SPLIT_COLUMNS`` (others pass through; missing ones become null).
        spans: as from ``sojourn.readers.spans.read_spans``; joining them needs ``request_id``,
            ``trace_id`` and ``span_id``.
    """
    facts = with_app_facts(with_spans(rows, spans))
    offsets = clock_offsets(facts)
    return with_components(with_clock_offset(facts, offsets)), offsets


def selected_rows(
    rows: pl.LazyFrame,
    since: datetime | float | None,
    until: datetime | float | None,
    where: Mapping[str, object] | None,
) -> pl.LazyFrame:
    """Rows that arrived in [since, until) and have the values of ``where``."""
    for bound, keep in ((since, pl.Expr.__ge__), (until, pl.Expr.__lt__)):
        if bound is not None:
            rows = rows.filter(keep(pl.col("start"), pl.lit(_instant(bound), INSTANT)))
    for column, value in (where or {}).items():
        rows = rows.filter(pl.col(column) == value)
    return rows


def _names_runs(sources: Sequence[Source] | Source) -> bool:
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    return any(os.path.isdir(s) for s in named)


def _instant(value: datetime | float) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return datetime.fromtimestamp(value, UTC)


def _overall(rows: pl.LazyFrame) -> dict[str, Any]:
    upgraded = pl.col("status") == SWITCHING_PROTOCOLS
    return (
        rows.select(
            pl.len().alias("requests"),
            upgraded.sum().alias("upgraded"),
            pl.col("start").min().alias("first"),
            pl.col("time").max().alias("last"),
            pl.col("wasted").sum().alias("wasted"),
            *((pl.col("queue_source") == s).sum().alias(f"source/{s}") for s in QUEUE_SOURCES),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )


def _means(rows: pl.LazyFrame) -> dict[str, float]:
    row = rows.select(pl.col(name).fill_null(0.0).mean() for name in COMPONENTS).collect(engine="streaming")
    return {name: value or 0.0 for name, value in row.row(0, named=True).items()}


def _queueing_share(means: dict[str, float]) -> float | None:
    total = math.fsum(means.values())
    return (means["connect"] + means["queue"]) / total if total > 0 else None


def _verdict(means: dict[str, float], tail: dict[str, float], p99: float, requests: int, slo: float) -> Verdict:
    if not requests:
        return Verdict("unknown", "There is nothing to judge: no request was accepted.", "unknown")
    return verdict(means, tail, p99, requests, slo)


def _grouped(rows: pl.LazyFrame, group: str) -> tuple[list[dict[str, object]], int]:
    shown = ("request_time", "queueing_delay", "service_time")
    exprs = [expr for column in shown for expr in summary_exprs(column)]
    share = (pl.col("queueing_delay").fill_null(0.0).sum() / pl.col("request_time").sum()).alias("share")
    table = (
        rows.group_by(group)
        .agg(pl.len().alias("requests"), pl.col("request_time").sum().alias("seconds"), share, *exprs)
        .sort("seconds", group, descending=[True, False], nulls_last=True)
        .collect(engine="streaming")
    )
    found = []
    for row in table.head(GROUP_LIMIT).iter_rows(named=True):
        named: dict[str, object] = {
            group: row[group],
            "requests": row["requests"],
            "queueing_share": row["share"],
        }
        for column in shown:
            key = "response_time" if column == "request_time" else column
            named[key] = summary_of(row, column)
        found.append(named)
    return found, len(table)


def checked_split(rows: pl.LazyFrame | pl.DataFrame, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """``split_rows`` for a frame of one's own: its columns are checked first, missing ones are null."""
    split_lazily, _ = split_rows(checked(rows.lazy(), "frame"), spans)
    return split_lazily.collect()


__all__ = ["GROUPS", "SplitResult", "checked_split", "split", "split_requests", "split_rows"]
