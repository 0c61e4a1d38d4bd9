"""Figures by service and by edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from sojourn.analyses.tiers.hops import Hops
from sojourn.analyses.tiers.result import Edge, Tier
from sojourn.analyses.tiers.verdict import Balance
from sojourn.model.statistics import summaries


def tiers_of(hops: Hops, spent: Mapping[tuple[str, bool], Mapping[str, float]]) -> list[Tier]:
    """Return the figures of every service, the one with the most seconds of the requests (``spent``) first."""
    tiers = []
    for (service,), visits in hops.visits.partition_by("service", as_dict=True, maintain_order=True).items():
        figures = summaries(visits.lazy(), ("queueing", "own", "downstream", "seconds"))
        workers = visits.filter(pl.col("worker").is_not_null()).select("instance", "worker").n_unique()
        length = float((visits["start"] + visits["seconds"]).max() or 0.0) - float(visits["start"].min() or 0.0)  # type: ignore[arg-type]
        all_workers = workers and not visits["worker"].null_count() and length > 0
        tiers.append(
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
    for (service,), calls in (
        hops.calls.filter("opaque").partition_by("callee", as_dict=True, maintain_order=True).items()
    ):
        figures = summaries(calls.lazy().with_columns(none=pl.lit(None, pl.Float64)), ("seconds", "none"))
        took, none = figures["seconds"], figures["none"]
        tiers.append(Tier(service, True, 0, 0, len(calls), none, took, none, took, 0, None, dict(spent[service, True])))
    return sorted(tiers, key=lambda tier: (-sum(tier.seconds.values()), tier.service))


def edges_of(calls: pl.DataFrame) -> Iterator[Edge]:
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
            seconds=figures["seconds"],
            queueing=figures["queueing"],
            network=figures["network"],
            time=time,
        )


def balances_of(hops: Hops, tiers: list[Tier]) -> dict[tuple[str, bool], Balance]:
    """Return the balance of every service, over all its visits, with those of unknown requests."""
    balances = {}
    calls = hops.calls.group_by("service", "callee", "opaque").agg(pl.col("share").sum())
    reached = hops.calls.group_by("callee", "opaque").agg(
        between=(pl.col("seconds") - pl.col("callee_seconds")).sum(), own=pl.col("seconds").sum()
    )
    between = {(row["callee"], row["opaque"]): row for row in reached.iter_rows(named=True)}
    waits = dict(hops.visits.group_by("service").agg(pl.col("queueing").mean()).iter_rows())
    own = dict(hops.visits.group_by("service").agg(pl.col("own").sum()).iter_rows())
    for tier in tiers:
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
