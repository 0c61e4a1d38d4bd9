"""The split: response time into queueing delay, service time and the rest, over all requests and by group."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.errors import SojournError
from sojourn.explain.audit import Audit, audit
from sojourn.explain.clock import clock_offsets, with_clock_offset
from sojourn.explain.components import (
    COMPONENTS,
    SWITCHING_PROTOCOLS,
    with_app_facts,
    with_components,
    with_spans,
)
from sojourn.explain.statistics import FIGURES, Summary, summaries, summary_exprs, summary_of
from sojourn.explain.verdict import SLO, Verdict, verdict
from sojourn.frame import COLUMNS, INSTANT, SPLIT_COLUMNS, Records, Requests, checked
from sojourn.readers.requests import Progress, read

GROUPS = ("route", "upstream", "worker", "status", "service")
DEFAULT_GROUPS = ("route", "upstream")
GROUP_LIMIT = 1_000  # rows of one grouping in the JSON, the busiest first
SHOWN = ("queueing_delay", *COMPONENTS)

Source = str | os.PathLike[str]


@dataclass
class SplitResult:
    """What a split found. Durations in seconds; ``rows`` is the frame with the components of every request.

    Attributes:
        rows: canonical columns read, plus ``COMPONENTS``, ``queueing_delay``, ``queue_by_duration``, ``queue_source``,
            ``clock_offset``, ``proxied``, ``answered`` and ``wasted``. Upgraded connections (101) are in it.
        means: component -> mean over all requests, unknown counted as 0: these sum to the mean response time.
        tail: "p99" -> requests, threshold, queueing_share and component means at and above it.
        by: group column -> one row per value, busiest first.
        sources: queue_source -> requests.
    """

    rows: pl.LazyFrame
    records: Records
    names: tuple[str, ...]
    window: tuple[datetime, datetime] | None
    clock: pl.DataFrame
    response_time: Summary
    components: dict[str, Summary]
    means: dict[str, float]
    queueing_share: float | None
    tail: dict[str, dict[str, object]]
    audit: Audit
    verdict: Verdict
    by: dict[str, list[dict[str, object]]]
    by_total: dict[str, int]
    sources: dict[str, int]
    wasted: float = 0.0
    notes: list[str] = field(default_factory=list)
    requests: int = 0
    _source: Requests | None = None  # keeps the temporary folder alive as long as the rows

    @property
    def served(self) -> pl.LazyFrame:
        """The rows the distributions are made of: without upgraded connections, which last as long as they are used."""
        return without_upgraded(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The object that ``sojourn split --json`` prints."""
        window = None
        if self.window:
            seconds = (self.window[1] - self.window[0]).total_seconds()
            window = {"from": _iso(self.window[0]), "to": _iso(self.window[1]), "seconds": seconds}
        return rounded({
            "records": self.records.to_dict(),
            "requests": self.requests,
            "window": window,
            "clock": self.clock.to_dicts(),
            "response_time": self.response_time,
            "components": self.components,
            "means": self.means,
            "queueing_share": self.queueing_share,
            "tail": self.tail,
            "queue_source": self.sources,
            "wasted_seconds": self.wasted,
            "audit": self.audit.to_dict(),
            "verdict": self.verdict.to_dict(),
            "notes": self.notes,
            "by": self.by,
        })

    def write_parquet(self, path: Source) -> None:
        """Write ``rows`` to a Parquet file, whole or not at all.

        Raises:
            SojournError: the file cannot be written.
        """
        target = Path(path)
        partial = target.with_name(target.name + ".partial")
        try:
            self.rows.sink_parquet(partial, compression="zstd")
            partial.replace(target)
        except (OSError, pl.exceptions.PolarsError) as error:
            partial.unlink(missing_ok=True)
            raise SojournError(f"{target}: cannot be written ({str(error).splitlines()[0]})") from error


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
    rejects_to: object | None = None,
    on_size: object | None = None,
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
        extra += ["request_id", "trace_id"]
    unknown = [c for c in extra if c not in COLUMNS]
    if unknown:
        raise SojournError(f"there is no column {unknown[0]!r}; columns are {', '.join(COLUMNS)}")
    requests = read(
        sources,
        spans=spans,
        columns=tuple(dict.fromkeys((*columns, *extra))),
        rejects_to=rejects_to,  # type: ignore[arg-type]
        on_size=on_size,  # type: ignore[arg-type]
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
        sources={s: n for s in ("stamp", "span", "duration", "none") if (n := overall[f"source/{s}"])},
        wasted=overall["wasted"] or 0.0,
        requests=overall["requests"],
        _source=requests,
    )
    for group in by:
        result.by[group], result.by_total[group] = _grouped(served, group)
    result.notes = _notes(result)
    return result


def split_rows(rows: pl.LazyFrame, spans: pl.DataFrame | None = None) -> tuple[pl.LazyFrame, pl.DataFrame]:
    """The pure core: canonical rows (and spans) to rows with components, and the clock offsets used.

    Args:
        rows: canonical frame, at least ``SPLIT_COLUMNS`` (others pass through; missing ones become null).
        spans: as from ``sojourn.readers.spans.read_spans``; joining them needs ``request_id`` and ``trace_id``.
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


def without_upgraded(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows but those with status 101: their request time is how long the connection was used."""
    return rows.filter(pl.col("status") != SWITCHING_PROTOCOLS)


def _names_runs(sources: Sequence[Source] | Source) -> bool:
    named = [sources] if isinstance(sources, str | os.PathLike) else sources
    return any(os.path.isdir(s) for s in named)


def _instant(value: datetime | float) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return datetime.fromtimestamp(value, UTC)


def rounded(value: Any) -> Any:
    """``value`` with every float in it rounded to a nanosecond's digits: no 0.30000000000000004 reaches a reader."""
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(inner) for inner in value]
    return value


def _iso(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _overall(rows: pl.LazyFrame) -> dict[str, object] | dict[str, int]:  # type: ignore[type-arg]
    upgraded = pl.col("status") == SWITCHING_PROTOCOLS
    return (
        rows.select(
            pl.len().alias("requests"),
            upgraded.sum().alias("upgraded"),
            pl.col("start").min().alias("first"),
            pl.col("time").max().alias("last"),
            pl.col("wasted").sum().alias("wasted"),
            *((pl.col("queue_source") == s).sum().alias(f"source/{s}") for s in ("stamp", "span", "duration", "none")),
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
        named: dict[str, object] = {group: row[group], "requests": row["requests"], "queueing_share": row["share"]}
        for column in shown:
            key = "response_time" if column == "request_time" else column
            named[key] = summary_of(row, column)
        found.append(named)
    return found, len(table)


def _notes(result: SplitResult) -> list[str]:
    """What the reader must know before believing or despairing, and the step that mends it."""
    notes = []
    none = result.sources.get("none", 0)
    known = result.audit.app_known
    if known is not None and known < 0.5:
        notes.append(
            f"The app said nothing of its own on {1 - known:.0%} of its answers, so waiting and working cannot be told "
            "apart there. To add it: wrap the app in the middleware (collector/middleware), which answers "
            "X-Queueing-Delay and X-Service-Time, and include sojourn_proxy.conf where nginx proxies."
        )
    elif none and none > 0.01 * result.requests:
        notes.append(
            f"{none:,} requests have no answer from the app (504, 499, refused, or never proxied); give --spans to learn what "
            "its workers did for them."
        )
    if result.sources.get("duration"):
        notes.append(
            f"{result.sources['duration']:,} queueing delays come from durations alone (header time - service time): no "
            "valid stamp reached the app. Check that X-Request-Start is sent and passes every hop."
        )
    if result.audit.garbled:
        notes.append(f"{result.audit.garbled:,} answers had timing headers that are not durations; they count as absent.")
    for row in result.clock.iter_rows(named=True):
        if row["requests"] >= 100 and row["uncertainty"] > 0.010:
            notes.append(
                f"The clock of {row['upstream']} is known to ±{row['uncertainty'] * 1000:.0f} ms only: its queue was "
                "never seen empty in this window."
            )
    return notes


def checked_split(rows: pl.LazyFrame | pl.DataFrame, spans: pl.DataFrame | None = None) -> pl.DataFrame:
    """``split_rows`` for a frame of one's own: its columns are checked first, missing ones are null."""
    split_lazily, _ = split_rows(checked(rows.lazy(), "frame"), spans)
    return split_lazily.collect()


__all__ = ["FIGURES", "GROUPS", "SplitResult", "checked_split", "split", "split_requests", "split_rows"]
