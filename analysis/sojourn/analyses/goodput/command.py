"""``sojourn goodput``: how much work was for clients already gone?

Measures the time workers were held by requests that nginx (504) or the client (499) had given up on.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.cli.sources import AsJson, Quiet, Since, Sources, Spans, SplitBy, Until, Where, answer, column_of, split_of


def goodput(
    sources: Sources,
    spans: Spans = None,
    app_log: Annotated[
        list[str] | None,
        typer.Option(
            "--app-log",
            metavar="FILE",
            help="The app's own log: JSON lines with request_id and service_time (s). Repeatable.",
        ),
    ] = None,
    by: SplitBy = "route",
    since: Since = None,
    until: Until = None,
    where: Where = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure work done for clients that had disconnected.

    With retry storms.

    From a worker taking the request to its being free again, of requests that nginx (504) or the client (499) had given
    up on. Only the app knows: its spans, or a log of its own.
    """
    columns = (column_of(by), "remote_addr", "method", "uri")
    result = split_of(sources, spans=spans, since=since, until=until, where=where, columns=columns, quiet=quiet)
    from sojourn.analyses.goodput.analysis import goodput as goodput_of_rows  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.goodput.section import goodput_section  # noqa: PLC0415
    from sojourn.readers.app_log import read_app_log  # noqa: PLC0415

    late, records = read_app_log(app_log) if app_log else (None, None)
    found = goodput_of_rows(result.rows, by=by, app_log=late)
    told = {**found.to_dict(), "app_log": records and records.to_dict()}
    answer(told, goodput_section(found, records), as_json=as_json)
