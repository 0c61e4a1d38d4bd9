"""``sojourn laws``: does the queue behave as theory says?

Measures, per backend and upstream: arrivals, how long a worker was held, and the wait between.
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


def laws(
    sources: Sources,
    spans: Spans = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the measured wait with the laws of queueing.

    Utilisation, burstiness, Erlang C, Pollaczek–Khinchine, Kingman and Allen–Cunneen; or the reason one does not apply.
    """
    told = workers_of(workers)
    from sojourn.analyses.laws.analysis import laws as run  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.laws.section import laws_section  # noqa: PLC0415
    from sojourn.timeline.visits import visits  # noqa: PLC0415

    result = split_of(sources, spans=spans, since=since, until=until, where=where, quiet=quiet)
    found = run(visits(result.rows, workers=told), result.audit)
    answer(found.to_dict(), laws_section(found), as_json=as_json)
