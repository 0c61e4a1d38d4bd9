"""``sojourn capture``: record the packets that pass a proxy.

Measures nothing itself: it writes what ``sojourn pcap`` reads.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sojourn.invocation.options import AsJson


class Sniffer(StrEnum):
    """The program that records the packets."""

    tcpdump = "tcpdump"
    scapy = "scapy"


def capture(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="Output file, ending in .pcap; prefix of the names of a ring."),
    ],
    nginx: Annotated[
        Path | None,
        typer.Option("--nginx", metavar="CONF", help="Ports and backends are those of this nginx configuration."),
    ] = None,
    port: Annotated[
        list[int] | None,
        typer.Option("--port", metavar="P", min=1, max=65535, help="A port, on any address. Repeatable."),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option("--backend", metavar="HOST:PORT", help="A backend. Repeatable.")
    ] = None,
    interface: Annotated[
        str, typer.Option("--interface", metavar="NAME", help="Record on this interface only.")
    ] = "any",
    snaplen: Annotated[
        int, typer.Option("--snaplen", metavar="BYTES", min=0, max=262_144, help="Bytes kept of each packet; 0: all.")
    ] = 1024,
    seconds: Annotated[float | None, typer.Option("--seconds", metavar="S", help="End after this time.")] = None,
    packets: Annotated[
        int | None, typer.Option("--packets", metavar="N", min=1, help="End after this many packets.")
    ] = None,
    ring_files: Annotated[
        int | None,
        typer.Option(
            "--ring-files", metavar="N", min=2, max=10_000, help="Number of ring files; the oldest is overwritten."
        ),
    ] = None,
    ring_megabytes: Annotated[
        int | None,
        typer.Option(
            "--ring-megabytes", metavar="M", min=1, max=100_000, help="Size of each ring file, million bytes."
        ),
    ] = None,
    kernel: Annotated[
        Path | None,
        typer.Option("--kernel", metavar="FILE", help="Also sample the listen queues every second to this file."),
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the filter and the command, for another machine; record nothing.")
    ] = False,
    sniffer: Annotated[
        Sniffer | None,
        typer.Option("--sniffer", help="Record with this program. Default: tcpdump; scapy if tcpdump is missing."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings on stderr.")] = False,
) -> None:
    """Record packets around nginx for sojourn pcap.

    Give --nginx, or --port and --backend. Stop with Ctrl-C: all packets up to then are written.
    """
    if (ring_files is None) != (ring_megabytes is None):
        raise typer.BadParameter("--ring-files and --ring-megabytes go together", param_hint="--ring-files")
    if seconds is not None and not 0 < seconds < 1e7:
        raise typer.BadParameter("give a number of seconds above 0", param_hint="--seconds")
    from sojourn.cli.capture_run import Task, describe, record  # noqa: PLC0415 - half of the start of --help

    task = Task.of(
        nginx,
        port or [],
        backend or [],
        out=out,
        interface=interface,
        snaplen=snaplen,
        packets=packets,
        ring=(ring_files, ring_megabytes) if ring_files and ring_megabytes else None,
        only_print=only_print,
        sniffer=sniffer and str(sniffer),
        seconds=seconds,
        kernel=kernel,
        force=force,
        quiet=quiet,
    )
    (describe if only_print else record)(task, as_json=as_json)
