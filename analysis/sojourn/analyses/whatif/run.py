"""Requests in, what a change would have made of them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sojourn.analyses.whatif.analysis import whatif as whatif_of_rows
from sojourn.analyses.whatif.result import WhatIfResult
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Instant, Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike

Setting = Mapping[str, str | float]


def whatif(
    requests: RequestsLike,
    variants: Setting | Sequence[Setting] = (),
    *,
    workers: WorkersLike = None,
    closed_loop: bool = False,
    rank: str = "p99",
    force: bool = False,
    seed: int = 0,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> WhatIfResult:
    """What another set-up would have made of the same requests: measured arrivals and services, replayed.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> print(sojourn.whatif(shop, {"workers": "+1"}, spans=spans))
    +1 worker per backend would bring p99 from 4,000 to 2,144 ms (-46%; 95 %: -64% to -1%).

    Args:
        requests: sources, a split, or a frame, of all that shared the workers.
        variants: each a change of one thing or of several: ``{"workers": "+1", "discipline": "lifo"}``; keys are
            workers, backends, discipline, balancer, timeout, retries, backoff, capacity, load, service,
            service:ROUTE and pool:ROUTE. None: the usual ones.
        workers: per backend, or the same for all; None: read off the worker values.
        closed_loop: clients ask again when they were answered: a faster system draws more load.
        rank: the figure of the response time by which variants are ranked, or ``goodput``.
        force: predict though the replay of things as they are is off.
        seed: of what is drawn.
        spans, since, until, where: as of ``sojourn.depth``.

    Returns:
        The replay beside what was measured, and the variants from the best to the worst. Where the replay is off, there
        are none, and ``refused`` says why.

    Raises:
        SojournError: a source cannot be read, or a variant is not to be understood.
    """
    listed = [variants] if isinstance(variants, Mapping) else list(variants)
    source = requests_from(
        requests, columns=("remote_addr", "connection"), spans=spans, since=since, until=until, where=where
    )
    return whatif_of_rows(
        source.rows, listed, workers=workers, closed_loop=closed_loop, rank=rank, force=force, seed=seed
    )
