"""``sojourn capacity``: how far from the cliff?

Measures, per window: requests that arrived, requests that were completed, requests in the system between arrival and
completion, and how long those that arrived took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.common import instant
from sojourn.cli.completion import beginning
from sojourn.cli.sources import AsJson, Quiet, Since, Until, Where, answer, conditions_of, split_of

if TYPE_CHECKING:
    from sojourn.timeline.load_windows import LoadWindows

INSTANCES = ("system", "upstream")


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
        float | None, typer.Option(metavar="RATE", help="Requests/s to find the number of instances for.")
    ] = None,
    headroom: Annotated[float, typer.Option(metavar="SHARE", min=0, help="So much more than the target: 0.3.")] = 0.0,
    instance: Annotated[
        str,
        typer.Option(
            metavar="|".join(INSTANCES),
            help="What an instance is: all of it, or an upstream address.",
            autocompletion=beginning(INSTANCES),
        ),
    ] = "system",
    per_instance: Annotated[
        float | None, typer.Option(metavar="RATE", help="Requests/s that an instance bears, where it is known.")
    ] = None,
    window: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Width of a window. Default: about 60 windows.")
    ] = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
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
        _told(target_rate, headroom, per_instance, as_json=as_json)
        return
    from sojourn.analyses.capacity.knee import Slo  # noqa: PLC0415
    from sojourn.model.errors import SojournError  # noqa: PLC0415

    try:
        slos = [Slo.of(text) for text in slo or ()]
    except SojournError as error:
        raise typer.BadParameter(str(error), param_hint="--slo") from None
    from sojourn.analyses.capacity.analysis import capacity as run  # noqa: PLC0415 - Polars takes its time to load
    from sojourn.analyses.capacity.section import capacity_section  # noqa: PLC0415

    windows = _windows(sources, since, until, where, window, by_instance=instance == "upstream", quiet=quiet)
    found = run(windows, slos=slos, target_rate=target_rate, headroom=headroom, per_instance=per_instance)
    answer(found.to_dict(), capacity_section(found), as_json=as_json)


def _windows(
    sources: list[str],
    since: str | None,
    until: str | None,
    where: list[str] | None,
    width: float | None,
    *,
    by_instance: bool,
    quiet: bool,
) -> LoadWindows:
    from sojourn.readers.inputs import only_store  # noqa: PLC0415

    dsn = only_store(sources)
    if dsn is None:
        from sojourn.timeline.load_windows import load_windows  # noqa: PLC0415

        result = split_of(sources, since=since, until=until, where=where, quiet=quiet)
        return load_windows(result.rows, width=width, by_instance=by_instance)
    from sojourn.analyses.capacity.store import store_load_windows  # noqa: PLC0415
    from sojourn.model.frame import Selection  # noqa: PLC0415

    selection = Selection.of(instant(since), instant(until), conditions_of(where or []))
    return store_load_windows(dsn, selection, width=width, by_instance=by_instance)


def _told(target_rate: float, headroom: float, per_instance: float, *, as_json: bool) -> None:
    from sojourn.analyses.capacity.section import sizing_section  # noqa: PLC0415
    from sojourn.analyses.capacity.sizing import sized  # noqa: PLC0415

    sizing = sized(target_rate, headroom, per_instance)
    answer({"sizing": sizing.to_dict()}, sizing_section(sizing), as_json=as_json)


def _positive(value: float | None, option: str) -> None:
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter("must be a number above 0", param_hint=option)
