"""``sojourn kernel``: show the queues before accept() as the kernel reports them.

Measures the connections that wait for accept(), from the end of the TCP handshake, and the handshakes under way, from
the SYN to the final ACK; and counts what was turned away meanwhile. Application servers are queried for the queues
before their workers.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.options import AsJson, Quiet
from sojourn.invocation.progress import doing

NGINX_BACKLOG = 511  # nginx's default on Linux
SCRIPT = "accept_latency.bt"


def kernel(
    recordings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Recordings (kernel.jsonl, plain, .gz, .zst), globs, folders that hold one, -. Default: this machine.",
        ),
    ] = None,
    port: Annotated[
        list[str] | None,
        typer.Option("--port", metavar="[NAME=]PORT", help="Only sockets of this port. Repeatable. Default: all."),
    ] = None,
    unix: Annotated[
        list[str] | None,
        typer.Option(
            "--unix", metavar="[NAME=]PATH", help="Only this Unix socket; @NAME if abstract. Repeatable. Default: all."
        ),
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(
            "--server",
            metavar="KIND=ADDRESS",
            help="Query the queue before the workers of php-fpm, uwsgi, puma, node, tomcat or unicorn. Repeatable.",
        ),
    ] = None,
    nginx: Annotated[
        Path | None,
        typer.Option("--nginx", metavar="CONF", help="nginx's configuration: the backlogs that it requests."),
    ] = None,
    backlog: Annotated[
        list[str] | None,
        typer.Option(
            "--backlog", metavar="PORT|PATH=N", help="The backlog that a server requests at a port. Repeatable."
        ),
    ] = None,
    raindrops: Annotated[
        list[str] | None,
        typer.Option("--raindrops", metavar="URL", help="The same as --server unicorn=URL. Repeatable."),
    ] = None,
    period: Annotated[float, typer.Option(metavar="S", min=0.05, max=3600, help="Seconds between samples.")] = 1.0,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.05, help="Duration of sampling. Default: 1; with --out until Ctrl-C."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="F", help="Record to this file, JSON lines.")] = None,
    once: Annotated[bool, typer.Option("--once", help="A single sample: depths and settings, no rates.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="F", help="Write a page with charts, too.")] = None,
    bpftrace: Annotated[
        bool,
        typer.Option("--bpftrace", help="Print a bpftrace script that measures each wait for accept(); needs root."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the queues before accept() and before the workers: depth, drops, and remedies.

    Looks at this machine, records it, or explains a recording. A wait for accept() begins when the handshake ends.
    """
    if bpftrace:
        sys.stdout.write(files("sojourn.host").joinpath(SCRIPT).read_text())
        return
    live = {"--out": out, "--seconds": seconds, "--raindrops": raindrops, "--server": server, "--once": once or None}
    if recordings and (names := [name for name, value in live.items() if value is not None]):
        raise typer.BadParameter("samples this machine: omit it with a recording", param_hint=names[0])
    if once and (out or seconds is not None):
        raise typer.BadParameter("takes a single sample: omit --out and --seconds", param_hint="--once")
    ports, paths, backlogs = _ports(port or []), _paths(unix or []), _requested_backlogs(backlog or [])
    if nginx is not None:
        backlogs = _backlogs_of_nginx(nginx) | backlogs
    from sojourn.analyses.kernel.run import kernel_queues  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.host.recording import stop_on_signal  # noqa: PLC0415 - sockets and logging take their time to load

    options: dict[str, Any] = {"ports": ports, "unix": paths, "backlog": backlogs}
    if recordings:
        result = kernel_queues(recordings, **options)
    else:
        with stop_on_signal() as stop, doing(quiet) as say:
            result = kernel_queues(
                raindrops=raindrops or (), servers=server or (), period=period, seconds=0.0 if once else seconds,
                out=out, stop=stop, on_step=say, **options,
            )  # fmt: skip
    if html is not None:
        from sojourn.present.page import Page  # noqa: PLC0415 - Polars takes its time to load

        Page(title=", ".join(result.names[:3]) or "this machine", lead=result.section).write(html)
    answer(result, as_json=as_json)


def _ports(texts: list[str]) -> dict[str, int] | None:
    ports: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if name and name in ports:
            raise typer.BadParameter(f"{name!r} cannot name two ports", param_hint="--port")
        ports[name or number] = _number(number, "--port", text)
    return ports or None


def _paths(texts: list[str]) -> dict[str, str] | None:
    paths: dict[str, str] = {}
    for text in texts:
        # A path may hold "=", and begins with / or @.
        name, _, path = ("", "", text) if _is_path(text) else text.partition("=")
        if not _is_path(path):
            raise typer.BadParameter(f"{text!r} names no path: it begins with / or @", param_hint="--unix")
        if name and name in paths:
            raise typer.BadParameter(f"{name!r} cannot name two sockets", param_hint="--unix")
        paths[name or path] = path
    return paths or None


def _is_path(text: str) -> bool:
    return len(text) > 1 and text[0] in "/@"


def _requested_backlogs(texts: list[str]) -> dict[int | str, int]:
    backlogs: dict[int | str, int] = {}
    for text in texts:
        where, _, number = text.rpartition("=")
        if not number.isdecimal() or len(number) > 10 or not int(number) < 1 << 31:
            raise typer.BadParameter(f"{text!r} is not PORT=N or PATH=N", param_hint="--backlog")
        backlogs[where if _is_path(where) else _number(where, "--backlog", text)] = int(number)
    return backlogs


def _number(port: str, option: str, text: str) -> int:
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65_536):
        raise typer.BadParameter(f"{text!r} names no port from 1 to 65535", param_hint=option)
    return int(port)


def _backlogs_of_nginx(conf: Path) -> dict[int | str, int]:
    from sojourn.host.nginx_ports import proxied_by  # noqa: PLC0415 - sockets take their time to load

    backlogs: dict[int | str, int] = {}
    # Only listen lines matter: names of backends are not resolved.
    proxied = proxied_by(conf, resolve=lambda name: [name])
    listens: list[tuple[int | str, int | None]] = [
        *((each.port, each.backlog) for each in proxied.listens),
        *((each.path, each.backlog) for each in proxied.unix_listens),
    ]
    for where, requested in listens:
        # One address may be listened on in several server blocks; one of them names the backlog for all.
        backlogs[where] = requested if requested is not None else backlogs.get(where, NGINX_BACKLOG)
    return backlogs
