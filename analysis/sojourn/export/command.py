"""``sojourn export``: follow logs, and serve their queueing delays to Prometheus."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.export.metrics import BUCKETS, RESPONSE_LABELS
from sojourn.export.settings import EVERY, HOLD, LIMITS, STARTUP, WINDOW, Settings
from sojourn.invocation.options import LogFormatOption, WorkersOption, workers_of
from sojourn.invocation.progress import pipe_closed_early_is_fine
from sojourn.invocation.reading import nothing
from sojourn.model.errors import SojournError
from sojourn.model.objective import DEFAULT, objective_of

if TYPE_CHECKING:
    from sojourn.export.exporter import Exporter
    from sojourn.export.listener import MetricsServer

LISTEN = "127.0.0.1:9145"


def export(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG...", help="Logs that are being written, globs of them, folders of runs, named pipes, -."
        ),
    ],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve the metrics on this address; port 0 chooses a free one.")
    ] = LISTEN,
    web_config: Annotated[
        str | None,
        typer.Option(
            "--web.config.file",
            metavar="FILE",
            help="TLS and passwords of the metrics, in the YAML format of Prometheus's exporters.",
        ),
    ] = None,
    from_beginning: Annotated[
        bool,
        typer.Option(
            "--from-beginning", help="Count the requests of the whole log; its last record defines the current time."
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Print the metrics of the whole log, and exit; nothing is served.")
    ] = False,
    otlp: Annotated[
        str | None, typer.Option(metavar="URL", help="Send the metrics to this OTLP endpoint (HTTP) as well.")
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MEASURE:]pN=S",
            help="Objective of queueing_delay (default) or response_time; 0.1:0.95 is short for p95=0.1. Repeatable. "
            "Default: " + DEFAULT + ".",
        ),
    ] = None,
    spans: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="The app's spans (OTLP/JSON lines) while they are written: wasted work. Repeatable."
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SERVICE=]URL",
            help="Count requests when they begin, here: nginx's stub_status, the API of NGINX Plus or Angie, Envoy's "
            "stats, or the middleware's gauge; with SERVICE, that service's alone. Read 5 times a second, for the "
            "workers needed now (method live). Repeatable.",
        ),
    ] = None,
    hold: Annotated[
        float,
        typer.Option(
            metavar="S", min=1, max=86_400, help="The autoscaler keeps the highest number of workers for S seconds."
        ),
    ] = HOLD,
    startup: Annotated[
        float, typer.Option(metavar="S", min=0, max=3600, help="A new worker is ready after S seconds.")
    ] = STARTUP,
    workers: WorkersOption = None,
    window: Annotated[
        float, typer.Option(metavar="S", min=5, max=3600, help="Compute the signals from this many seconds.")
    ] = WINDOW,
    every: Annotated[
        float, typer.Option(metavar="S", min=1, max=3600, help="Compute the gauges every S seconds.")
    ] = EVERY,
    labels: Annotated[
        str,
        typer.Option(
            metavar="LABEL,...",
            help="Labels with values: " + ", ".join(RESPONSE_LABELS) + "; series are added up over the others.",
        ),
    ] = ",".join(RESPONSE_LABELS),
    routes: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Routes; later ones are counted as other.")
    ] = LIMITS["route"],
    buckets: Annotated[
        str | None, typer.Option(metavar="S,...", help="Upper bounds of the histograms' buckets, in seconds.")
    ] = None,
    alias: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Second name of the queueing delay's histogram, such as http_request_queue_duration_seconds.",
        ),
    ] = "",
    log_format: LogFormatOption = None,
) -> None:
    """Export the queueing delays of logs to Prometheus while they are written.

    Histograms of response time, queueing delay and service time; counters of retries, abandoned and refused; gauges of
    waiting requests, busy workers and clocks; and signals to scale on, such as the number of workers that is needed.
    """
    host, port = address_of(listen)
    try:
        objectives = [objective_of(text) for text in objective or [DEFAULT]]
    except SojournError as error:
        raise typer.BadParameter(str(error), param_hint="--objective") from None
    settings = Settings(
        objectives=list({each.text: each for each in objectives}.values()),
        window=window,
        every=every,
        hold=hold,
        startup=startup,
        workers=workers_of(workers),
        labels=_labels(labels),
        limits={"route": routes},
        buckets=BUCKETS if buckets is None else buckets_of(buckets),
        alias=_name(alias),
    )
    if once:
        from sojourn.sources.live.opening import refuse_endless  # noqa: PLC0415

        refuse_endless(logs)
        if status:
            raise typer.BadParameter("counts are read while requests run, not of a whole log", param_hint="--status")
    server_of = None if once else _server_of(host, port, web_config)
    exporter = _exporter(logs, spans or [], status or [], settings, from_beginning or once, log_format)
    try:
        if server_of is None:
            _print_once(exporter)
        else:
            _serve(exporter, server_of, otlp)
    finally:
        exporter.close()


def _exporter(
    logs: Sequence[str],
    spans: Sequence[str],
    status: Sequence[str],
    settings: Settings,
    from_beginning: bool,
    log_format: str | None,
) -> Exporter:
    from sojourn.export.exporter import Exporter  # noqa: PLC0415 - Polars and DuckDB take their time to load
    from sojourn.export.live.poller import source_of  # noqa: PLC0415
    from sojourn.sources.live.opening import opened_followers  # noqa: PLC0415
    from sojourn.sources.log_files import format_of_text  # noqa: PLC0415

    sources = [source_of(text) for text in dict.fromkeys(status)]
    form = None if log_format is None else format_of_text(log_format)
    followers, tails = opened_followers(logs, from_start=from_beginning, form=form, seconds=settings.retention)
    of_spans, _ = opened_followers(spans, from_start=True)
    return Exporter(
        followers,
        tails,
        spans=of_spans,
        status=sources,
        settings=settings,
        from_beginning=from_beginning,
        form=form,
    )


def _print_once(exporter: Exporter) -> None:
    from sojourn.export.exposition import text_of  # noqa: PLC0415

    exporter.read_all()
    if not exporter.records.accepted:
        raise SojournError(nothing(exporter.records))
    with pipe_closed_early_is_fine():
        sys.stdout.write(text_of(exporter))


def _server_of(host: str, port: int, web_config: str | None) -> Callable[[Exporter], MetricsServer]:
    from sojourn.export.listener import MetricsServer  # noqa: PLC0415
    from sojourn.export.web_config import WebConfig  # noqa: PLC0415

    web = WebConfig(web_config)
    return lambda exporter: MetricsServer(exporter, host, port, web)


def _serve(exporter: Exporter, server_of: Callable[[Exporter], MetricsServer], otlp: str | None) -> None:
    stop = threading.Event()
    with _until_signalled(stop):
        sender = None
        if otlp is not None:
            from sojourn.export.otlp import Sender  # noqa: PLC0415 - needs opentelemetry-sdk

            sender = Sender(exporter, otlp)
        server = server_of(exporter)
        try:
            sys.stderr.write(f"metrics: {server.url}\n")
            if server.warning:
                sys.stderr.write(f"metrics: warning: {server.warning}\n")
            exporter.start()
            if sender is not None:
                sender.start()
            exporter.run(stop)
        finally:
            server.close()
            if sender is not None:
                sender.close()


@contextmanager
def _until_signalled(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` at SIGINT or SIGTERM instead of ending at once."""
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``, or of ``PORT`` (this machine only).

    Raises:
        typer.BadParameter: it is no address.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT", param_hint="--listen")
    return host, int(port)


def buckets_of(text: str) -> list[float]:
    """Return the bounds of ``0.01,0.1,1``, ascending.

    Raises:
        typer.BadParameter: one is not a number above 0.
    """
    try:
        bounds = sorted({float(part) for part in text.split(",")})
    except ValueError:
        bounds = []
    if not bounds or not bounds[0] > 0 or not bounds[-1] < float("inf"):
        raise typer.BadParameter(f"{text!r} is not a list of seconds above 0", param_hint="--buckets")
    return bounds


def _labels(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in RESPONSE_LABELS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is not one of {', '.join(RESPONSE_LABELS)}", param_hint="--labels")
    return names


def _name(text: str) -> str:
    if text and not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", text):
        raise typer.BadParameter(f"{text!r} is not the name of a metric", param_hint="--alias")
    return text
