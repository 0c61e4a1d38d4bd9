"""``sojourn capacity``: at which load does an objective break?

Measures, per window: requests that arrived, requests that were completed, requests in the system between arrival and
completion, and how long those that arrived took.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sojourn.analyses.capacity.sizing import INSTANCES, sized
from sojourn.invocation.answer import answer, print_json
from sojourn.invocation.completion import beginning
from sojourn.invocation.options import AsJson, LogFormatOption, Quiet, Since, TableColumns, Until, Where, conditions_of
from sojourn.invocation.progress import instant
from sojourn.invocation.reading import requests_of
from sojourn.model.errors import SojournError


def capacity(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="Log files, globs, -, Parquet files, run folders, stores. None for --per-instance alone.",
        ),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="FIGURE=LIMIT", help="p99=0.5, mean=…, p50, p90, p99.9 (s), errors=0.01. Repeatable."),
    ] = None,
    target_rate: Annotated[
        float | None, typer.Option(metavar="RATE", help="Compute the number of instances for this rate, requests/s.")
    ] = None,
    headroom: Annotated[
        float, typer.Option(metavar="SHARE", min=0, help="Additional capacity as a share of the target, such as 0.3.")
    ] = 0.0,
    instance: Annotated[
        str,
        typer.Option(
            metavar="|".join(INSTANCES),
            help="Instance: the whole system, or each upstream address.",
            autocompletion=beginning(INSTANCES),
        ),
    ] = "system",
    per_instance: Annotated[
        float | None, typer.Option(metavar="RATE", help="Requests/s that one instance sustains, if known.")
    ] = None,
    window: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Width of a window. Default: about 60 windows.")
    ] = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    log_format: LogFormatOption = None,
    table_columns: TableColumns = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the load at which an objective breaks.

    With the scalability law, and instances for a target rate. From a ramp, or from many windows of different load.
    Throughput against the number of requests in the system.
    """
    if instance not in INSTANCES:
        raise typer.BadParameter(f"{instance!r} is not one of {', '.join(INSTANCES)}", param_hint="--instance")
    _positive(target_rate, "--target-rate")
    _positive(per_instance, "--per-instance")
    _positive(window, "--window")
    if target_rate is not None and per_instance is None and not slo:
        raise typer.BadParameter("instances need --slo (and a source), or --per-instance", param_hint="--target-rate")
    if not sources:
        if target_rate is None or per_instance is None:
            raise typer.BadParameter("give a source, or --target-rate with --per-instance", param_hint="SOURCE")
        _print_sizing(target_rate, headroom, per_instance, as_json=as_json)
        return
    from sojourn.analyses.capacity.knee import Slo  # noqa: PLC0415 - NumPy takes its time to load

    try:
        slos = [Slo.of(text) for text in slo or ()]
    except SojournError as error:
        raise typer.BadParameter(str(error), param_hint="--slo") from None
    from sojourn.analyses.audit.reading import doubts_of  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.capacity.run import capacity as run  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.readers.inputs import NamedSources  # noqa: PLC0415

    # A store sends a row a window instead of every request, so it is named to the analysis.
    narrowed: dict[str, Any] = {"since": instant(since), "until": instant(until), "where": conditions_of(where or [])}
    requests: Any = NamedSources.of(sources)
    doubts: tuple[str, ...] = ()
    if requests.only_store is None:
        requests = requests_of(
            sources,
            since=since,
            until=until,
            where=where,
            log_format=log_format,
            table_columns=table_columns,
            quiet=quiet,
        )
        narrowed, doubts = {}, doubts_of(requests)
    result = run(
        requests, slo=slos, target_rate=target_rate, headroom=headroom, instance=instance, per_instance=per_instance,
        window=window, **narrowed,
    )  # fmt: skip
    answer(result, as_json=as_json, doubts=doubts)


def _print_sizing(target_rate: float, headroom: float, per_instance: float, *, as_json: bool) -> None:
    sizing = sized(target_rate, headroom, per_instance)
    if as_json:
        print_json({"sizing": sizing.to_dict()})
        return
    from sojourn.analyses.capacity.section import sizing_section  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.present.terminal import show  # noqa: PLC0415

    show(sizing_section(sizing))


def _positive(value: float | None, option: str) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter("must be a number above 0", param_hint=option)
