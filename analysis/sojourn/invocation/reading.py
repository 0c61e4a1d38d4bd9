"""Read the user's sources, with a progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from sojourn.invocation.options import conditions_of
from sojourn.invocation.progress import BytesRead, instant, reading_bar
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

if TYPE_CHECKING:
    from sojourn.model.frame import Records
    from sojourn.readers.inputs import Source
    from sojourn.sources.open_requests import OpenedRequests


class ReadOptions(BytesRead):
    """Arguments of a function that reads requests: which of them, and the callbacks of a progress bar."""

    since: datetime | None
    until: datetime | None
    where: dict[str, object]


@contextmanager
def read_options(since: str | None, until: str | None, where: list[str] | None, quiet: bool) -> Iterator[ReadOptions]:
    """Show a progress bar; yield the options of a command as what reads takes them.

    Raises:
        typer.BadParameter: an option is not what it should be.
    """
    begin, end = instant(since, "--since"), instant(until, "--until")
    conditions = conditions_of(where or [])
    with reading_bar(quiet) as progress:
        yield {"since": begin, "until": end, "where": conditions, **progress}


def requests_of(
    sources: Sequence[Source],
    *,
    log_format: str | None = None,
    table_columns: Sequence[str] | None = None,
    spans: list[str] | None = None,
    app_log: list[str] | None = None,
    app_log_format: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: list[str] | None = None,
    workers: int | Mapping[str, int] | None = None,
    columns: Sequence[str] = (),
    quiet: bool = False,
) -> OpenedRequests:
    """Read requests row by row; ``columns`` are read besides what the components need; the others are as the options.

    ``workers``: where a queue is inferred.

    Raises:
        SojournError: a source cannot be read, or no request is left.
        typer.BadParameter: an option is not what it should be.
    """
    with read_options(since, until, where, quiet) as options:
        from sojourn.sources.log_files import with_app_log_format, with_formats  # noqa: PLC0415
        from sojourn.sources.opening import open_sources  # noqa: PLC0415 - Polars and DuckDB take their time to load

        with open_sources(
            with_formats(sources, log_format, table_columns),
            spans=spans or (),
            app_log=with_app_log_format(app_log or (), app_log_format),
            columns=("request_id", *columns),
            workers=workers,
            **options,
        ) as requests:
            if requests.empty:
                raise SojournError(nothing(requests.records))
            warn(requests.records)
            return requests


def warn(records: Records) -> None:
    """Print on stderr what limits every answer of a store that was read."""
    for warning in records.warnings:
        typer.echo(f"WARNING  {printable(warning, 1_000)}", err=True)


def nothing(records: Records) -> str:
    """Return the reason that no request is left; behind an empty line, lines for nginx's configuration."""
    if not records.read:
        return ". ".join(("no request", *records.warnings)) if records.warnings else "no request: the sources are empty"
    if records.accepted:
        return ". ".join(("no request is left: none arrived in the window or fits --where", *records.warnings))
    from sojourn.readers.missing_times import refused_lines  # noqa: PLC0415 - for a failure only

    return refused_lines(records)
