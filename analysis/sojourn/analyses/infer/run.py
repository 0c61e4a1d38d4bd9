"""Infer the queues of sources, splits or frames."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from sojourn.analyses.infer.analysis import InferResult, result_of
from sojourn.components.inferred.backends import inferences
from sojourn.model.coverage import APP_LOG
from sojourn.model.errors import SojournError
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike


def infer(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    app_log: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> InferResult:
    """Infer how long requests waited, from the log of a proxy alone.

    >>> result = sojourn.infer("docs/examples/plain.log.gz")
    >>> result.backends[0].result.workers
    4

    The method and its limits: ``docs/explanation/inferred-queue.md``.

    Args:
        requests: sources, a split, or a frame; see ``sojourn.sources.opening.requests_from``.
        workers: number of workers per backend, or one number for all; None: inferred.
        spans: the app's spans, if ``requests`` are sources. Backends with spans are measured, and nothing is inferred.
        app_log: the app's own access log, as for ``sojourn.split``.
        since: only requests that arrived at or after this instant: ISO 8601 with a zone, an aware
            datetime, or unix seconds.
        until: only requests that arrived before this instant.
        where: only backends of requests with these values; all requests of these backends are read.

    Returns:
        Per backend: verdict and reason, number of workers, waits and services, their ranges, and the checks.

    Raises:
        SojournError: a source cannot be read, or every backend reported its queueing delay.
    """
    source = requests_from(requests, spans=spans, app_log=app_log, since=since, until=until, where=where)
    chosen = set(source.rows.select(pl.col("upstream").unique()).collect()["upstream"])
    source = source.whole
    backends = list(source.inferred) if workers is None else []
    backends = [each for each in backends or inferences(source.rows, workers) if each.upstream in chosen]
    if not backends and source.of_app:
        raise SojournError(f"there is nothing to infer. {APP_LOG}")
    if not backends:
        raise SojournError(
            "there is nothing to infer: no request went to a backend whose queueing delay is not measured "
            "(sojourn split shows the measured ones)"
        )
    return result_of(backends, source.records.formats, source.rows)
