"""Requests in, the queue over time and on arrival out."""

from __future__ import annotations

from collections.abc import Sequence

from sojourn.analyses.depth.analysis import DepthResult, depth_of
from sojourn.readers.inputs import Source
from sojourn.sources.open_requests import Instant, Where
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.timeline.visits import WorkersLike
from sojourn.timeline.visits_of import visits_of


def depth(
    requests: RequestsLike,
    *,
    workers: WorkersLike = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> DepthResult:
    """How many requests waited and were in service, over time and on arrival, and how busy the workers were.

    >>> result = sojourn.depth("docs/examples/shop.jsonl.gz")
    >>> result.overall["workers"]
    4

    Arguments and errors as of ``sojourn.blame``; ``where`` leaves the other requests out.
    """
    source = requests_from(requests, spans=spans, since=since, until=until, where=where)
    return depth_of(visits_of(source, workers=workers))
