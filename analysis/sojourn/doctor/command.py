"""``sojourn doctor``: show what is missing, and the line that mends it.

Reads nginx configurations as nginx does, logs and stores, and compares them with what a split needs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from sojourn.invocation.options import AsJson, LogFormatOption, Quiet, Spans, TableColumns
from sojourn.invocation.progress import instant, pipe_closed_early_is_fine, reading_bar
from sojourn.model.errors import SojournError
from sojourn.model.formatting import printable

# In a wheel the page lies beside this module, in a checkout where the other documents are.
_PACKAGED = Path(__file__).with_name("doctor.md")
_CHECKOUT = Path(__file__).parents[3] / "docs" / "reference" / "doctor.md"
_HEADING = re.compile(r"^### ([a-z][a-z0-9-]*)$", re.M)


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
        typer.Option(
            "--since",
            metavar="T",
            help="Check only requests of T and later: ISO 8601 with its zone, unix seconds, 10m.",
        ),
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
    log_format: LogFormatOption = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="CODE", help="Leave findings of this code out. Repeatable.")
    ] = None,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CODE", help="Describe a finding, and do nothing else.")
    ] = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report what an nginx configuration, a log or a store lacks.

    Every finding has the line that mends it.

    Targets explain each other: name the configuration and its log together. Exit code 1 for an error, 0 otherwise,
    warnings included.
    """
    if explain is not None:
        typer.echo(_explanation(explain))
        return
    if not targets:
        raise typer.BadParameter("no target: name nginx.conf, a log, a run folder or a store")
    begin = instant(since, "--since")
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
            log_format=log_format,
            table_columns=table_columns or (),
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


def sections() -> dict[str, str]:
    """Return the text of each finding's section, by code, in the order of the page.

    Raises:
        SojournError: the page cannot be read.
    """
    page = _PACKAGED if _PACKAGED.is_file() else _CHECKOUT
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise SojournError(f"the page about the findings cannot be read ({error.strerror})") from None
    parts = _HEADING.split(text)[1:]
    return {
        code: re.split(r"^## ", body, flags=re.M)[0].strip() for code, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _explanation(code: str) -> str:
    """Return the section about a finding.

    Raises:
        SojournError: the code is unknown; the message lists the known ones.
    """
    texts = sections()
    if code not in texts:
        raise SojournError(f"unknown finding {code!r}; known are {', '.join(texts)}")
    return f"{code}\n\n{texts[code]}"
