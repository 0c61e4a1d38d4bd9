"""Across tiers, laid out: whom the time is spent at, which calls it is, and whether a callee gives way under load."""

from __future__ import annotations

from sojourn.analyses.question import ReportContext
from sojourn.analyses.tiers.analysis import Load, Tier, Tiers
from sojourn.analyses.tiers.run import tiers
from sojourn.model.formatting import counted, duration, formatted, milliseconds, percent, printable
from sojourn.present.display import lay_out
from sojourn.present.section import Picture, Section, Table

MEASURES = (
    "Queueing: from the stamp a service was sent to its start. Self: its span less the calls it waits for. "
    "Network: a call less the queueing and the span it led to, without any clock."
)


@lay_out.register(Tiers)
def tiers_section(found: Tiers) -> Section:
    """What ``tiers`` found, as a section."""
    from sojourn.analyses.tiers.charts import load_chart, tiers_chart  # noqa: PLC0415 - Altair takes its time to load

    pictures = [
        Picture(
            "tiers-services",
            "Where a response is spent",
            "Mean seconds of a response by service: waiting for its worker, its own work, the network to it.",
            lambda: tiers_chart(found),
            services_reading(found),
        )
    ]
    if any(load.correlation is not None for load in found.loads):
        pictures.append(
            Picture(
                "tiers-load",
                "What a call takes, by the calls under way",
                "Mean seconds the callee itself takes, against the calls it had to answer at once: a line that rises "
                "is a queue, a level one is its code.",
                lambda: load_chart(found),
                load_reading(found),
            )
        )
    return Section(
        key="tiers",
        title="Across tiers",
        sentence=f"{found.finding.sentence}.",
        measures=MEASURES,
        tables=(_services(found), _edges(found), *_loads(found)),
        pictures=tuple(pictures),
        notes=(_read(found), *found.notes),
    )


def services_reading(found: Tiers) -> str:
    """The service where most of a response is spent, and on what there."""

    def spent(tier: Tier) -> float:
        return sum(tier.seconds.values())

    if not found.services or not found.total:
        return f"No time of {counted(found.requests, 'request')} is known by service."
    top = max(found.services, key=spent)
    account = max(top.seconds, key=lambda name: top.seconds[name])
    words = {"queueing": "queueing for it", "self": "its own work", "network": "the network to it"}
    return (
        f"{printable(top.service, 60)} has {percent(spent(top) / found.total)} of the mean response of "
        f"{duration(found.total / found.requests)}, most of it {words.get(account, 'waiting or network')} "
        f"({duration(top.seconds[account] / found.requests)})."
    )


def load_reading(found: Tiers) -> str:
    """The callee that takes most more under load than without."""
    known = [load for load in found.loads if load.correlation is not None and load.low and load.high]
    if not known:
        return "No callee has calls enough: 0 lines."
    top = max(known, key=lambda load: (load.high or 0.0) / (load.low or 1.0))
    return (
        f"{printable(top.service, 60)} takes {duration(top.low)} with few calls under way and {duration(top.high)} "
        f"with many: {_means(top)} (rank correlation {_correlation(top.correlation)})."
    )


def _read(found: Tiers) -> str:
    begin, end = found.window
    text = (
        f"{counted(found.spans, 'span')} of {counted(found.traces, 'trace')}, {counted(found.requests, 'request')} in "
        f"{duration((end - begin).total_seconds())} from {begin:%Y-%m-%d %H:%M:%S} UTC; a response takes "
        f"{milliseconds(found.response['mean'])} ms, {percent(found.queueing_share)} of it queueing somewhere"
    )
    if found.elsewhere and found.total:
        text += f", {percent(found.elsewhere / found.total)} outside of the first service (uploads, retries, sending)"
    return text + "."


def _services(found: Tiers) -> Table:
    total = found.total
    rows = []
    for tier in found.services:
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
    return Table(headings, tuple(rows), title="services: share of the response, ms a visit (mean, p99), workers busy")


def _edges(found: Tiers) -> Table:
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
        for edge in found.edges
    )
    headings = ("from, to", "calls", "mean", "p50", "p99", "queueing", "network")
    return Table(headings, rows, title="calls: ms a call; mean queueing, median network")


def _loads(found: Tiers) -> tuple[Table, ...]:
    known = [load for load in found.loads if load.correlation is not None]
    if not known:
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
        for load in known
    )
    headings = ("callee", "callers", "few", "many", "correlation", "with others'", "")
    return (Table(headings, rows, title="what a callee takes, ms, by the calls under way when one arrives"),)


def _means(load: Load) -> str:
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
