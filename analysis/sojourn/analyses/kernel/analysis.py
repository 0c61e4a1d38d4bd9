"""Depths, fullness and refusals from samples of the kernel, and the queues that application servers report.

The accept queue of a socket with the limit L is full when it holds L + 1 connections. ListenOverflows counts each SYN
and each final ACK that met a full one; a client that repeats its SYN counts again, so they are packets, not clients.
ListenDrops includes them; the rest was dropped for another reason. Both are of a whole network namespace: which socket
it was is known only from samples with a full queue. No counter counts what a full Unix socket refused.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl

from sojourn.analyses.kernel.findings import findings_of
from sojourn.analyses.kernel.result import (
    DEPTHS,
    EVENTS,
    LOOP_FULL,
    QUEUES,
    RAINDROPS_FIGURES,
    SERVER_FIGURES,
    SOCKET_FIGURES,
    KernelResult,
)
from sojourn.host.sample import COUNTERS, Backlogs
from sojourn.host.samples import Samples, backward_steps
from sojourn.host.unix_diag import unix_address
from sojourn.model.errors import SojournError
from sojourn.timeline.windows import MOST, Windows

SECOND = timedelta(seconds=1)
GAP = 1.6  # periods between two samples from which on one is missing
FULL = pl.col("depth") > pl.col("limit")
WENT_BACK = pl.any_horizontal((pl.col(name) < 0).fill_null(False) for name in COUNTERS)  # a counter, between samples


def kernel(samples: Samples, *, backlogs: Backlogs | None = None) -> KernelResult:
    """Explain samples of the kernel.

    Args:
        samples: as from ``read_samples`` or ``samples_of``.
        backlogs: port, or path of a Unix socket -> requested backlog; overrides that of the samples.

    Raises:
        SojournError: there are no samples.
    """
    if not len(samples.times):
        raise SojournError("no sample of the kernel to explain")
    times = samples.times
    begin, end = times.min(), times.max()
    steps = [step / SECOND for step in times.diff().drop_nulls().to_list()]
    forward = sorted(step for step in steps if step > 0)
    period = forward[len(forward) // 2] if forward else None
    sockets = _labelled(samples.sockets, backlogs or {})
    steps_of_counters = samples.counters.select(
        pl.col("time").alias("end"), pl.col("time").shift().alias("begin"), pl.col(COUNTERS).diff()
    ).slice(1)
    increases = steps_of_counters.filter(~WENT_BACK)
    events = _events(increases)
    settings = dict(samples.settings.select("name", "value").iter_rows())
    changes = samples.settings.group_by("name").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)
    result = KernelResult(
        samples=len(times),
        period=period,
        begin=begin,  # type: ignore[arg-type]
        end=end,  # type: ignore[arg-type]
        seconds=sum(forward),
        sockets=_sockets(sockets),
        depths=_over_time(sockets, DEPTHS, times, period),
        events=_windowed_events(events),
        increases={
            name: int(increases[name].sum()) for name in COUNTERS if increases[name].null_count() < len(increases)
        },
        unseen=_unseen(events, sockets),
        resets=len(steps_of_counters) - len(increases),
        settings=settings,
        changed=tuple(sorted(changes["name"])),
        raindrops=_raindrops(samples.raindrops),
        servers=_servers(samples.servers),
        queues=_over_time(samples.servers, QUEUES, times, period),
        unavailable={
            what: (count, reason)
            for what, count, reason in samples.unavailable.group_by("what", maintain_order=True)
            .agg(pl.len(), pl.col("reason").last())
            .iter_rows()
        },
        missing=sum(round(step / period) - 1 for step in forward if step > GAP * period) if period else 0,
        backward=backward_steps(times),
        records=samples.records,
        names=samples.names,
    )
    return replace(result, findings=findings_of(result))


def _labelled(sockets: pl.DataFrame, backlogs: Backlogs) -> pl.DataFrame:
    """Return ``SOCKETS`` with ``socket``: the name, and the address where several sockets share a name."""
    by_key = {unix_address(key) if isinstance(key, str) else str(key): value for key, value in backlogs.items()}
    requested = pl.DataFrame(list(by_key.items()), {"key": pl.String, "backlog": pl.Int64}, orient="row")
    several = pl.struct("address", "port").n_unique().over("name") > 1
    host = pl.when(pl.col("address").str.contains(":", literal=True)).then(pl.format("[{}]", "address"))
    at = pl.coalesce(
        pl.format("{} at {}:{}", "name", host.otherwise("address"), "port"), pl.format("{} at {}", "name", "address")
    )
    return (
        sockets.with_columns(key=pl.coalesce(pl.col("port").cast(pl.String), "address"))
        .join(requested, on="key", how="left", maintain_order="left")
        .with_columns(
            socket=pl.when(several).then(at).otherwise("name"),
            asked=pl.coalesce("backlog", "asked"),  # codespell:ignore asked
        )
        .drop("backlog", "key")
    )


def _sockets(sockets: pl.DataFrame) -> pl.DataFrame:
    return (
        sockets.group_by("socket", "address", "port", maintain_order=True)
        .agg(
            samples=pl.len(),
            last=pl.col("depth").last(),
            deepest=pl.col("depth").max(),
            deepest_at=pl.col("time").get(pl.col("depth").arg_max()),
            mean=pl.col("depth").mean(),
            limit=pl.col("limit").last(),
            full=FULL.sum(),
            full_share=FULL.mean(),
            asked=pl.col("asked").last(),  # codespell:ignore asked
            syn_recv=pl.col("syn_recv").max(),
            open_while_full=pl.col("syn_recv").filter(FULL).max(),
        )
        .sort(
            "full_share", pl.col("deepest") / (pl.col("limit") + 1), "deepest", "port",
            descending=[True, True, True, False], maintain_order=True, nulls_last=True,
        )
        .select(pl.col(name).cast(dtype) for name, dtype in SOCKET_FIGURES.items())
    )  # fmt: skip


def _over_time(
    frame: pl.DataFrame, schema: dict[str, pl.DataType], times: pl.Series, period: float | None
) -> pl.DataFrame:
    """Return figures by sample, or their maxima by windows where there are more samples than a chart has room for.

    They are null where samples are missing. ``schema``: ``begin``, the column that names the socket or server, and the
    figures.
    """
    if not len(frame):
        return pl.DataFrame(schema=schema)
    _, name, *figures = schema
    columns = [pl.col(column).cast(dtype) for column, dtype in schema.items()]
    if len(times) <= MOST or period is None:
        plain = frame.with_columns(begin=pl.col("time")).select(columns)
        after = pl.col("begin").shift(-1).over(name)
        gap = timedelta(seconds=GAP * (period or 1.0))
        gaps = plain.filter(after - pl.col("begin") > gap).select(
            pl.col("begin") + timedelta(seconds=period or 1.0),
            name,
            *(pl.lit(None, schema[figure]).alias(figure) for figure in figures),
        )
        return pl.concat([plain, gaps]).sort("begin", maintain_order=True)
    windows, placed = _placed(frame, "time", times)
    every = pl.DataFrame({"begin": pl.Series(windows.begins, dtype=schema["begin"])}).join(
        frame.select(pl.col(name).unique(maintain_order=True)), how="cross"
    )
    most = placed.group_by("begin", name).agg(pl.col(figures).max())
    return every.join(most, on=["begin", name], how="left").sort("begin", maintain_order=True).select(columns)


def _placed(frame: pl.DataFrame, column: str, times: pl.Series) -> tuple[Windows, pl.DataFrame]:
    """Return ``frame`` with ``begin``, that of the window in which ``column`` lies."""
    base = times.min()
    seconds = (frame[column] - base).dt.total_microseconds().to_numpy() / 1e6
    length = (times.max() - base) / SECOND  # type: ignore[operator]
    windows = Windows.over(base, 0.0, length)  # type: ignore[arg-type]
    begins = pl.Series("begin", windows.begins, DEPTHS["begin"])
    return windows, frame.with_columns(begins.gather(windows.of(seconds)))


def _events(increases: pl.DataFrame) -> pl.DataFrame:
    events = increases.select(
        "begin",
        "end",
        overflows=pl.col("ListenOverflows"),
        other_drops=pl.col("ListenDrops") - pl.col("ListenOverflows"),
        syn_drops=pl.col("TCPReqQFullDrop"),
        cookies=pl.col("SyncookiesSent"),
    )
    return events.select(pl.col(name).cast(dtype) for name, dtype in EVENTS.items())


def _unseen(events: pl.DataFrame, sockets: pl.DataFrame) -> int:
    # The counter is of TCP.
    full = sockets.filter(FULL & pl.col("port").is_not_null())["time"].unique().implode()
    was_full = pl.col("begin").is_in(full) | pl.col("end").is_in(full)
    return int(events.filter(~was_full)["overflows"].sum() or 0)


def _windowed_events(events: pl.DataFrame) -> pl.DataFrame:
    if len(events) <= MOST:
        return events
    windows, placed = _placed(events.drop("begin"), "end", events["end"])
    sums = placed.group_by("begin").agg(pl.col("overflows", "other_drops", "syn_drops", "cookies").sum())
    width = timedelta(seconds=windows.seconds)
    return (
        sums.with_columns(end=pl.col("begin") + width)
        .sort("begin")
        .select(pl.col(name).cast(dtype) for name, dtype in EVENTS.items())
    )


def _raindrops(answers: pl.DataFrame) -> pl.DataFrame:
    return (
        answers.group_by("endpoint", maintain_order=True)
        .agg(
            answers=pl.col("seconds").count(),
            unanswered=pl.col("seconds").null_count(),
            slowest=pl.col("seconds").max(),
            calling=pl.col("calling").max(),
            queued=pl.col("queued").max(),
        )
        .select(pl.col(name).cast(dtype) for name, dtype in RAINDROPS_FIGURES.items())
    )


def _servers(answers: pl.DataFrame) -> pl.DataFrame:
    answered = pl.col("seconds").is_not_null()
    last = {name: pl.col(name).drop_nulls().last() for name in ("workers", "waiting", "limit")}
    all_busy = pl.when(pl.col("workers") > 0).then(pl.col("busy") >= pl.col("workers"))
    saturated = pl.when(pl.col("waiting").is_not_null()).then(all_busy & (pl.col("waiting") > 0))
    full = pl.col("event_loop_utilisation") >= LOOP_FULL
    figures = answers.group_by("server", "kind", maintain_order=True).agg(
        answers=answered.sum(),
        unanswered=answered.not_().sum(),
        reason=pl.col("reason").drop_nulls().last(),
        slowest=pl.col("seconds").max(),
        workers=last["workers"],
        busy=pl.col("busy").max(),
        busy_mean=pl.col("busy").mean(),
        waiting=last["waiting"],
        deepest=pl.col("waiting").max(),
        deepest_at=pl.col("time").get(pl.col("waiting").arg_max()),
        waiting_mean=pl.col("waiting").mean(),
        limit=last["limit"],
        all_busy=pl.when(all_busy.is_not_null().any()).then(all_busy.sum()),
        all_busy_share=all_busy.mean(),
        saturated=pl.when(saturated.is_not_null().any()).then(saturated.sum()),
        saturated_share=saturated.mean(),
        event_loop_delay_p99=pl.col("event_loop_delay_p99").max(),
        event_loop_delay_max=pl.col("event_loop_delay_max").max(),
        event_loop_utilisation=pl.col("event_loop_utilisation").max(),
        event_loop_full_share=full.mean(),
    )
    counted = (
        answers.filter(answered)
        .select("server", "kind", pl.col("limit_reached", "requests").diff().over("server", "kind", "instance"))
        .group_by("server", "kind")
        # A counter that went back is that of a new process: what it counted before this answer is unknown.
        .agg(_increase("limit_reached"), _increase("requests"))
    )
    return figures.join(counted, on=["server", "kind"], how="left", maintain_order="left").select(
        pl.col(name).cast(dtype) for name, dtype in SERVER_FIGURES.items()
    )


def _increase(name: str) -> pl.Expr:
    steps = pl.col(name).filter(pl.col(name) >= 0)
    return pl.when(steps.len() > 0).then(steps.sum()).alias(name)
