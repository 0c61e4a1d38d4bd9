"""Layout of tiers: time by service, calls, and how call durations grow with concurrent calls."""

from __future__ import annotations

from functools import partial

from sojourn.analyses.question import ReportContext
from sojourn.analyses.tiers.charts import load_chart, tiers_chart
from sojourn.analyses.tiers.load_dependence import LoadDependence
from sojourn.analyses.tiers.result import Tier, Tiers
from sojourn.analyses.tiers.run import tiers
from sojourn.model.formatting import counted, duration, formatted, milliseconds, percent, printable
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Queueing: from the caller's stamp to the start of service. Self: the span less the calls it waits for. "
    "Network: a call less the queueing and the span of the callee; clock offsets do not affect it."
)


@lay_out.register(Tiers)
def tiers_section(result: Tiers) -> Section:
    """Return the section of ``tiers``."""
    pictures = [
        Picture(
            "tiers-services",
            "Response time by service",
            "Mean seconds of a response by service: waiting for a worker, its own work, the network to it.",
            partial(tiers_chart, result),
            services_reading(result),
        )
    ]
    if any(load.correlation is not None for load in result.loads):
        pictures.append(
            Picture(
                "tiers-load",
                "Call duration by concurrent calls",
                "Mean seconds of the callee's own time, by the number of its concurrent calls: a rising line is a "
                "queue, a level one is slow code.",
                partial(load_chart, result),
                load_reading(result),
            )
        )
    return Section(
        key="tiers",
        title="Tiers: response time by service",
        sentence=f"{result.finding.sentence}.",
        measures=MEASURES,
        tables=(_services(result), _edges(result), *_loads(result)),
        pictures=tuple(pictures),
        notes=(_read(result), *result.notes),
    )


def services_reading(result: Tiers) -> str:
    """Return a sentence on the service where most of a response is spent."""

    def spent(tier: Tier) -> float:
        return sum(tier.seconds.values())

    if not result.services or not result.total:
        return f"The time of {counted(result.requests, 'request')} by service is unknown."
    top = max(result.services, key=spent)
    account = max(top.seconds, key=lambda name: top.seconds[name])
    accounts = {"queueing": "queueing for it", "self": "its own work", "network": "the network to it"}
    return (
        f"{printable(top.service, 60)} has {percent(spent(top) / result.total)} of the mean response of "
        f"{duration(result.total / result.requests)}, most of it {accounts.get(account, 'waiting or network')} "
        f"({duration(top.seconds[account] / result.requests)})."
    )


def load_reading(result: Tiers) -> str:
    """Return a sentence on the callee whose duration grows most with the load."""
    loads = [load for load in result.loads if load.correlation is not None and load.low and load.high]
    if not loads:
        return "No callee has enough calls: 0 lines."
    top = max(loads, key=lambda load: (load.high or 0.0) / (load.low or 1.0))
    return (
        f"{printable(top.service, 60)} takes {duration(top.low)} with few concurrent calls and {duration(top.high)} "
        f"with many: {_means(top)} (rank correlation {_correlation(top.correlation)})."
    )


def _read(result: Tiers) -> str:
    begin, end = result.window
    text = (
        f"{counted(result.spans, 'span')} of {counted(result.traces, 'trace')}, {counted(result.requests, 'request')} "
        f"in {duration((end - begin).total_seconds())} from {begin:%Y-%m-%d %H:%M:%S} UTC; a response takes "
        f"{milliseconds(result.response['mean'])} ms, {percent(result.queueing_share)} of it queueing somewhere"
    )
    if result.elsewhere and result.total:
        text += f", {percent(result.elsewhere / result.total)} outside the first service (uploads, retries, sending)"
    return text + "."


def _services(result: Tiers) -> Table:
    total = result.total
    rows = []
    for tier in result.services:
        share = sum(tier.seconds.values()) / total if total else None
        rows.append(
            (
                f"{tier.service} (no spans)" if tier.opaque else tier.service,
                f"{tier.visits:,}",
                percent(share),
                milliseconds(tier.queueing["mean"]),
                milliseconds(tier.queueing["p99"]),
                milliseconds(tier.self_time["mean"]),
                milliseconds(tier.self_time["p99"]),
                "–" if tier.opaque else milliseconds(tier.downstream["mean"]),
                percent(tier.utilisation),
            )
        )
    headings = ("service", "visits", "share", "queueing", "p99", "self", "p99", "below", "busy")
    return Table(headings, tuple(rows), title="services: share of the response, ms per visit (mean, p99), workers busy")


def _edges(result: Tiers) -> Table:
    rows = tuple(
        (
            f"{edge.caller} to {edge.callee}",
            f"{edge.calls:,}",
            milliseconds(edge.seconds["mean"]),
            milliseconds(edge.seconds["p50"]),
            milliseconds(edge.seconds["p99"]),
            milliseconds(edge.queueing["mean"]),
            milliseconds(edge.network["p50"]),
        )
        for edge in result.edges
    )
    headings = ("from, to", "calls", "mean", "p50", "p99", "queueing", "network")
    return Table(headings, rows, title="calls: ms per call; mean queueing, median network")


def _loads(result: Tiers) -> tuple[Table, ...]:
    loads = [load for load in result.loads if load.correlation is not None]
    if not loads:
        return ()
    rows = tuple(
        (
            load.service,
            f"{len(load.callers):,}",
            milliseconds(load.low),
            milliseconds(load.high),
            _correlation(load.correlation),
            _correlation(load.with_others),
            _means(load),
        )
        for load in loads
    )
    headings = ("callee", "callers", "few", "many", "correlation", "with others'", "")
    return (Table(headings, rows, title="callee duration, ms, with few and with many concurrent calls"),)


def _means(load: LoadDependence) -> str:
    if load.shared:
        return "shared queue"
    return "rises" if load.rises else "level"


def _correlation(value: float | None) -> str:
    return "–" if value is None else formatted(value, ".2f")


def report_section(context: ReportContext) -> Section | None:
    """Return the section of a report."""
    if context.traces is None:
        return None
    return tiers_section(tiers(context.traces, log=context.requests))
