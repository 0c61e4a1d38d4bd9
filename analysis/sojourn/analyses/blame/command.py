"""``sojourn blame``: which requests caused the wait?

Measures, per request, its queueing delay (from the instant nginx turned to the backend to the app's start), and charges
every instant of it to those who held the workers then, to the balancer, or to the way there.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.command.answer import answer
from sojourn.command.options import (
    AsJson,
    Quiet,
    Since,
    Sources,
    Spans,
    SplitBy,
    Until,
    WorkersOption,
    column_of,
    conditions_of,
    workers_of,
)
from sojourn.command.reading import requests_of


def blame(
    sources: Sources,
    spans: Spans = None,
    by: SplitBy = "route",
    culprit: Annotated[
        str | None,
        typer.Option("--culprit", metavar="COLUMN", help="Name the culprits by this column. Default: as --by."),
    ] = None,
    workers: WorkersOption = None,
    since: Since = None,
    until: Until = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="COLUMN=VALUE",
            help="Count only the waits of requests with this value; all requests can be culprits. Repeatable.",
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show which routes or backends caused the queueing delay.

    From the instant nginx turned to the backend to the app's start. At every instant of a wait: its own backend has a
    free worker: dispatch; another backend of the upstream has: imbalance; otherwise those in service are to blame.
    """
    columns = tuple(column_of(name, option) for name, option in ((by, "--by"), (culprit or by, "--culprit")))
    counts, conditions = workers_of(workers), conditions_of(where or [])
    # Not a selection of rows: all requests that held the workers must be there.
    columns = (*columns, *(column_of(name, "--where") for name in conditions), "uri")
    requests = requests_of(sources, spans=spans, since=since, until=until, columns=columns, quiet=quiet)
    from sojourn.analyses.blame.run import blame as run  # noqa: PLC0415 - numba takes its time to load

    answer(run(requests, by=by, culprit=culprit, workers=counts, where=conditions), as_json=as_json)
