"""Trees of spans: the visit to a service that each span belongs to, and the call that each visit answered.

A **hop** is one visit of a request to a service. It begins at an *entry*: a SERVER or CONSUMER span, a span whose
parent is of another service, or a span whose parent is not among the spans. All spans below it, down to the next
entries, belong to the same hop. A **call** is the time a hop waits for another service: the outermost CLIENT span of
the hop, or, if the caller recorded none, the SERVER span whose parent is in the hop.

Paths upward are followed by pointer doubling (Wyllie 1979): the distance doubles with every step, so that a chain of a
million spans takes twenty steps, and a path on a cycle never reaches an end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE = -1


@dataclass(frozen=True)
class Forest:
    """Trees of n spans; every attribute has n values, -1 for none.

    Attributes:
        parent: index of the parent span.
        entry: whether a hop begins here.
        hop: index of the entry of the hop a span belongs to.
        call: index of the outermost CLIENT span on the way from a span, itself included, up to its hop's entry.
        answers: for an entry with a known parent: the call it answered; itself if the caller recorded no CLIENT span.
            A message (CONSUMER) answers no call.
        root: for an entry: the entry its tree begins at. A message begins a separate tree.
        twin: for an entry: a second SERVER span of the same process for the same request.
        broken: spans on a cycle of parents, or below one; they belong to no hop.
        lost: entries whose parent is named, but is not among the spans.
    """

    parent: Indices
    entry: Flags
    hop: Indices
    call: Indices
    answers: Indices
    root: Indices
    twin: Indices
    broken: Flags
    lost: Flags


def forest_of(spans: pl.DataFrame) -> Forest:
    """Return the trees of spans, with the columns of ``sojourn.model.traces_frame.TRACES_SCHEMA`` and unique ids."""
    count = len(spans)
    if not count:
        nothing, never = np.zeros(0, np.int64), np.zeros(0, bool)
        return Forest(nothing, never, nothing, nothing, nothing, nothing, nothing, never, never)
    numbered = spans.select("trace_id", "span_id", index=pl.int_range(pl.len(), dtype=pl.Int64))
    parent = (
        spans.select("trace_id", "parent_span_id")
        .join(
            numbered,
            left_on=["trace_id", "parent_span_id"],
            right_on=["trace_id", "span_id"],
            how="left",
            maintain_order="left",
        )["index"]
        .fill_null(NONE)
        .to_numpy()
        .copy()
    )
    kind = spans["kind"].to_numpy()
    client, consumer = kind == "client", kind == "consumer"
    server = kind == "server"
    has_parent = parent >= 0
    above = np.where(has_parent, parent, 0)
    same_service = has_parent & _same(spans["service"], above)
    # Two instrumentations of one process record the same request twice; a service that calls itself has a CLIENT span.
    same_process = same_service & _same(spans["instance"], above) & spans["instance"].is_not_null().to_numpy()
    second = server & same_process & ~client[above] & ~consumer[above]
    entry = (((server | consumer) & ~second) | ~has_parent | ~same_service) & (parent != np.arange(count))
    hop, call = _climbed(np.where(entry, np.arange(count), parent), np.where(client & ~entry, np.arange(count), NONE))
    broken = ~entry[hop]
    # A CLIENT span that is an entry (a browser, a load generator) is a call from its beginning to its end.
    call = np.where(client[hop] & ~broken, hop, call)
    # If such a span's parent is of another service and is not a call, its caller is unknown: it is a root.
    waited_for = entry & has_parent & ~consumer & ~broken[above] & ~(client & (call[above] < 0))
    answers = np.where(waited_for, np.where(call[above] >= 0, call[above], np.arange(count)), NONE)
    caller = np.where(waited_for, hop[above], np.arange(count))
    root, _ = _climbed(caller, np.full(count, NONE))
    adrift = caller[root] != root  # entries that are each other's callers
    broken = broken | adrift[hop]
    twin = np.full(count, NONE)
    twin[hop[second & ~broken]] = np.flatnonzero(second & ~broken)
    lost = entry & (~has_parent | broken[above]) & spans["parent_span_id"].is_not_null().to_numpy()
    return Forest(parent, entry & ~broken, hop, call, answers, root, twin, broken, lost)


def _same(values: pl.Series, above: Indices) -> Flags:
    """Return whether each value equals that of the span above; two unknown values are equal."""
    codes = values.rank("dense").fill_null(0).to_numpy()
    return np.asarray(codes == codes[above], bool)


def _climbed(up: Indices, mark: Indices) -> tuple[Indices, Indices]:
    """Return the end of each path, and the highest mark on it; a path ends where ``up`` points to itself.

    For a path without an end, the first value is any of its nodes.
    """
    up, mark = up.copy(), mark.copy()
    for _ in range(len(up).bit_length() + 1):
        upper = mark[up]
        mark = np.where(upper >= 0, upper, mark)
        further = up[up]
        if np.array_equal(further, up):
            break
        up = further
    return up, mark
