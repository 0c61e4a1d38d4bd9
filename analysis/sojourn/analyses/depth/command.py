"""``sojourn depth``: how deep was the queue, and how busy the workers?

Measures how many requests waited and were in service at each instant, from nginx turning to the backend to the worker
being free again.
"""

from __future__ import annotations

from sojourn.cli.sources import (
    AsJson,
    Quiet,
    Since,
    Sources,
    Spans,
    Until,
    Where,
    WorkersOption,
    answer,
    split_of,
    workers_of,
)


def depth(
    sources: Sources,
    spans: Spans = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Rebuild the queue from the log: depth and utilisation.

    A request waits from the instant nginx turned to the backend to the app's start, and is in service until its worker
    was free again: the end of its span where there is one, otherwise its response headers.
    """
    told = workers_of(workers)
    result = split_of(sources, spans=spans, since=since, until=until, where=where, quiet=quiet)
    from sojourn.analyses.depth.analysis import depth as depth_of_rows  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.depth.section import depth_section  # noqa: PLC0415

    found = depth_of_rows(result.rows, workers=told)
    answer(found.to_dict(), depth_section(found), as_json=as_json)
