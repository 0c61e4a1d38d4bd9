"""``sojourn tiers``: divide the response time of requests among the services they pass.

Measures, per visit to a service, the time from the stamp of the caller to the start (queueing), the time of its own
work, and the time it waits for its calls.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.options import AsJson, Quiet
from sojourn.invocation.progress import instant
from sojourn.invocation.reading import requests_of


def tiers(
    spans: Annotated[
        list[str],
        typer.Argument(
            metavar="SPANS...", help="Spans of several services: OTLP/JSON lines, globs, run folders, stores."
        ),
    ],
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="Log of the proxy in front: analyse only its requests. Repeatable."),
    ] = None,
    service: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Service of the finding. Default: the first service of most requests."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="T", help="Only traces that began at T or later; with --log, requests that arrived then."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Only those before T.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show where requests that pass several services spend their time.

    Queueing, own work and waiting for calls, service by service.

    It distinguishes a dependency shared by all instances, where another instance does not help, from slow code.
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
