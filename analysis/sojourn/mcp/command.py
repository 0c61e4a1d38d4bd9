"""``sojourn mcp``: serve the questions as tools of an agent.

Measures nothing itself: each call of a tool runs the command of the question.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.model.extras import needed_for

SECONDS = 300.0
MOST_BYTES = 200_000


def mcp(
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FOLDER]...", help="Folders with logs, spans and captures. Other files are not read."),
    ] = None,
    store: Annotated[
        list[str] | None,
        typer.Option(
            "--store", metavar="DSN", help="A store to read (chdb:///path, clickhouse://host/database). Repeatable."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Longest duration of a call.")
    ] = SECONDS,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", metavar="N", min=1_000, help="Largest answer, in bytes.")
    ] = MOST_BYTES,
) -> None:
    """Serve the questions as tools of an agent, over the Model Context Protocol.

    On standard input and output, until standard input is closed. Read-only: the tools read the folders and stores that
    are named here, and write nothing.
    """
    with needed_for("sojourn mcp"):
        from sojourn.mcp.server import serve  # noqa: PLC0415 - takes its time to load
    from sojourn.mcp.places import Places  # noqa: PLC0415 - NumPy takes its time to load

    serve(Places(folders or (), store or ()), seconds=timeout, most_bytes=max_bytes)
