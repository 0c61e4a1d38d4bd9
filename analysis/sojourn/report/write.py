"""Write one page with every analysis of the same requests."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sojourn.analyses.split.result import SplitResult
from sojourn.analyses.split.run import split_from
from sojourn.model.verdict import SLO
from sojourn.readers.inputs import NamedSources, Source, listed
from sojourn.sources.open_requests import Instant, Where
from sojourn.sources.opening import RequestsLike, read_already
from sojourn.timeline.visits import WorkersLike


def write_report(
    requests: RequestsLike,
    path: str | os.PathLike[str],
    *,
    by: str = "route",
    workers: WorkersLike = None,
    slo: float = SLO,
    before: RequestsLike | None = None,
    captures: Sequence[Source] | Source = (),
    title: str | None = None,
    spans: Sequence[Source] | Source = (),
    since: Instant = None,
    until: Instant = None,
    where: Where = None,
) -> SplitResult:
    """Write one page with all analyses of the requests: ``sojourn report``.

    Args:
        requests: sources, a split, or a frame; with sources, all columns of the analyses are read.
        path: the HTML file to write, whole or not at all.
        by: column of victims and culprits, and of the groups of goodput and changes.
        workers: number of workers per backend, or one number for all; None: derived from the worker values.
        slo: objective for p99 of the response time, s.
        before: earlier requests to compare with.
        captures: captures of the same requests.
        title: heading; None: the names of the sources.
        spans: the app's spans, if ``requests`` are sources.
        since: only requests that arrived at or after this instant: aware datetime or unix seconds.
        until: only requests that arrived before this instant.
        where: only requests with these values.

    Returns:
        The split on the page.

    Raises:
        SojournError: a source cannot be read, or the file cannot be written.
    """
    from sojourn.present.drawing_process import DrawingProcess  # noqa: PLC0415 - late, as the whole report is
    from sojourn.report.build import NO_SOURCES, columns_of, write_analyses  # noqa: PLC0415

    packets = listed(captures)
    columns = columns_of(by, packets)
    with DrawingProcess() as process:
        result = split_from(requests, columns=columns, spans=spans, since=since, until=until, where=where)
        earlier = None if before is None else split_from(before, columns=columns, where=where)
        sources = NO_SOURCES if read_already(requests) else NamedSources.of(requests)  # type: ignore[arg-type]
        write_analyses(
            result, path, process=process, title=title, by=by, workers=workers, slo=slo, before=earlier,
            sources=sources, spans=listed(spans), captures=packets,
        )  # fmt: skip
    return result
