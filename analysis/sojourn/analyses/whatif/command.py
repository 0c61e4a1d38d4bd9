"""``sojourn whatif``: predict response times under a different configuration.

It replays the measured arrivals and service times, first under the recorded configuration, then under each variant.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sojourn.invocation.answer import answer
from sojourn.invocation.completion import beginning
from sojourn.invocation.options import (
    AppLogFormatOption,
    AppLogs,
    AsJson,
    LogFormatOption,
    Quiet,
    Since,
    Sources,
    Spans,
    TableColumns,
    Until,
    Where,
    WorkersOption,
    workers_of,
)
from sojourn.invocation.progress import pairs
from sojourn.invocation.reading import requests_of
from sojourn.model.errors import SojournError

# Columns whose values do not share workers: a replay of one value omits no request that affects the others.
WHOLE = ("service", "upstream", "proxy")


def whatif(
    sources: Sources,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting to change; all --set together are one variant. workers=+1, backends=3, balancer=least_conn, "
            "discipline=lifo, timeout=30, retries=1, load=x1.5, cores=+1, dependency=0.5, service:/export=x0.5, "
            "pool:/export=1 …",
        ),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,…", help="A separate variant. Repeatable. Default: common changes."),
    ] = None,
    workers: WorkersOption = None,
    closed_loop: Annotated[
        bool,
        typer.Option("--closed-loop", help="Clients wait for an answer: a faster system receives more requests."),
    ] = False,
    rank: Annotated[
        str,
        typer.Option(
            metavar="p99|p90|p50|mean|goodput",
            help="Rank variants by this.",
            autocompletion=beginning(("p99", "p90", "p50", "mean", "goodput")),
        ),
    ] = "p99",
    force: Annotated[
        bool, typer.Option("--force", help="Predict even if the replay does not match the measurements.")
    ] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BACKEND=NAME",
            help="Host of a backend, whose processors its services share. Repeatable. Default: by the address.",
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Cores of each host: more workers are predicted only if services that compute would not be slowed.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of random choices.")] = 0,
    spans: Spans = None,
    app_log: AppLogs = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    app_log_format: AppLogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Replay the recorded requests under another configuration.

    Workers, balancer, order, time-outs, load. The recorded configuration is replayed first. If its mean or p99 is off
    by more than 15 %, no prediction is made, and the likely reason is printed (exit code 1).
    """
    counts = workers_of(workers)
    shared = [column for column in pairs(where or [], "--where") if column not in WHOLE]
    if shared:
        raise typer.BadParameter(
            f"{shared[0]} cannot select requests: a replay needs every request that shares the workers; "
            f"use {', '.join(WHOLE)}",
            param_hint="--where",
        )
    texts = [settings] if settings else []
    texts += [[part.strip() for part in one.split(",") if part.strip()] for one in variant or []]
    variants = [pairs(parts, "--set" if parts is settings else "--variant") for parts in texts]
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.whatif.analysis import RANKS  # noqa: PLC0415
    from sojourn.analyses.whatif.run import whatif as run  # noqa: PLC0415
    from sojourn.analyses.whatif.variants import change_of  # noqa: PLC0415 - numba takes its time to load

    if rank not in RANKS:
        raise typer.BadParameter(f"{rank!r} is not one of {', '.join(RANKS)}", param_hint="--rank")
    try:
        for one in variants:
            change_of(one)
    except SojournError as error:
        raise typer.BadParameter(str(error), param_hint="--set") from None
    columns = ("remote_addr", "connection")
    requests = requests_of(
        sources,
        workers=counts,
        spans=spans,
        app_log=app_log,
        app_log_format=app_log_format,
        since=since,
        until=until,
        where=where,
        columns=columns,
        log_format=log_format,
        table_columns=table_columns,
        quiet=quiet,
    )
    result = run(
        requests, variants, workers=counts, closed_loop=closed_loop, rank=rank, force=force, seed=seed,
        host=pairs(host or [], "--host"), cores=cores,
    )  # fmt: skip
    answer(result, as_json=as_json, doubts=doubts_of(requests))
    if not result.variants and result.withheld:
        raise SojournError(f"no prediction: {result.withheld[0].reason}" if as_json else "no prediction")
    if result.refused and not force:
        raise SojournError(f"no prediction: {result.refused}" if as_json else "no prediction")
