"""``sojourn.tiers``: response time by service from the spans of several services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sojourn.analyses.tiers.analysis import tiers as tiers_of_traces
from sojourn.analyses.tiers.result import Tiers
from sojourn.model.frame import Selection
from sojourn.model.instants import Instant
from sojourn.readers.inputs import Source, listed
from sojourn.sources.opening import RequestsLike, requests_from
from sojourn.sources.traces import Traces, read_traces


def tiers(
    spans: Sequence[Source] | Source | Traces,
    *,
    log: RequestsLike | None = None,
    service: str | None = None,
    since: Instant = None,
    until: Instant = None,
) -> Tiers:
    """Divide the response time of requests among the services they pass: queueing, own work, waiting for calls.

    >>> result = sojourn.tiers("docs/examples/checkout-spans.jsonl.gz")
    >>> [tier.service for tier in result.services]
    ['db', 'checkout']

    Args:
        spans: of several services: OTLP/JSON lines, globs, run folders, stores.
        log: the log of the proxy in front: only its requests are analysed.
        service: the service of the finding; None: the first service of most requests.
        since: keep traces that began (with ``log``, requests that arrived) at or after this instant.
        until: keep those before this instant.

    Returns:
        Figures by service and by call, and the finding.

    Raises:
        SojournError: there is no span, no request, or no such service.
    """
    window = Selection.of(since, until, None) if log is None else Selection()
    traces = spans if isinstance(spans, Traces) else read_traces(listed(spans), since=window.since, until=window.until)
    if log is None:
        return tiers_of_traces(traces, service=service)
    source = requests_from(log, columns=("trace_id", "span_id"), since=since, until=until)
    result = tiers_of_traces(traces, source.rows, service=service)
    return replace(result, notes=(*source.records.apart, *result.notes))
