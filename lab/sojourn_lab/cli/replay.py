"""`sojourn lab replay`: make a scenario from a log's arrivals and service times, and run it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from sojourn.invocation.options import Quiet, Since, Sources, Spans, Until, Where, WorkersOption, workers_of
from sojourn.invocation.progress import pairs
from sojourn.invocation.reading import requests_of
from sojourn.model.errors import SojournError
from sojourn.model.formatting import counted

from sojourn_lab.cli.common import (
    FAILURE,
    RUNS,
    USAGE,
    AsJson,
    fail,
    plainly,
    print_json,
    print_record,
    run_in_good_order,
)
from sojourn_lab.cli.new import write_new
from sojourn_lab.errors import LabError
from sojourn_lab.results.run_folder import RunFolder
from sojourn_lab.scenario.files import scenario_from_text
from sojourn_lab.scenario.topology import Server

if TYPE_CHECKING:
    from sojourn_lab.experiments.replay.workload import Replay

WHOLE = ("service", "upstream", "proxy")
"""Columns whose values share no workers: a filter by them keeps all requests that compete for the same workers."""


@plainly
def replay(
    sources: Sources,
    *,
    scenario_out: Annotated[
        Path | None, typer.Option(help="Write the scenario to this new file.", metavar="FILE")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Run the scenario.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run; it must not exist. Default: runs/replay-<UTC time>.")
    ] = None,
    speed: Annotated[
        float,
        typer.Option(
            metavar="X", min=0.01, max=100.0, help="Multiply the arrival rate by X; service times do not change."
        ),
    ] = 1.0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Use the earliest N requests only.")] = None,
    server: Annotated[Server, typer.Option(help="Kind of app server.")] = "gunicorn",
    workers: WorkersOption = None,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0.01, max=10.0, help="Largest relative difference of a figure from the original's."
        ),
    ] = 0.25,
    keep_routes: Annotated[bool, typer.Option("--keep-routes", help="Keep the names of routes.")] = False,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    spans: Spans = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a scenario from a log: its arrivals and service times, anonymised, on as many backends and workers."""
    if scenario_out is None and not run:
        fail("give --scenario-out FILE, --run, or both", USAGE)
    pool_workers = workers_of(workers)
    shared = [column for column in pairs(where or [], "--where") if column not in WHOLE]
    if shared:
        fail(
            f"--where {shared[0]}: a replay needs every request that shares the workers; filter by"
            f" {', '.join(WHOLE)} only",
            USAGE,
        )
    from sojourn_lab.experiments.replay.scenario import replay_toml  # noqa: PLC0415
    from sojourn_lab.experiments.replay.workload import COLUMNS, replay_of  # noqa: PLC0415 - Polars is slow to import

    try:
        requests = requests_of(
            sources, spans=spans, since=since, until=until, where=where, columns=COLUMNS, quiet=quiet
        )
    except SojournError as error:
        raise LabError(str(error)) from None
    workload = replay_of(requests.rows, workers=pool_workers, limit=limit, speed=speed, keep_routes=keep_routes)
    text = replay_toml(workload, server=server, tolerance=tolerance)
    scenario = scenario_from_text(text, "the replay")
    if scenario_out is not None:
        write_new(scenario_out, text)
    if not run:
        _print(workload, scenario_out, as_json)
        return
    if not as_json:
        _print(workload, scenario_out, as_json)
    folder = RunFolder.claimed(out) if out is not None else RunFolder.claimed_by_time(RUNS, scenario.name)
    record = run_in_good_order(scenario, 1.0, folder, quiet)
    print_record(record, folder.final, as_json)
    if not record.passed:
        raise typer.Exit(FAILURE)


def _print(workload: Replay, file: Path | None, as_json: bool) -> None:
    about = {
        "requests": len(workload.at),
        "seconds": workload.at[-1],
        "rate": workload.rate,
        "routes": len(set(workload.routes)),
        "tiers": [
            {"backends": each.backends, "workers": each.workers, "source": each.source} for each in workload.tiers
        ],
        "balancer": workload.balancer,
        "proxy_read_timeout": workload.patience,
        "original": vars(workload.original),
        "read": workload.read,
        "drawn": workload.drawn,
        "left_early": workload.left_early,
        "left_out": {"not_proxied": workload.not_proxied, "refused": workload.refused, "repeated": workload.repeated},
        "file": None if file is None else str(file),
    }
    if as_json:
        print_json(about)
        return
    console = Console()
    tiers = ", ".join(f"{each.backends} × {each.workers} workers ({each.source})" for each in workload.tiers)
    console.print(
        f"{counted(len(workload.at), 'request')} in {workload.at[-1]:,.1f} s ({workload.rate:,.4g}/s), "
        f"{counted(len(set(workload.routes)), 'route')};"
        f" {tiers}; {workload.balancer}; nginx waits {workload.patience:g} s"
    )
    console.print(
        f"of {workload.read:,} read, left out: {workload.not_proxied} not sent to a backend, {workload.refused} refused"
        f" by every worker, {workload.repeated} duplicates; {workload.drawn} without a service time got one of their"
        f" route's; {workload.left_early} were abandoned by their client"
    )
    if file is not None:
        console.print(f"scenario: {file}", markup=False, soft_wrap=True)
