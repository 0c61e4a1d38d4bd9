"""``sojourn.whatif``: replay requests under other configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from sojourn.analyses.queue_source import explained, queue_source_of
from sojourn.analyses.whatif.analysis import whatif as whatif_of_rows
from sojourn.analyses.whatif.result import WhatIfResult
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where, refuse_part_of_backends
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
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
    host: Mapping[str, str] | None = None,
    cores: int | None = None,
) -> WhatIfResult:
    """Replay the recorded requests under a different configuration.

    >>> shop, spans = "docs/examples/shop.jsonl.gz", "docs/examples/shop-spans.jsonl.gz"
    >>> print(sojourn.whatif(shop, {"service:/export": "x0.5"}, spans=spans))
    /export × 0.5 would bring p99 from 4,000 to 1,256 ms (-69%; 95 %: -82% to -50%).

    Args:
        requests: sources, a split, or a frame, with every request that shared the workers.
        variants: each a change of one or several settings: ``{"workers": "+1", "discipline": "lifo"}``; keys are
            workers, backends, discipline, balancer, timeout, retries, backoff, capacity, load, cores, dependency,
            service, service:ROUTE and pool:ROUTE. Empty: common changes.
        workers: per backend, or the same for all; None: counted from the worker values.
        closed_loop: clients wait for an answer before the next request: a faster system receives more of them.
        rank: the figure of the response time by which variants are ranked, or ``goodput``.
        force: predict even if the replay does not match the measurements.
        seed: of random choices.
        spans: OTLP/JSON-lines files of the app.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: keep requests that arrived at or after this instant.
        until: keep requests that arrived before this instant.
        where: column -> value; only columns whose values do not share workers.
        host: address of a backend -> name of its host, whose processors its services share; None: by the addresses.
        cores: of each host; more workers are then predicted only if services that compute would not be slowed.

    Returns:
        The replay, the measured figures, and the variants from the best to the worst. If the replay is too far off,
        there are no variants, and ``refused`` says why.

    Raises:
        SojournError: a source cannot be read, or a variant is not valid.
    """
    settings = [variants] if isinstance(variants, Mapping) else list(variants)
    source = requests_from(
        requests,
        columns=("remote_addr", "connection"),
        spans=spans,
        app_log=app_log,
        since=since,
        until=until,
        where=where,
        workers=workers,
    )
    refuse_part_of_backends(source)
    queue_source = queue_source_of(source, source.rows.filter(pl.col("proxied")))
    try:
        return whatif_of_rows(
            source.rows, settings, workers=workers, closed_loop=closed_loop, rank=rank, force=force, seed=seed,
            queue_source=queue_source, hosts=host, cores=cores,
        )  # fmt: skip
    except SojournError as error:
        raise explained(error, source) from None
