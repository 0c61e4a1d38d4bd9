"""Divide the time of every hop: waiting for a worker, its own work, or waiting for calls.

    queueing    before the hop's entry: the app's start less the stamp of its caller (or the delay in a log)
    self        the entry's span less the union of the hop's calls, each cut to the span
    downstream  that union. Where calls overlap, every instant of it is shared equally among the concurrent calls, so
                that the shares add up to it
    network     of a call: its duration less the queueing and the duration of its visit. A difference of two durations,
                each by one clock: clock offsets do not affect it. Signed

A call of duration c with a share a of its caller's time passes a/c on to the visits below it. So, along a whole tree,
with w the product of such shares from the root down,

    queueing + duration of the root = Σ over hops w · (queueing + self) + Σ over calls w · (network, or all of it)

exactly: every second of a response is in one account of one service.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from sojourn.analyses.tiers.forest import NONE, Forest, Indices
from sojourn.model.arrays import Floats

UNNAMED = "(not named)"


@dataclass(frozen=True)
class Hops:
    """Visits and calls.

    Attributes:
        visits: one row per hop. ``entry`` (index of its span), ``service``, ``instance``, ``worker``, ``kind``,
            ``trace_id``, ``request_time`` (s, of a log; null: not in it), ``child`` (it names a parent), ``lost`` (the
            parent is not among the spans), ``start`` (s after base), ``seconds``, ``queueing`` (s, null: unknown),
            ``own`` (self), ``downstream``, ``call`` (row of ``calls`` it answered, null: a root), ``root`` (row of
            ``visits`` its tree begins at), ``share`` (w above).
        calls: one row per call. ``caller`` (row of ``visits``), ``service`` and ``instance`` of the caller, ``callee``
            (service; of an opaque call, the name in the caller's span), ``opaque`` (the callee recorded no span),
            ``start``, ``end`` (s after base), ``seconds``, ``share`` (s of its caller's time), ``queueing`` (s, null:
            unknown, or opaque), ``callee_seconds``, ``callee_downstream``, ``network`` (s; including unknown queueing;
            null: opaque).
        base: unix ns of the instant 0.
        cut: number of calls that end more than a millisecond after the calling hop, and were cut to it.
        cut_seconds: the time that was cut off.
        longer_than_call: visits that lasted longer than the call they answered: the call did not wait for their end,
            or the two clocks run at different rates.
    """

    visits: pl.DataFrame
    calls: pl.DataFrame
    base: int
    cut: int
    cut_seconds: float
    longer_than_call: int


def hops_of(spans: pl.DataFrame, forest: Forest) -> Hops:
    """Return the hops and calls of spans, as from ``with_log``."""
    start_ns = spans["start"].to_numpy()
    base = int(start_ns.min()) if len(spans) else 0
    start = (start_ns - base) / 1e9
    end = (spans["end"].to_numpy() - base) / 1e9
    logged = spans["queueing_delay"].to_numpy()
    second = forest.twin
    queueing = np.where(np.isnan(logged) & (second >= 0), logged[second], logged) if len(spans) else logged

    entries = np.flatnonzero(forest.entry)
    visit_of = np.full(len(spans), NONE)
    visit_of[entries] = np.arange(len(entries))
    calls, callers = _calls(spans, forest)
    call_of = np.full(len(spans), NONE)
    call_of[calls] = np.arange(len(calls))

    # A call without a CLIENT span begins when its callee's queueing begins.
    direct = forest.answers[calls] == calls
    begun = np.where(direct, start[calls] - np.maximum(np.nan_to_num(queueing[calls]), 0.0), start[calls])
    caller = visit_of[callers]
    first, last = np.maximum(begun, start[callers]), np.minimum(end[calls], end[callers])
    last = np.maximum(last, first)
    share = _shared(caller, first, last)
    lengths = end[calls] - begun
    beyond = lengths - (last - first)

    answered = forest.answers[entries]
    call = np.where(answered >= 0, call_of[np.maximum(answered, 0)], NONE)
    seconds = end[entries] - start[entries]
    downstream = np.bincount(caller, share, len(entries))
    inner = call >= 0
    reached = np.bincount(call[inner], minlength=len(calls)) > 0
    beneath = np.bincount(call[inner], seconds[inner], len(calls))
    waits = queueing[entries]
    waited = np.bincount(call[inner], waits[inner], len(calls))  # NaN where one of them is unknown
    waited_at_least = np.bincount(call[inner], np.nan_to_num(waits[inner]), len(calls))
    visits = spans[entries].select("service", "instance", "worker", "kind", "trace_id", "request_time")
    visits = visits.with_columns(
        entry=entries,
        lost=forest.lost[entries],
        child=spans[entries]["parent_span_id"].is_not_null(),
        start=start[entries],
        seconds=seconds,
        queueing=pl.Series(waits, nan_to_null=True),
        own=seconds - downstream,
        downstream=downstream,
        call=pl.Series(call).replace(NONE, None),
        root=visit_of[forest.root[entries]],
        share=_passed_on(call, caller, np.divide(share, lengths, out=np.zeros_like(share), where=lengths > 0)),
    )
    callee = np.full(len(calls), NONE)
    callee[call[inner]] = np.flatnonzero(inner)
    services = visits["service"].fill_null(UNNAMED)
    peers = spans[calls]["peer"].fill_null(UNNAMED)
    recorded = services.gather(np.maximum(callee, 0)) if len(services) else services
    call_table = pl.DataFrame(
        {
            "caller": caller,
            "service": services.gather(caller),
            "instance": visits["instance"].gather(caller),
            "callee": recorded.zip_with(pl.Series(reached), peers) if len(calls) else peers,
            "opaque": ~reached,
            "start": begun,
            "end": end[calls],
            "seconds": lengths,
            "share": share,
            "queueing": pl.Series(np.where(reached, waited, np.nan), nan_to_null=True),
            "callee_seconds": beneath,
            "callee_downstream": np.bincount(call[inner], downstream[inner], len(calls)),
            "network": pl.Series(np.where(reached, lengths - beneath - waited_at_least, np.nan), nan_to_null=True),
        }
    )
    visits = visits.with_columns(pl.col("service").fill_null(UNNAMED))
    longer = int((reached & ~direct & (beneath > lengths + 1e-6)).sum())
    far = beyond > 1e-3
    return Hops(visits, call_table, base, int(far.sum()), float(beyond[far].sum()), longer)


def _calls(spans: pl.DataFrame, forest: Forest) -> tuple[Indices, Indices]:
    """Return the spans that are calls, and the entry of the calling hop of each."""
    index = np.arange(len(spans))
    own = (forest.call == index) & ~forest.broken
    direct = (forest.answers == index) & ~forest.broken
    calls = np.flatnonzero(own | direct)
    own_hop = own[calls]
    above = np.maximum(forest.parent[calls], 0)
    return calls, np.where(own_hop, forest.hop[calls], forest.hop[above])


def _shared(owner: Indices, first: Floats, last: Floats) -> Floats:
    """Return the seconds of each interval, with every instant shared equally among one owner's concurrent intervals."""
    count = len(first)
    if not count:
        return np.zeros(0)
    instants = np.concatenate([first, last])
    owners = np.concatenate([owner, owner])
    steps = np.concatenate([np.ones(count), -np.ones(count)])
    order = np.lexsort((instants, owners))
    at, owned_by = instants[order], owners[order]
    active = np.cumsum(steps[order])
    length = np.diff(at, append=at[-1])
    length[np.append(owned_by[1:] != owned_by[:-1], True)] = 0.0
    each = np.divide(length, active, out=np.zeros_like(length), where=active > 0)
    before = np.empty(2 * count)
    before[order] = np.concatenate([[0.0], np.cumsum(each)[:-1]])
    return np.maximum(before[count:] - before[:count], 0.0)


def _passed_on(call: Indices, caller: Indices, ratio: Floats) -> Floats:
    """Return per visit the product of ``ratio`` over the calls between it and its root."""
    count = len(call)
    inner = call >= 0
    up = np.arange(count)
    up[inner] = caller[call[inner]]
    share = np.ones(count)
    share[inner] = ratio[call[inner]]
    for _ in range(count.bit_length() + 1):
        share = share * share[up]  # a root's is 1
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    return share
