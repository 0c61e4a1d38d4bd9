"""Divide the response time of requests among the services they pass, and name the bottleneck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import polars as pl

from sojourn.analyses.tiers.forest import forest_of
from sojourn.analyses.tiers.hops import Hops, hops_of
from sojourn.analyses.tiers.load_dependence import load_dependences_of
from sojourn.analyses.tiers.requests import accounts_of, first_service, requests_of, with_log
from sojourn.analyses.tiers.result import Edge, Tier, Tiers
from sojourn.analyses.tiers.verdict import Balance, finding_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted, duration, percent
from sojourn.model.frame import HALF_MICROSECOND
from sojourn.model.statistics import summaries
from sojourn.sources.traces import Traces


def tiers(traces: Traces, log: pl.LazyFrame | None = None, *, service: str | None = None) -> Tiers:
    """Divide the response time of requests among the services they pass.

    Args:
        traces: as from ``sojourn.sources.traces.read_traces``.
        log: split rows of the proxy in front (``SplitResult.rows`` with ``request_id``, ``trace_id``, ``span_id``):
            only its requests are analysed, with its queueing delays and response times.
        service: the service of the finding; None: the first service of most requests.

    Returns:
        Figures by service and by call, and the finding.

    Raises:
        SojournError: there is no span, no request, or no such service.
    """
    if not len(traces.spans):
        raise SojournError("no span: give files of OTLP/JSON lines with spans that have ids, a start and an end")
    forest = forest_of(traces.spans)
    spans, unmatched = with_log(traces.spans, forest, log)
    hops = hops_of(spans, forest)
    visits = hops.visits
    requests = requests_of(visits, logged=log is not None)
    if not len(requests):
        lacking = "is in the log" if log is not None else "begins with a usable span"
        raise SojournError(f"no request: no trace {lacking}")
    if service is not None and not (visits["service"] == service).any():
        names = ", ".join(sorted(visits["service"].unique())[:20])
        raise SojournError(f"no span of the service {service!r}; services: {names}")
    subject = service if service is not None else first_service(hops, requests)
    per_request, spent = accounts_of(hops, requests)
    services = _tiers(hops, spent)
    loads = load_dependences_of(hops)
    roots = visits.filter(pl.col("call").is_null() & (pl.col("kind") != "consumer"))
    served = visits["kind"] == "server"
    doubts: dict[str, float] = {
        **traces.refused,
        "broken": int(forest.broken.sum()),
        "orphans": len(roots) - len(requests),
        "log_rows_without_spans": unmatched,
        "cut": hops.cut,
        "cut_seconds": hops.cut_seconds,
        "longer_than_their_call": hops.longer_than_call,
        "negative_queueing": int((visits["queueing"] < -HALF_MICROSECOND).sum()),
        "unknown_queueing": int((visits["queueing"].is_null() & served).sum()),
        "messages": int((visits["kind"] == "consumer").sum()),
    }
    doubts = {name: count for name, count in doubts.items() if count}
    figures = summaries(per_request.lazy(), ("response", "queueing"))
    total = float(per_request["response"].sum())
    base = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=hops.base // 1000)
    length = (spans["end"].to_numpy().max() - hops.base) / 1e9
    return Tiers(
        spans=len(spans),
        traces=spans["trace_id"].n_unique(),
        requests=len(requests),
        window=(base, base + timedelta(seconds=float(length))),
        response=figures["response"],
        queueing=figures["queueing"],
        queueing_share=float(per_request["queueing"].sum()) / total if total > 0 else None,
        elsewhere=float(per_request["elsewhere"].sum()),
        services=tuple(services),
        edges=tuple(_edges(hops.calls)),
        loads=tuple(loads),
        finding=finding_of(subject, _balances(hops, services), {(load.service, load.opaque): load for load in loads}),
        per_request=per_request,
        doubts=doubts,
        notes=_notes(doubts, len(visits), logged=log is not None),
    )


def _notes(doubts: Mapping[str, float], visits: int, *, logged: bool) -> tuple[str, ...]:
    """Return a sentence for each kind of defect; ``doubts``: kind -> number of spans, visits, calls or lines."""
    notes = []

    def note(name: str, text: str) -> None:
        if doubts.get(name):
            notes.append(f"{int(doubts[name]):,} {text}")

    unknown = doubts.get("unknown_queueing", 0)
    if unknown:
        notes.append(
            f"{counted(int(unknown), 'visit')} ({percent(unknown / visits)}) without a queueing delay: the time "
            "between the start of the call and the visit is shown as waiting or network; the middleware records it"
        )
    other = "are not in the log" if logged else "have lost their parent, so their request is unknown"
    note("orphans", f"trees of spans {other}: they count for their services, not for the requests")
    note("log_rows_without_spans", "requests of the log have no span: not sampled, or outside the window")
    note("broken", "spans are on a cycle of parents or below one, and are left out")
    if doubts.get("cut"):
        notes.append(
            f"{counted(int(doubts['cut']), 'call ends', 'calls end')} after the calling visit (asynchronous calls, or "
            f"clocks that differ); {duration(doubts['cut_seconds'])} of them were cut off"
        )
    note("longer_than_their_call", "visits lasted longer than the call they answered; their network time is negative")
    note("negative_queueing", "queueing delays are below zero because clocks differ; they are not corrected")
    note("messages", "visits received a message: no request waits for them, so they are in no response")
    note("not_an_export", "lines are not OTLP exports and were skipped")
    note("invalid_span_time", "spans have no valid start and end, and are left out")
    note("no_id", "spans have no trace id or span id, and are left out")
    note("duplicates", "spans were delivered more than once, and count once")
    return tuple(notes)


def _tiers(hops: Hops, spent: Mapping[tuple[str, bool], Mapping[str, float]]) -> list[Tier]:
    """Return the figures of every service, the one with the most seconds of the requests (``spent``) first."""
    rows = []
    for (service,), visits in hops.visits.partition_by("service", as_dict=True, maintain_order=True).items():
        figures = summaries(visits.lazy(), ("queueing", "own", "downstream", "seconds"))
        workers = visits.filter(pl.col("worker").is_not_null()).select("instance", "worker").n_unique()
        length = float((visits["start"] + visits["seconds"]).max() or 0.0) - float(visits["start"].min() or 0.0)  # type: ignore[arg-type]
        all_workers = workers and not visits["worker"].null_count() and length > 0
        rows.append(
            Tier(
                service=service,
                opaque=False,
                instances=visits["instance"].drop_nulls().n_unique(),
                workers=workers,
                visits=len(visits),
                queueing=figures["queueing"],
                self_time=figures["own"],
                downstream=figures["downstream"],
                span=figures["seconds"],
                waits_known=visits["queueing"].count(),
                utilisation=float(visits["seconds"].sum()) / (workers * length) if all_workers else None,
                seconds=dict(spent[service, False]),
            )
        )
    opaque = hops.calls.filter("opaque").partition_by("callee", as_dict=True, maintain_order=True)
    for (service,), calls in opaque.items():
        figures = summaries(calls.lazy().with_columns(none=pl.lit(None, pl.Float64)), ("seconds", "none"))
        took, none = figures["seconds"], figures["none"]
        rows.append(Tier(service, True, 0, 0, len(calls), none, took, none, took, 0, None, dict(spent[service, True])))
    return sorted(rows, key=lambda tier: (-sum(tier.seconds.values()), tier.service))


def _edges(calls: pl.DataFrame) -> Iterator[Edge]:
    """Yield the figures of every pair of caller and callee, the one with most of the callers' time first."""
    keys = ("service", "callee", "opaque")
    order = (
        calls.group_by(keys).agg(time=pl.col("share").sum()).sort("time", *keys, descending=[True, False, False, False])
    )
    parts = calls.partition_by(keys, as_dict=True)
    for service, callee, opaque, time in order.iter_rows():
        part = parts[service, callee, opaque]
        network = pl.when(pl.col("queueing").is_not_null()).then("network").alias("network")
        figures = summaries(part.lazy().with_columns(network), ("seconds", "queueing", "network"))
        yield Edge(
            caller=service,
            callee=callee,
            opaque=opaque,
            calls=len(part),
            instances=part["instance"].drop_nulls().n_unique(),
            time=time,
            **figures,
        )


def _balances(hops: Hops, services: list[Tier]) -> dict[tuple[str, bool], Balance]:
    """Return the balance of every service, over all its visits, with those of unknown requests."""
    balances = {}
    calls = hops.calls.group_by("service", "callee", "opaque").agg(pl.col("share").sum())
    reached = hops.calls.group_by("callee", "opaque").agg(
        between=(pl.col("seconds") - pl.col("callee_seconds")).sum(), own=pl.col("seconds").sum()
    )
    between = {(row["callee"], row["opaque"]): row for row in reached.iter_rows(named=True)}
    waits = dict(hops.visits.group_by("service").agg(pl.col("queueing").mean()).iter_rows())
    own = dict(hops.visits.group_by("service").agg(pl.col("own").sum()).iter_rows())
    for tier in services:
        key = (tier.service, tier.opaque)
        if tier.opaque:
            balances[key] = Balance(tier.service, True, tier.visits, 0.0, False, between[key]["own"], {})
            continue
        bounded = 2 * tier.waits_known < tier.visits
        if not bounded:
            waited = (waits[tier.service] or 0.0) * tier.visits
        else:
            waited = between[key]["between"] if key in between else 0.0
        below = calls.filter(pl.col("service") == tier.service).select("callee", "opaque", "share")
        balances[key] = Balance(
            tier.service,
            False,
            tier.visits,
            waited,
            bounded,
            own[tier.service],
            {(callee, opaque): share for callee, opaque, share in below.iter_rows()},
            tier.utilisation,
        )
    return balances
