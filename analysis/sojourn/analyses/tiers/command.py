"""``sojourn tiers``: what a request took at every service it passed.

Measures, per visit to a service, the time from the stamp it was sent to its start: queueing; the time it worked itself;
and the time it waited for others.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.command.answer import answer
from sojourn.command.options import AsJson, Quiet
from sojourn.command.progress import instant
from sojourn.command.reading import requests_of


def tiers(
    spans: Annotated[
        list[str],
        typer.Argument(
            metavar="SPANS...", help="Spans of several services: OTLP/JSON lines, globs, run folders, stores."
        ),
    ],
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="The log of the proxy in front: its requests are looked at. Repeatable."),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The service the finding is about. Default: the one requests come to first."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only traces that began at T or later; with --log, requests that arrived then."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Only those before T.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Follow requests through several services.

    Queueing, own work and waiting for others, service by service.

    Tells a dependency that all instances share, where another instance does not help, from slow code.
    """
    begin, end = instant(since), instant(until)
    from sojourn.analyses.tiers.run import tiers as run  # noqa: PLC0415 - Polars takes its time to load

    if not log:
        result = run(spans, service=service, since=begin, until=end)
    else:
        columns = ("trace_id", "span_id")
        result = run(
            spans, log=requests_of(log, since=since, until=until, columns=columns, quiet=quiet), service=service
        )
    answer(result, as_json=as_json)
