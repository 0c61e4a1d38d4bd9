"""``sojourn pcap``: what do packets show about the queues before accept()?

Measures, on each side of the proxy, from a connection's first SYN to the SYN that was answered and to the final ACK
that was accepted; and from there to the app's own start, or bounds of that wait where the start is unknown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Annotated

import typer

from sojourn.invocation.answer import print_json
from sojourn.invocation.options import AsJson, Quiet, Spans
from sojourn.invocation.progress import doing, instant
from sojourn.invocation.reading import requests_of

Captures = Annotated[
    list[str],
    typer.Argument(
        metavar="CAPTURE...",
        help="pcap or pcapng files (plain, .gz, .zst), globs, folders of ring files, run folders, -.",
    ),
]
Backends = Annotated[
    list[str] | None,
    typer.Option(
        "--backend", metavar="ADDR:PORT", help="A backend that neither log nor stamps name; or a port. Repeatable."
    ),
]


def pcap(
    captures: Captures,
    log: Annotated[
        list[str] | None,
        typer.Option("--log", metavar="SOURCE", help="The log of the same requests; a run folder contains its own."),
    ] = None,
    spans: Spans = None,
    backends: Backends = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel", metavar="FILE", help="Kernel samples of the same time; a run folder contains its own."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="T", help="Only connections that began at T or later: ISO 8601 with its zone, unix seconds, 10m."
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Only connections that began before T.")] = None,
    tolerance: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Largest difference between nginx's times and the wire's.")
    ] = 0.005,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="Largest number of requests in the JSON, by time.")
    ] = 100,
    html: Annotated[Path | None, typer.Option(metavar="F", help="Write a report, one file, no network needed.")] = None,
    parquet: Annotated[Path | None, typer.Option(metavar="F", help="Write every request to a Parquet file.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the queues before accept() from captured packets.

    From a connection's first SYN to the final ACK that was accepted; from there to the app's own start, or its bounds.
    """
    begin, end = instant(since), instant(until)
    from sojourn.analyses.pcap.log_join import READ  # noqa: PLC0415 - Polars is slow to load
    from sojourn.analyses.pcap.run import pcap as run  # noqa: PLC0415
    from sojourn.analyses.pcap.tracked_capture import TrackedCapture  # noqa: PLC0415
    from sojourn.present.display import section_of  # noqa: PLC0415

    log = log or _of_folders(captures, "access.jsonl")
    with contextlib.ExitStack() as stack:
        tracked = stack.enter_context(TrackedCapture(captures))
        logged = requests_of(log, spans=spans, columns=READ, quiet=quiet) if log else None
        say = stack.enter_context(doing(quiet))
        result = run(
            tracked, log=logged, backends=backends or (), since=begin, until=end, tolerance=tolerance, on_step=say
        )
        sections = [] if as_json and html is None else [section_of(result)]
        samples = kernel or _of_folders(captures, "kernel.jsonl")
        if samples:
            from sojourn.analyses.kernel.run import kernel_queues  # noqa: PLC0415

            say("reading kernel samples")
            result = dataclasses.replace(result, kernel=kernel_queues(samples))
            sections += [section_of(result.kernel)] if sections else []
        if parquet is not None:
            result.write_parquet(parquet)
        if html is not None:
            from sojourn.present.page import Page  # noqa: PLC0415

            say("drawing")
            Page(title=", ".join(result.names[:3]), sections=sections[1:], lead=sections[0]).write(html)
    if as_json:
        print_json(result.to_dict(limit))
        return
    from sojourn.present.terminal import show  # noqa: PLC0415

    show(*sections)


def _of_folders(captures: list[str], name: str) -> list[str] | None:
    """Return the run folders among the captures that contain a file ``name``; None if there are none."""
    return [folder for folder in captures if os.path.exists(os.path.join(folder, name))] or None
