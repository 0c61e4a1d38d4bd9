"""``sojourn doctor``: show what is missing, and the line that mends it.

Reads nginx configurations as nginx does, logs and stores, and compares them with what a split needs.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from sojourn.doctor.pages import explanation, sections
from sojourn.invocation.options import AsJson, Quiet, Spans
from sojourn.invocation.progress import instant, pipe_closed_early_is_fine, reading_bar
from sojourn.model.formatting import printable


def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NGINX_CONF|LOG|DSN|RUN...",
            help="nginx.conf, log files, run folders, stores (chdb:///path, clickhouse://host/database).",
        ),
    ] = None,
    spans: Spans = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="T", help="Check only requests of T and later: ISO 8601, unix seconds, 10m."),
    ] = None,
    somaxconn: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="net.core.somaxconn of the configuration's machine. Default: this one's."
        ),
    ] = None,
    ask_backends: Annotated[
        bool,
        typer.Option("--ask-backends", help="Send HEAD / to every backend: its headers say which server it is."),
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODE", help="Leave findings of this code out. Repeatable.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CODE", help="Describe a finding, and do nothing else.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report what an nginx configuration, a log or a store lacks.

    Every finding has the line that mends it.

    Targets explain each other: name the configuration and its log together. Exit code 1 for an error, 0 otherwise,
    warnings included.
    """
    if explain is not None:
        typer.echo(explanation(explain))
        return
    if not targets:
        raise typer.BadParameter("no target: name nginx.conf, a log, a run folder or a store")
    begin = instant(since)
    if unknown := [code for code in ignore or [] if code not in sections()]:
        raise typer.BadParameter(f"unknown finding {printable(unknown[0])!r}", param_hint="--ignore")
    from sojourn.doctor.doctor import diagnose  # noqa: PLC0415

    with reading_bar(quiet) as progress:
        diagnosis = diagnose(
            targets,
            spans=spans or (),
            since=begin,
            somaxconn=somaxconn,
            ask_backends=ask_backends,
            ignored=ignore or (),
            **progress,
        )
    with pipe_closed_early_is_fine():
        if as_json:
            json.dump(diagnosis.to_dict(), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            from sojourn.doctor.display import show  # noqa: PLC0415 - rich takes its time to load

            show(diagnosis)
    if diagnosis.broken:
        raise typer.Exit(1)
